"""The components without attention, each with torch.nn's name, constructor and forward arguments."""

from __future__ import annotations

from collections.abc import Sequence

from ..activations import (
    gelu,
    gelu_backward,
    log_softmax,
    log_softmax_backward,
    relu,
    relu_backward,
    silu,
    silu_backward,
    softmax,
    softmax_backward,
)
from ..arrays import Array
from ..dropout import dropout, dropout_backward, keep_mask
from ..linear import embedding, embedding_backward, linear, linear_backward
from ..normalization import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from . import shapes
from .component import Component, Gradients


class Linear(Component):
    """y = x Wᵀ + b."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.shapes = shapes.linear(in_features, out_features, bias)

    def forward(self, input: Array) -> Array:
        """(..., in_features) to (..., out_features)."""
        y, self.cache = linear(input, self.state["weight"], self.state.get("bias"))
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `linear_backward`."""
        dx, dweight, dbias = linear_backward(dy, self.cache)
        return {"input": dx}, {"weight": dweight, "bias": dbias}


class Embedding(Component):
    """Rows of a table."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        if max_norm is not None:
            raise NotImplementedError(f"Embedding(max_norm={max_norm}): it changes the table in the forward pass")
        self.options = {"padding_idx": padding_idx, "scale_grad_by_freq": scale_grad_by_freq}
        self.shapes = {"weight": (num_embeddings, embedding_dim)}

    def forward(self, input: Array) -> Array:
        """Ids (...) to (..., embedding_dim)."""
        y, self.cache = embedding(input, self.state["weight"], **self.options)  # type: ignore[arg-type]
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `embedding_backward`; the gradient is dense, with `sparse` too."""
        return {}, {"weight": embedding_backward(dy, self.cache)}


class Dropout(Component):
    """x m / (1 - p), with m = keep_masks[""]."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = p

    def forward(self, input: Array) -> Array:
        """Any shape."""
        y, self.cache = dropout(input, self.p, keep_mask(self.keep_masks, "", self.p))
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `dropout_backward`."""
        return {"input": dropout_backward(dy, self.cache)}, {}


class ReLU(Component):
    """max(x, 0)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()

    def forward(self, input: Array) -> Array:
        """Any shape."""
        y, self.cache = relu(input)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `relu_backward`."""
        return {"input": relu_backward(dy, self.cache)}, {}


class GELU(Component):
    """x Φ(x)."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Array) -> Array:
        """Any shape."""
        y, self.cache = gelu(input, self.approximate)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `gelu_backward`."""
        return {"input": gelu_backward(dy, self.cache)}, {}


class SiLU(Component):
    """x σ(x)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()

    def forward(self, input: Array) -> Array:
        """Any shape."""
        y, self.cache = silu(input)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `silu_backward`."""
        return {"input": silu_backward(dy, self.cache)}, {}


class Softmax(Component):
    """exp(x_i) / Σ_j exp(x_j)."""

    function, function_backward = staticmethod(softmax), staticmethod(softmax_backward)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        if dim is None:
            raise NotImplementedError(f"{type(self).__name__}(dim=None): torch's guess of dim is deprecated")
        self.dim = dim

    def forward(self, input: Array) -> Array:
        """Any shape."""
        y, self.cache = self.function(input, self.dim)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `softmax_backward` and `log_softmax_backward`."""
        return {"input": self.function_backward(dy, self.cache)}, {}


class LogSoftmax(Softmax):
    """Log of the softmax."""

    function, function_backward = staticmethod(log_softmax), staticmethod(log_softmax_backward)


class LayerNorm(Component):
    """w (x - μ) / √(var(x) + ε) + b."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _as_shape(normalized_shape), eps
        self.shapes = shapes.affine(self.normalized_shape, elementwise_affine, elementwise_affine and bias)

    def forward(self, input: Array) -> Array:
        """(..., *normalized_shape) to the same."""
        weight, bias = self.state.get("weight"), self.state.get("bias")
        y, self.cache = layer_norm(input, self.normalized_shape, weight, bias, self.eps)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `layer_norm_backward`."""
        dx, dweight, dbias = layer_norm_backward(dy, self.cache)
        return {"input": dx}, {"weight": dweight, "bias": dbias}


class RMSNorm(Component):
    """w x / √(mean(x²) + ε); eps=None is float64's machine epsilon, so name ε to compare with float32."""

    inputs = ("x",)

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _as_shape(normalized_shape), eps
        self.shapes = shapes.affine(self.normalized_shape, elementwise_affine, bias=False)

    def forward(self, x: Array) -> Array:
        """(..., *normalized_shape) to the same."""
        y, self.cache = rms_norm(x, self.normalized_shape, self.state.get("weight"), self.eps)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `rms_norm_backward`."""
        dx, dweight = rms_norm_backward(dy, self.cache)
        return {"x": dx}, {"weight": dweight}


def _as_shape(size: int | Sequence[int]) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)
