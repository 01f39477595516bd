"""Activations: ReLU, GELU in both forms, the logistic function and SiLU, softmax and log-softmax."""

from __future__ import annotations

import math

import numpy as np

from .arrays import Array, Cache, floats, require

erfc = np.vectorize(math.erfc, otypes=[np.float64])


def relu(x: Array) -> tuple[Array, Cache]:
    """y = max(x, 0), elementwise. Source: Vaswani et al. 2017, section 3.3, equation 2."""
    (x,) = floats(x=x)
    return np.maximum(x, 0.0), (x,)


def relu_backward(dy: Array, cache: Cache) -> Array:
    """Return dx = dy [x > 0]: slope 1 where the input passed, else 0; at the kink x = 0 torch takes 0 as well."""
    (x,) = cache
    return dy * (x > 0.0)


def gelu(x: Array, approximate: str = "none") -> tuple[Array, Cache]:
    """y = x Φ(x), elementwise, where Φ is the distribution function of the standard normal.

    "none":  Φ(x) = ½ (1 + erf(x/√2)) = ½ erfc(-x/√2); the second form does not cancel for negative x.
    "tanh":  Φ(x) ≈ ½ (1 + tanh u) with u = √(2/π) (x + 0.044715 x³).

    Source: Hendrycks and Gimpel 2016, section 2.

    Raises:
        ValueError: `approximate` is neither "none" nor "tanh".
    """
    (x,) = floats(x=x)
    require(approximate in ("none", "tanh"), f'gelu: approximate must be "none" or "tanh", but is {approximate!r}')
    if approximate == "none":
        return x * 0.5 * erfc(-x / math.sqrt(2.0)), (x, approximate)
    return x * 0.5 * (1.0 + np.tanh(_tanh_argument(x))), (x, approximate)


def gelu_backward(dy: Array, cache: Cache) -> Array:
    """Return dx = dy (Φ(x) + x Φ'(x)), the product rule on x Φ(x).

    "none":  Φ' is the normal density, Φ'(x) = exp(-x²/2) / √(2π).
    "tanh":  Φ' = ½ (1 - tanh²u) u' with u' = √(2/π) (1 + 3 · 0.044715 x²).
    """
    x, approximate = cache
    if approximate == "none":
        cumulative = 0.5 * erfc(-x / math.sqrt(2.0))
        density = np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)
    else:
        t = np.tanh(_tanh_argument(x))
        cumulative = 0.5 * (1.0 + t)
        density = 0.5 * (1.0 - t**2) * math.sqrt(2.0 / math.pi) * (1.0 + 3.0 * 0.044715 * x**2)
    return dy * (cumulative + x * density)


def _tanh_argument(x: Array) -> Array:
    return np.asarray(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))


def sigmoid(x: Array) -> tuple[Array, Cache]:
    """y = σ(x) = 1 / (1 + exp(-x)), elementwise, as exp(x) / (1 + exp(x)) for negative x: exp cannot overflow."""
    (x,) = floats(x=x)
    small = np.exp(-np.abs(x))
    y = np.where(x < 0, small, 1.0) / (1.0 + small)
    return y, (y,)


def sigmoid_backward(dy: Array, cache: Cache) -> Array:
    """Return dx = dy y (1 - y): σ' = exp(-x) / (1 + exp(-x))² = σ (1 - σ)."""
    (y,) = cache
    return dy * y * (1.0 - y)


def silu(x: Array) -> tuple[Array, Cache]:
    """y = x σ(x), elementwise. Source: Hendrycks and Gimpel 2016, section 2."""
    (x,) = floats(x=x)
    gate, _ = sigmoid(x)
    return x * gate, (x, gate)


def silu_backward(dy: Array, cache: Cache) -> Array:
    """Return dx = dy (σ(x) + x σ(x) (1 - σ(x))), the product rule on x σ(x)."""
    x, gate = cache
    return dy * (gate + x * gate * (1.0 - gate))


def softmax(x: Array, dim: int = -1) -> tuple[Array, Cache]:
    """y_i = exp(x_i) / Σ_j exp(x_j) along `dim`.

    The largest x is subtracted first: it cancels in the fraction, and exp cannot overflow. A row of nothing but -inf
    has no softmax and gives NaN; attention, where such a row means "nothing to attend to", handles it before.
    """
    (x,) = floats(x=x)
    y = np.exp(_below_maximum(x, dim))
    y = y / y.sum(axis=dim, keepdims=True)
    return y, (y, dim)


def softmax_backward(dy: Array, cache: Cache) -> Array:
    """Return dx = y (dy - Σ_j dy_j y_j), the sum along `dim`.

    ∂y_j/∂x_i = y_j (δ_ij - y_i): raising x_i raises its own share and lowers everybody's by y_i. Then

        dx_i = Σ_j dy_j y_j (δ_ij - y_i) = y_i (dy_i - Σ_j dy_j y_j)
    """
    y, dim = cache
    return y * (dy - (dy * y).sum(axis=dim, keepdims=True))


def log_softmax(x: Array, dim: int = -1) -> tuple[Array, Cache]:
    """y_i = log softmax(x)_i = x_i - log Σ_j exp(x_j) along `dim`, with the largest x subtracted first."""
    (x,) = floats(x=x)
    shifted = _below_maximum(x, dim)
    y = shifted - np.log(np.exp(shifted).sum(axis=dim, keepdims=True))
    return y, (y, dim)


def log_softmax_backward(dy: Array, cache: Cache) -> Array:
    """Return dx = dy - softmax(x) Σ_j dy_j, the sum along `dim`.

    ∂y_j/∂x_i = δ_ij - exp(x_i) / Σ_k exp(x_k) = δ_ij - softmax(x)_i, and softmax(x) = exp(y). Then

        dx_i = Σ_j dy_j (δ_ij - exp(y_i)) = dy_i - exp(y_i) Σ_j dy_j
    """
    y, dim = cache
    return dy - np.exp(y) * dy.sum(axis=dim, keepdims=True)


def _below_maximum(x: Array, dim: int) -> Array:
    require(-x.ndim <= dim < x.ndim, f"softmax: dim={dim} is out of range for x of shape {x.shape}")
    with np.errstate(invalid="ignore"):  # -inf - (-inf) in a row of nothing but -inf
        return np.asarray(x - x.max(axis=dim, keepdims=True, initial=-np.inf))
