"""Parameters: names, shapes, dtypes, initial values, and their way between the two libraries."""

import inspect
import io

import pytest
import torch

from reference_tests.agreement import assert_equal
from reference_tests.nn.examples import QUIET, build, draw, every_constructor, every_module, make
from scratch_transformer import nn

pytestmark = QUIET

FACTORY_ARGUMENTS = {"device", "dtype"}


def describe(module):
    return {
        "state": [(key, tuple(value.shape), value.dtype) for key, value in module.state_dict().items()],
        "parameters": [(key, tuple(p.shape), p.dtype, p.requires_grad) for key, p in module.named_parameters()],
        "buffers": [(key, tuple(b.shape), b.dtype) for key, b in module.named_buffers()],
        "versions": dict(module.state_dict()._metadata),
    }


def makes_tensors(component):
    return set(inspect.signature(component.builtin).parameters) >= FACTORY_ARGUMENTS


@every_constructor
def test_names_shapes_and_dtypes(component, case):
    ours, builtin = map(describe, build(component, case))
    assert ours == builtin


# Written down, so that both libraries changing together is noticed too

ATTENTION = ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
SEPARATE = ["q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ATTENTION),
        ({"bias": False}, ["in_proj_weight", "out_proj.weight"]),
        ({"kdim": 5}, SEPARATE),
        ({"vdim": 5, "bias": False}, ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"]),
        ({"add_bias_kv": True}, ["in_proj_weight", "in_proj_bias", "bias_k", "bias_v", *ATTENTION[2:]]),
        ({"add_zero_attn": True}, ATTENTION),
    ],
    ids=str,
)
def test_state_dict_of_multihead_attention(arguments, expected):
    for library in (nn, torch.nn):
        assert list(library.MultiheadAttention(6, 3, **arguments).state_dict()) == expected


def test_state_dict_of_transformer():
    E, FF = 6, 10
    attention = {
        "in_proj_weight": (3 * E, E),
        "in_proj_bias": (3 * E,),
        "out_proj.weight": (E, E),
        "out_proj.bias": (E,),
    }
    feed_forward = {"linear1.weight": (FF, E), "linear1.bias": (FF,), "linear2.weight": (E, FF), "linear2.bias": (E,)}

    def norms(*names):
        return {f"{name}.{key}": (E,) for name in names for key in ("weight", "bias")}

    def under(prefix, shapes):
        return {f"{prefix}.{key}": shape for key, shape in shapes.items()}

    encoder_layer = {**under("self_attn", attention), **feed_forward, **norms("norm1", "norm2")}
    decoder_layer = {
        **under("self_attn", attention),
        **under("multihead_attn", attention),
        **feed_forward,
        **norms("norm1", "norm2", "norm3"),
    }
    expected = {
        **under("encoder.layers.0", encoder_layer),
        **norms("encoder.norm"),
        **under("decoder.layers.0", decoder_layer),
        **under("decoder.layers.1", decoder_layer),
        **norms("decoder.norm"),
    }
    for library in (nn, torch.nn):
        module = library.Transformer(E, 2, 1, 2, FF, batch_first=True)
        assert {key: tuple(value.shape) for key, value in module.state_dict().items()} == expected
        assert list(module.state_dict()) == list(expected)


# ---- Initial values ----


@every_constructor
def test_the_same_seed_gives_bitwise_the_same_parameters(component, case):
    states = []
    for factory in (component.ours, component.builtin):
        torch.manual_seed(3)
        module = component.build(factory, case.init)
        states.append({**module.state_dict(), "next draw": torch.rand(3)})
    assert list(states[0]) == list(states[1])
    for key, value in states[1].items():
        assert torch.equal(states[0][key], value), key


@every_constructor
def test_resetting_gives_bitwise_the_same_parameters(component, case):
    for name in ("reset_parameters", "_reset_parameters", "reset_running_stats"):
        if not hasattr(component.builtin, name):
            continue
        ours, builtin = make(component, case)
        for module in (ours, builtin):
            torch.manual_seed(4)
            getattr(module, name)()
        for key, value in builtin.state_dict().items():
            assert torch.equal(ours.state_dict()[key], value), (name, key)


