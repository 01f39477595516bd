"""torch.func: functional_call, grad, vmap, jvp and per-sample gradients give what torch's modules give call by call.

Torch's own modules fail under several of these transforms (fused attention has no forward derivative; a mask is looked
at to see whether it is causal). So the expected values come from the builtins without any transform.
"""

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, jvp, vmap
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from reference_tests.agreement import assert_equal
from reference_tests.nn.examples import CASES, QUIET, draw, make, over, takes

pytestmark = QUIET


def has_parameters(component, case):
    return any(True for _ in component.build(component.ours, case.init).parameters())


# Training draws random numbers or changes buffers, and max_norm changes the table: torch.func permits neither
PURE = [(component, case) for component, case in CASES if not case.training and not takes(case, "max_norm")]
every_pure_case = over(PURE)
with_parameters = over([(component, case) for component, case in PURE if has_parameters(component, case)])


def tensors_of(result):
    return tuple(x for x in tree_leaves(result) if isinstance(x, Tensor))


def split(arguments):
    """The tensors among the arguments, and a function that puts tensors back in their places."""
    leaves, structure = tree_flatten(arguments)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def join(tensors):
        for place, tensor in zip(places, tensors, strict=True):
            leaves[place] = tensor
        return tree_unflatten(list(leaves), structure)

    return [leaves[place] for place in places], join


def total(result):
    """A number that depends on every element differently."""
    return sum((x * torch.linspace(-1, 2, x.numel()).reshape(x.shape).to(x)).sum() for x in tensors_of(result))


def call(module, parameters, arguments):
    args, kwargs = arguments
    return tensors_of(functional_call(module, parameters, args, kwargs))


@with_parameters
def test_functional_call_and_grad(component, case):
    ours, builtin = make(component, case)
    arguments = draw(case)
    args, kwargs = arguments
    parameters = {name: p.detach() for name, p in builtin.named_parameters()}
    for p in ours.parameters():
        p.data.fill_(torch.nan)  # so that the parameters given are the ones used
    actual = grad(lambda parameters: total(call(ours, parameters, arguments)))(parameters)
    expected = torch.autograd.grad(total(builtin(*args, **kwargs)), list(builtin.parameters()))
    assert_equal(list(actual.values()), list(expected))


@every_pure_case
def test_vmap(component, case):
    """Over three calls, each with its own inputs and masks."""
    ours, builtin = make(component, case)
    every = [split(draw(case, seed=seed)) for seed in (1, 2, 3)]
    join = every[0][1]
    stacked = [torch.stack(tensors) for tensors in zip(*(tensors for tensors, _ in every), strict=True)]
    state = dict(ours.state_dict())
    actual = vmap(lambda *tensors: call(ours, state, join(tensors)))(*stacked)
    expected = []
    for tensors, join_one in every:
        args, kwargs = join_one(tensors)
        expected.append(tensors_of(builtin(*args, **kwargs)))
    assert_equal(list(actual), [torch.stack(outputs) for outputs in zip(*expected, strict=True)])


@with_parameters
def test_per_sample_gradients(component, case):
    ours, builtin = make(component, case)
    every = [split(draw(case, seed=seed)) for seed in (1, 2, 3)]
    join = every[0][1]
    stacked = [torch.stack(tensors) for tensors in zip(*(tensors for tensors, _ in every), strict=True)]
    parameters = {name: p.detach() for name, p in ours.named_parameters()}

    def loss(parameters, *tensors):
        return total(call(ours, parameters, join(tensors)))

    actual = vmap(grad(loss), in_dims=(None, *[0] * len(stacked)))(parameters, *stacked)
    expected = []
    for tensors, join_one in every:
        args, kwargs = join_one(tensors)
        expected.append(torch.autograd.grad(total(builtin(*args, **kwargs)), list(builtin.parameters())))
    assert_equal(list(actual.values()), [torch.stack(outputs) for outputs in zip(*expected, strict=True)])


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch uses it for its own forward derivatives
@every_pure_case
def test_jvp(component, case):
    """Forward derivatives along t agree with torch's backward derivatives: ⟨u, J t⟩ = ⟨Jᵀ u, t⟩ for random u and t."""
    ours, builtin = make(component, case)
    tensors, join = split(draw(case))
    places = [i for i, x in enumerate(tensors) if x.is_floating_point()]
    names = [name for name, _ in builtin.named_parameters()]
    values = [*(tensors[i] for i in places), *(p.detach() for p in builtin.parameters())]
    tangents = [torch.randn_like(x).masked_fill(~x.isfinite(), 0) for x in values]  # -inf stays what it is

    def call_with(module, *values):
        given = dict(zip(places, values, strict=False))
        parameters = dict(zip(names, values[len(places) :], strict=True))
        return call(module, parameters, join([given.get(i, x) for i, x in enumerate(tensors)]))

    outputs, forward = jvp(lambda *values: call_with(ours, *values), tuple(values), tuple(tangents))
    leaves = [x.clone().requires_grad_() for x in values]
    expected = call_with(builtin, *leaves)
    assert_equal(list(outputs), [x.detach() for x in expected])
    upstream = [torch.randn_like(x).masked_fill(~x.isfinite(), 0) for x in expected]
    backward = torch.autograd.grad(expected, leaves, upstream, allow_unused=True)
    products = [b * t for b, t in zip(backward, tangents, strict=True) if b is not None]
    left = sum((u * f)[u != 0].sum() for u, f in zip(upstream, forward, strict=True))
    assert abs(left - sum(x.sum() for x in products)) <= 1e-12 * max(sum(x.abs().sum() for x in products), 1e-3)
