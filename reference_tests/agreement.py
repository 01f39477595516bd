"""Two implementations of one function, compared in their results and in the gradients of everything they were given."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils._pytree import tree_leaves, tree_map_only

from scratch_transformer.conformance.compare import DEFINITION, relative_error


def assert_equal(actual, expected, tolerance=DEFINITION, what="result"):
    """The same structure, shapes, dtypes, NaNs and infinities, and values to a relative error in the maximum norm."""
    actual, expected = _by_name(actual, what), _by_name(expected, what)
    assert list(actual) == list(expected)
    # what is zero by mathematics, the gradient of a key's bias for one, is measured beside the others
    least_scale = max((_largest(x) for x in expected.values()), default=0.0) / 100
    for name, tensor in expected.items():
        error = relative_error(actual[name], tensor, least_scale)
        assert error <= tolerance, f"{name}: relative error {error:.2g}\n{actual[name]}\nis not\n{tensor}"


def assert_agree(ours, builtin, *args, tolerance=DEFINITION, **kwargs):
    """Equal results and gradients of two functions or modules. The same seed before both: dropout drops the same."""
    actual, expected = (differentiate(function, *args, **kwargs) for function in (ours, builtin))
    assert_equal(actual, expected, tolerance)


def differentiate(function, *args, **kwargs):
    """The result, and the gradients of all floating-point arguments and parameters for random upstream gradients."""
    args, kwargs = tree_map_only(Tensor, as_leaf, (args, kwargs))
    torch.manual_seed(0)
    result = function(*args, **kwargs)
    parameters = dict(function.named_parameters()) if isinstance(function, Module) else {}
    return {"result": detach(result), "gradient": gradients(result, {"arguments": (args, kwargs), **parameters})}


def gradients(result, inputs):
    """The gradients of `inputs`, any structure, for random upstream gradients of `result`; None where there is none."""
    results = [x for x in tree_leaves(result) if isinstance(x, Tensor) and x.requires_grad]
    wanted = [x for x in tree_leaves(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not results or not wanted:
        return []
    generator = torch.Generator().manual_seed(1)
    upstream = [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x) for x in results]
    return list(torch.autograd.grad(results, wanted, upstream, allow_unused=True))


def as_leaf(tensor):
    """A copy, with the same strides, that collects gradients if it can."""
    if not tensor.is_floating_point():
        return tensor
    base = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return base.copy_(tensor.detach()).requires_grad_() if _fills_memory(tensor) else tensor.detach().requires_grad_()


def detach(result):
    return tree_map_only(Tensor, torch.detach, result)


def _fills_memory(tensor):
    """Whether no two elements share memory, as they do after expand()."""
    return all(stride != 0 for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)


def _by_name(tree, what):
    if isinstance(tree, Tensor):
        return {what: tree}
    parts = tree if isinstance(tree, dict) else dict(enumerate(tree)) if isinstance(tree, (tuple, list)) else {}
    return {name: tensor for key, part in parts.items() for name, tensor in _by_name(part, f"{what} {key}").items()}


def _largest(tensor):
    finite = tensor[tensor.isfinite()].double().abs()
    return finite.max().item() if finite.numel() else 0.0
