"""How a module behaves among others: copies, hooks, layouts, empty inputs, and what it leaves alone."""

import copy
import io
import pickle

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from reference_tests.agreement import as_leaf, assert_agree, assert_equal, differentiate, gradients
from reference_tests.nn.examples import QUIET, draw, every_case, every_constructor, make, one_case_each
from scratch_transformer import nn

pytestmark = QUIET

B, T, S, E, H, FF = 2, 4, 5, 6, 3, 7
DEPTH = {"num_encoder_layers": 1, "num_decoder_layers": 2, "dim_feedforward": FF, "dropout": 0.0}


def same_call(module, case):
    arguments, options = draw(case)
    torch.manual_seed(0)
    return module(*arguments, **options)


# ---- Copies ----


def pickled(module):
    return pickle.loads(pickle.dumps(module))


def saved_whole(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@one_case_each
@pytest.mark.parametrize("duplicate", [pickled, copy.deepcopy, saved_whole])
def test_a_copy_computes_the_same_and_shares_nothing(component, case, duplicate):
    original, _ = make(component, case)
    original.register_buffer("note", torch.ones(1))
    made = duplicate(original)
    assert type(made) is type(original)
    assert made.training == original.training
    assert_equal(dict(made.state_dict()), dict(original.state_dict()), tolerance=0)
    for parameter in made.parameters():
        parameter.data.add_(1.0)
    made.note.zero_()
    assert original.note.item() == 1
    del made.note, original.note
    for key, value in original.named_parameters():
        assert not torch.equal(value, dict(made.named_parameters())[key])
    made.load_state_dict(original.state_dict())
    assert_equal(same_call(made, case), same_call(original, case), tolerance=0)


@pytest.mark.parametrize("stack", ["TransformerEncoder", "TransformerDecoder"])
def test_the_layers_of_a_stack_are_copies(stack):
    layer = getattr(nn, f"{stack}Layer")(E, H, FF)
    layers = getattr(nn, stack)(layer, 3).layers
    pointers = [p.data_ptr() for part in [layer, *layers] for p in part.parameters()]
    assert len(pointers) == len(set(pointers))
    for made in layers:
        assert_equal(dict(made.state_dict()), dict(layer.state_dict()), tolerance=0)


# ---- Hooks ----


def additive(x):
    """Boolean masks as torch's stacks hand them on to their layers."""
    return torch.zeros(x.shape, dtype=torch.float64).masked_fill(x, -torch.inf) if x.dtype == torch.bool else x


def in_order(keywords):
    return dict(sorted(keywords.items()))


def record(module, case):
    """What the hooks of every part see, forward and backward, call by call: {(kind, path): [...]}."""
    seen = {}

    def note(kind, path, what):
        seen.setdefault((kind, path), []).append(tree_map_only(Tensor, lambda x: additive(x.detach()), what))

    for path, part in module.named_modules():
        part.register_forward_pre_hook(lambda _, args, path=path: note("arguments", path, args))
        part.register_forward_hook(
            lambda _, args, kwargs, result, path=path: note("keywords", path, in_order(kwargs)), with_kwargs=True
        )
        part.register_forward_hook(lambda _, args, result, path=path: note("result", path, result))
        part.register_full_backward_hook(lambda _, into, out, path=path: note("gradient", path, out))
    arguments, options = tree_map_only(Tensor, as_leaf, draw(case))
    torch.manual_seed(0)
    gradients(module(*arguments, **options), (arguments, options, dict(module.named_parameters())))
    return seen


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # where the inputs are integers
@every_constructor
def test_hooks_see_what_they_see_in_torch(component, case):
    """On every part on which torch's fire (never on out_proj, which torch doesn't call as a module)."""
    ours, builtin = (record(module, case) for module in make(component, case))
    assert {("arguments", ""), ("keywords", ""), ("result", "")} <= set(builtin)
    assert set(builtin) <= set(ours)
    # together: of a single token the gradient of the keys is zero by mathematics, and rounding by some processors
    assert_equal(
        *({path: seen["gradient", path] for kind, path in builtin if kind == "gradient"} for seen in (ours, builtin))
    )
    for place, calls in builtin.items():
        if place[0] != "gradient":
            assert_equal(ours[place], calls, what=str(place))
        if place[0] == "keywords":
            assert [list(keywords) for keywords in ours[place]] == [list(keywords) for keywords in calls], place


@one_case_each
def test_hooks_can_replace_arguments_and_results(component, case):
    ours, builtin = make(component, case)
    for module in (ours, builtin):
        module.register_forward_hook(lambda module, args, result: tree_map_only(Tensor, lambda x: -2 * x, result))
    assert_equal(same_call(ours, case), same_call(builtin, case))
    plain, _ = make(component, case)
    assert_equal(same_call(ours, case), tree_map_only(Tensor, lambda x: -2 * x, same_call(plain, case)))


# ---- Layouts, emptiness, and what must not change ----


def strided(x):
    """The same values, every second element of a larger tensor, dimensions in the reverse order of memory."""
    if x.dim() == 0:
        return x
    reversed_dims = tuple(range(x.dim()))[::-1]
    memory = torch.empty(*x.permute(reversed_dims).shape, 2, dtype=x.dtype, device=x.device)
    view = memory[..., 0].permute(reversed_dims)
    return view.copy_(x)


@every_case
def test_inputs_that_are_not_contiguous(component, case, device):
    ours, builtin = make(component, case, device=device)
    arguments, options = tree_map_only(Tensor, strided, draw(case, device=device))
    assert_agree(ours, builtin, *arguments, **options)
    assert_equal(dict(ours.state_dict()), dict(builtin.state_dict()))  # running averages, shortened rows


@every_case
def test_inputs_are_left_as_they_were(component, case):
    module, _ = make(component, case)
    arguments, options = draw(case)
    tensors = [x for x in tree_leaves((arguments, options)) if isinstance(x, Tensor)]
    before = [(x.clone(), x._version) for x in tensors]
    module(*arguments, **options)
    for x, (value, version) in zip(tensors, before, strict=True):
        assert x._version == version
        assert_equal(x, value, tolerance=0)


@every_constructor
def test_frozen_parameters_still_pass_gradients_to_the_inputs(component, case):
    ours, builtin = make(component, case)
    for module in (ours, builtin):
        module.requires_grad_(False)
    arguments, options = draw(case)
    outcomes = [differentiate(module, *arguments, **options) for module in (ours, builtin)]
    assert_equal(*outcomes)


@pytest.mark.parametrize("name", ["ReLU", "Dropout"])
def test_in_place(name):
    """The result is the argument itself, changed; and so with torch's."""
    results = []
    for library in (nn, torch.nn):
        torch.manual_seed(0)
        x = torch.randn(B, E, dtype=torch.float64)
        assert getattr(library, name)(inplace=True)(x) is x
        results.append(x)
    assert torch.equal(*results)