# ---- device and dtype ----


@every_constructor
def test_dtype(component, case):
    if not makes_tensors(component):
        assert not FACTORY_ARGUMENTS & set(inspect.signature(component.ours).parameters)
        return
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        modules = []
        for factory in (component.ours, component.builtin):
            torch.manual_seed(5)
            modules.append(component.build(factory, {**case.init, "dtype": dtype}))
        ours, builtin = modules
        assert describe(ours) == describe(builtin)
        assert all(p.dtype == dtype for p in ours.parameters())
        for key, value in builtin.state_dict().items():
            assert torch.equal(ours.state_dict()[key], value), key


@every_constructor
def test_meta_device(component, case):
    """No memory, then memory, then values: how large models are loaded."""
    arguments = {"device": "meta"} if makes_tensors(component) else {}
    with torch.device("meta"):
        by_context = component.build(component.ours, case.init)
    by_argument = component.build(component.ours, {**case.init, **arguments})
    builtin = component.build(component.builtin, case.init)
    for module in (by_context, by_argument) if arguments else (by_context,):
        assert all(p.is_meta for p in module.parameters())
        assert all(b.is_meta for b in module.buffers()) or not arguments  # the loss's weights were given
        made = module.to_empty(device="cpu")
        made.load_state_dict(builtin.state_dict())
        assert_equal(dict(made.state_dict()), dict(builtin.state_dict()), tolerance=0)


@every_module
def test_factory_arguments_are_honoured_everywhere(component, device):
    if not makes_tensors(component):
        return
    module = component.build(component.ours, {**component.cases[0].init, "device": device, "dtype": torch.float64})
    tensors = [*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())]
    assert tensors
    assert {(t.device.type, t.dtype) for t in tensors} == {(device.type, torch.float64)}


@every_module
def test_the_default_dtype_is_honoured(component):
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        module = component.build(component.ours, component.cases[0].init)
    finally:
        torch.set_default_dtype(default)
    assert {p.dtype for p in module.parameters()} <= {torch.float64}


# ---- Between the libraries, and through files ----


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@every_constructor
def test_saved_by_one_loaded_by_the_other(component, case):
    ours, builtin = make(component, case)
    arguments, options = draw(case)
    for source, target in ((ours, builtin), (builtin, ours), (ours, ours)):
        factory = component.ours if target is ours else component.builtin
        fresh = component.build(factory, case.init).double().train(case.training)
        state = through_a_file(source.state_dict())
        result = fresh.load_state_dict(state, strict=True)
        assert (result.missing_keys, result.unexpected_keys) == ([], [])
        assert_equal(dict(fresh.state_dict()), dict(source.state_dict()), tolerance=0)
        torch.manual_seed(0)
        actual = fresh(*arguments, **options)
        torch.manual_seed(0)
        assert_equal(actual, source(*arguments, **options))
        fresh.load_state_dict(state)  # training, and max_norm, change what belongs to the module
        source.load_state_dict(state)


@every_constructor
def test_a_state_dict_that_does_not_fit_is_refused_as_by_torch(component, case):
    ours, builtin = make(component, case)
    state = ours.state_dict()
    if not state:
        return
    first = next(iter(state))
    without = {key: value for key, value in state.items() if key != first}
    reshaped = {**state, first: torch.zeros(*state[first].shape, 2)}
    for bad in (without, {**state, "surplus": torch.zeros(1)}, reshaped):
        messages = []
        for module in (ours, builtin):
            with pytest.raises(RuntimeError) as error:
                module.load_state_dict(bad)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


@every_constructor
def test_assigning_instead_of_copying(component, case):
    ours, builtin = make(component, case)
    state = {key: value.clone() for key, value in builtin.state_dict().items()}
    ours.load_state_dict(state, assign=True)
    for key, value in ours.state_dict(keep_vars=True).items():
        assert value.data_ptr() == state[key].data_ptr(), key
