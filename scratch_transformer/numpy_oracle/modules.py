"""Linear, norms and Dropout as named submodules: `name` finds their parameters, and their gradients carry it."""

from __future__ import annotations

from .arrays import Array, Cache, Gradients, Parameters, parameter, prefixed
from .dropout import KeepMasks, dropout, keep_mask
from .linear import linear, linear_backward
from .normalization import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward


def named_linear(x: Array, parameters: Parameters, name: str) -> tuple[Array, Cache]:
    """`linear` with the parameters `name`.weight and, if there is one, `name`.bias."""
    y, cache = linear(x, parameter(parameters, f"{name}.weight"), parameters.get(f"{name}.bias"))
    return y, (name, cache)


def named_linear_backward(dy: Array, cache: Cache) -> tuple[Array, Gradients]:
    """Return (dx, parameter gradients)."""
    name, inner = cache
    dx, dweight, dbias = linear_backward(dy, inner)
    return dx, prefixed(name, {"weight": dweight, "bias": dbias})


def named_layer_norm(x: Array, parameters: Parameters, name: str, eps: float) -> tuple[Array, Cache]:
    """`layer_norm` over the last dimension with the parameters `name`.weight and, if there is one, `name`.bias."""
    weight = parameter(parameters, f"{name}.weight")
    y, cache = layer_norm(x, weight.shape, weight, parameters.get(f"{name}.bias"), eps)
    return y, (name, cache)


def named_layer_norm_backward(dy: Array, cache: Cache) -> tuple[Array, Gradients]:
    """Return (dx, parameter gradients)."""
    name, inner = cache
    dx, dweight, dbias = layer_norm_backward(dy, inner)
    return dx, prefixed(name, {"weight": dweight, "bias": dbias})


def named_rms_norm(x: Array, parameters: Parameters, name: str, eps: float) -> tuple[Array, Cache]:
    """`rms_norm` over the last dimension with the parameter `name`.weight."""
    weight = parameter(parameters, f"{name}.weight")
    y, cache = rms_norm(x, weight.shape, weight, eps)
    return y, (name, cache)


def named_rms_norm_backward(dy: Array, cache: Cache) -> tuple[Array, Gradients]:
    """Return (dx, parameter gradients)."""
    name, inner = cache
    dx, dweight = rms_norm_backward(dy, inner)
    return dx, prefixed(name, {"weight": dweight})


def named_dropout(x: Array, p: float, keep_masks: KeepMasks | None, name: str) -> tuple[Array, Cache]:
    """`dropout` with the keep-mask called `name`; the identity in eval mode (`keep_masks=None`) and for p = 0."""
    return dropout(x, p, keep_mask(keep_masks, name, p))
