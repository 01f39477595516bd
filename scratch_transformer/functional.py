"""The equations of the Transformer, each written once.

Everything else in the package calls these functions. They are built from tensor operations alone: no `torch.nn` layer,
no `torch.nn.functional`. Shapes: `*` is any number of leading dimensions, C the number of classes or channels.

Half precision: float16 and bfloat16 are computed in float32 and rounded once at the end, as in torch's own kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from scratch_transformer import checks
from scratch_transformer.by_hand import (
    activations,
    are_taken,
    differentiated_by,
    equations_alone,
    loss,
    normalization,
    turning,
)
from scratch_transformer.by_hand.loss import pick
from scratch_transformer.precision import rounded_once, widen


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = x Wᵀ + b.

    Args:
        x: (*, in_features).
        weight: W, (out_features, in_features), strided or sparse; or (in_features,): one feature, without a dimension.
        bias: b, (out_features,), or None.

    Returns:
        (*, out_features).

    Raises:
        RuntimeError: the last dimension of `x` is not in_features, `bias` has another shape, or the dtypes differ.
    """
    checks.check_linear(x, weight, bias)
    if weight.dim() == 1:
        return x @ weight
    is_strided = weight.layout == torch.strided
    if bias is None and is_strided:
        return x @ weight.T
    rows, transposed = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), weight.t()
    if bias is None:
        y = rows.mm(transposed)
    else:  # addmm rounds x Wᵀ + b once; in half precision `x @ weight.T + bias` would round twice
        y = torch.addmm(bias, rows, transposed) if is_strided else rows.mm(transposed) + bias
    return y.reshape(*x.shape[:-1], weight.shape[0])


def embedding(
    ids: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Row `ids[i]` of the table `weight` for every i.

    Args:
        ids: (*), integers in [0, num_embeddings).
        weight: (num_embeddings, d_model).
        padding_idx: the row that receives no gradient.
        scale_grad_by_freq: divide each row's gradient by the number of times that its id occurs in `ids`.
        sparse: the table's gradient is a sparse tensor of the rows that were looked up.

    Returns:
        (*, d_model).

    Raises:
        IndexError: an id is outside [0, num_embeddings).
        RuntimeError: `ids` are not int64 or int32, or a sparse gradient is to be scaled by frequency.
    """
    checks.check_ids(ids, scale_grad_by_freq and sparse)
    flat = ids.flatten().long()
    try:
        rows = _SparseRows.apply(weight, flat, padding_idx) if sparse else weight.index_select(0, flat)
    except IndexError:
        raise IndexError(
            f"embedding: ids must be in [0, {weight.shape[0]}), but range from {int(ids.min())} to {int(ids.max())}: "
            "index out of range in self"
        ) from None
    if scale_grad_by_freq:
        frequency = rows.new_zeros(weight.shape[0]).index_add_(0, flat, rows.new_ones(flat.numel()))
        share = (1 / frequency)[flat].unsqueeze(-1)
        rows = rows.detach() + (rows - rows.detach()) * share  # the value of rows, `share` of its gradient
    rows = rows.reshape(*ids.shape, weight.shape[1])
    if padding_idx is not None and not sparse:
        rows = torch.where((ids == padding_idx).unsqueeze(-1), rows.detach(), rows)
    return rows


class _SparseRows(torch.autograd.Function):
    """Rows of a table; the gradient is a sparse tensor of these rows, without those of padding_idx."""

    @staticmethod
    def forward(weight: Tensor, flat: Tensor, padding_idx: int | None) -> Tensor:
        return weight.index_select(0, flat)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int | None], output: Tensor) -> None:
        weight, flat, padding_idx = inputs
        ctx.save_for_backward(flat if padding_idx is None else flat[flat != padding_idx])
        ctx.kept = None if padding_idx is None else flat != padding_idx
        ctx.shape = weight.shape

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (flat,) = ctx.saved_tensors
        rows = grad if ctx.kept is None else grad[ctx.kept]
        return torch.sparse_coo_tensor(flat.unsqueeze(0), rows, ctx.shape, check_invariants=False), None, None


def sinusoidal_positions(
    length: int, d_model: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)).

    Computed in float64 and then rounded, so that late positions stay distinct in every dtype. An odd d_model has one
    sine more than cosines. Source: Vaswani et al. 2017, section 3.5.

    Returns:
        (length, d_model).
    """
    pos = torch.arange(length, device=device).unsqueeze(1)  # (length, 1)
    two_i = torch.arange(0, d_model, 2, device=device, dtype=torch.float64)  # (ceil(d_model / 2),)
    angles = pos / 10000 ** (two_i / d_model)
    interleaved = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # sin, cos, sin, cos, ...
    return interleaved[:, :d_model].to(dtype or torch.get_default_dtype())


@dataclass(frozen=True)
class RotaryScaling:
    """Slower rotary turns, for texts longer than those that a model was first trained on.

    Every frequency is divided by `factor`; source: Chen et al. 2023. With the other three, as in Llama 3.1, pairs that
    turn more than high_frequency_factor times within original_length tokens keep theirs, those that turn less than
    low_frequency_factor times are divided by `factor`, and between the two the share that is kept grows linearly.

    Raises:
        ValueError: factor is not positive, only some of the other three are given, or they are not 0 < low < high and
            0 < original_length.
    """

    factor: float
    low_frequency_factor: float | None = None
    high_frequency_factor: float | None = None
    original_length: int | None = None

    def __post_init__(self) -> None:
        checks.check_rotary_scaling(self)

    def __call__(self, frequencies: Tensor) -> Tensor:
        """Radians per position -> the same, scaled."""
        kept: Tensor | float = 0.0
        if self.original_length and self.low_frequency_factor and self.high_frequency_factor:
            turns = self.original_length * frequencies / (2 * math.pi)
            low, high = self.low_frequency_factor, self.high_frequency_factor
            kept = ((turns - low) / (high - low)).clamp(0, 1)
        return frequencies * (kept + (1 - kept) / self.factor)


def rotary_turns(positions: Tensor, d: int, base: float = 10_000.0, scaling: RotaryScaling | None = None) -> Tensor:
    """cos θ and sin θ of the angles θ = pos · base^(-2i/d), i = 0 … d/2 - 1, by which `rotary` turns each pair.

    In float64: in float32 the angles of late positions would be off by more than their cosines are rounded. A model
    computes them once for all layers. Source: Su et al. 2021, section 3.2.2.

    Args:
        positions: (*, L), any numbers.
        d: the features of a head, even.
        base: how slow the last pair turns: some 2π base positions for a whole turn.
        scaling: slower turns, for long texts.

    Returns:
        (2, *, L, d/2), float64: cosines, then sines.

    Raises:
        ValueError: d is odd or not positive, or base is not positive.
    """
    checks.check_rotary("rotary_turns", d, base)
    two_i = torch.arange(0, d, 2, device=positions.device, dtype=torch.float64)
    frequencies = base ** (-two_i / d)  # (d/2,)
    frequencies = frequencies if scaling is None else scaling(frequencies)
    angles = positions.unsqueeze(-1) * frequencies  # (*, L, d/2)
    return torch.stack((angles.cos(), angles.sin()))


@rounded_once
def rotary(x: Tensor, turns: Tensor, interleaved: bool = False) -> Tensor:
    """(a, b) -> (a cos θ - b sin θ, a sin θ + b cos θ) for every pair (a, b) of features. Source: Su et al. 2021.

    A turn keeps lengths, and the scalar product of a query and a key depends on the difference of their angles alone.

    Args:
        x: (*, L, d), queries or keys.
        turns: what `rotary_turns` returns, (2, *, L, d/2); all but the first dimension broadcast to those of a pair.
        interleaved: pair neighbours, features 2i and 2i + 1, as the paper does; otherwise feature i and i + d/2, as
            most models since do.

    Returns:
        (*, L, d).

    Raises:
        RuntimeError: `x` is not floating-point, or turns don't fit it.
    """
    checks.check_turns(x, turns)
    return _rotary(x, turns.to(x.dtype), interleaved)


@differentiated_by(turning.Rotary)
def _rotary(x: Tensor, turns: Tensor, interleaved: bool) -> Tensor:
    cos, sin = turns
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1) if interleaved else x.chunk(2, -1)  # (*, L, d/2) each
    turned = (a * cos - b * sin, a * sin + b * cos)
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """y = x · m / (1 - p) with m ~ Bernoulli(1 - p) for every element; y = x outside training.

    On CPU the same seed drops the same elements as torch's dropout. Source: Srivastava et al. 2014; Vaswani et al.
    2017, section 5.4.

    Raises:
        ValueError: p is outside [0, 1].
    """
    checks.check_probability("dropout", p)
    if p == 0 or not training or x.numel() == 0:
        return x
    factors = dropout_factors(x, p)
    return x.mul_(factors) if inplace else x * factors


def dropout_factors(x: Tensor, p: float) -> Tensor:
    """m / (1 - p) with m ~ Bernoulli(1 - p) for every element of x."""
    # p = 1 keeps nothing: 0/0 must not become NaN
    return torch.zeros_like(x) if p == 1 else torch.empty_like(x).bernoulli_(1 - p).div_(1 - p)


@rounded_once
def softmax(x: Tensor, dim: int) -> Tensor:
    """softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ) along `dim`.

    Computed on x - max(x), which changes nothing mathematically and keeps exp from overflowing.

    Raises:
        RuntimeError: `x` is not floating-point.
        IndexError: `x` has no dimension `dim`.
    """
    checks.check_floating("softmax", x)
    if x.numel() == 0:
        return x
    x = x.contiguous()  # torch's result is contiguous whatever the input is; the same below
    exponentials = (x - x.detach().amax(dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim, keepdim=True)


@rounded_once
def log_softmax(x: Tensor, dim: int) -> Tensor:
    """log softmax(x)ᵢ = xᵢ - log Σⱼ exp(xⱼ) along `dim`, on x - max(x) like `softmax`."""
    if x.numel() == 0:
        return x
    x = x.contiguous()
    shifted = x - x.detach().amax(dim, keepdim=True)
    return shifted - shifted.exp().sum(dim, keepdim=True).log()


def relu(x: Tensor, inplace: bool = False) -> Tensor:
    """relu(x) = max(0, x), with derivative 0 at x = 0. NaN stays NaN.

    Raises:
        RuntimeError: `x` is boolean.
    """
    checks.check_numbers("relu", x)
    if inplace:
        return x.masked_fill_(x <= 0, 0)
    return _relu(x)


@differentiated_by(activations.Relu)
def _relu(x: Tensor) -> Tensor:
    return torch.where(x <= 0, 0, x)


@rounded_once
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """gelu(x) = x Φ(x), Φ the standard normal distribution function. Source: Hendrycks & Gimpel 2016.

    approximate="none": Φ(x) = ½ (1 + erf(x / √2)).
    approximate="tanh": Φ(x) ≈ ½ (1 + tanh(√(2/π) (x + 0.044715 x³))), at most 4.8e-4 away.

    Raises:
        RuntimeError: another `approximate`.
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', but got {approximate!r}")
    return _gelu_erf(x) if approximate == "none" else _gelu_tanh(x)


@differentiated_by(activations.GeluErf)
def _gelu_erf(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))


@differentiated_by(activations.GeluTanh)
def _gelu_tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@rounded_once
def sigmoid(x: Tensor) -> Tensor:
    """σ(x) = 1 / (1 + exp(-x)).

    Raises:
        RuntimeError: `x` is not floating-point.
    """
    checks.check_floating("sigmoid", x)
    return _sigmoid(x)


@differentiated_by(activations.Sigmoid)
def _sigmoid(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.tanh(0.5 * x))  # the same number, without an ∞ on the way whose derivative is none


def silu(x: Tensor, inplace: bool = False) -> Tensor:
    """silu(x) = x σ(x), σ the logistic function `sigmoid`. Source: Hendrycks & Gimpel 2016; Elfwing et al. 2017.

    Raises:
        RuntimeError: `x` is not floating-point.
    """
    checks.check_floating("silu", x)
    return x.copy_(_silu(x.clone())) if inplace else _silu(x)


@rounded_once
@differentiated_by(activations.Silu)
def _silu(x: Tensor) -> Tensor:
    return x * sigmoid(x)


@rounded_once
def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x - μ) / √(σ² + ε) · γ + β, with μ and σ² = mean (x - μ)² over the last `len(normalized_shape)` dimensions.

    σ² divides by n, not by n - 1, and ε stands inside the root. Source: Ba et al. 2016, equation 3.

    Args:
        x: (*, *normalized_shape).
        weight, bias: γ and β, each of normalized_shape, or None.

    Raises:
        RuntimeError: `x` does not end in normalized_shape, or the dtypes differ.
    """
    checks.check_normalized("layer_norm", x, normalized_shape, weight=weight, bias=bias)
    x, dims = x.contiguous(), tuple(range(-len(normalized_shape), 0))
    if are_taken(x, weight, bias):
        return _layer_norm_by_hand(x, weight, bias, len(dims), eps)
    centred = x - x.mean(dims, keepdim=True)
    variance = centred.square().mean(dims, keepdim=True)
    return _scale_and_shift(centred / torch.sqrt(variance + eps), weight, bias)


@differentiated_by(normalization.LayerNorm)
def _layer_norm_by_hand(x: Tensor, weight: Tensor | None, bias: Tensor | None, count: int, eps: float) -> Tensor:
    with equations_alone():
        return layer_norm(x, x.shape[-count:], weight, bias, eps)


@rounded_once
def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """y = x / √(mean x² + ε) · γ over the last `len(normalized_shape)` dimensions. Source: Zhang & Sennrich 2019.

    ε = None stands for the machine epsilon of the dtype that is computed in.

    Raises:
        ValueError: `x` has fewer dimensions than normalized_shape.
        RuntimeError: `x` does not end in normalized_shape, or the dtypes differ.
    """
    if x.dim() < len(normalized_shape):
        raise ValueError(f"rms_norm: x has shape {tuple(x.shape)}, but must end in {normalized_shape=}")
    checks.check_normalized("rms_norm", x, normalized_shape, weight=weight)
    dims, eps = tuple(range(-len(normalized_shape), 0)), torch.finfo(x.dtype).eps if eps is None else eps
    if are_taken(x, weight):
        return _rms_norm_by_hand(x, weight, len(dims), eps)
    mean_square = x.square().mean(dims, keepdim=True)
    return _scale_and_shift(x / torch.sqrt(mean_square + eps), weight)


@differentiated_by(normalization.RMSNorm)
def _rms_norm_by_hand(x: Tensor, weight: Tensor | None, count: int, eps: float) -> Tensor:
    with equations_alone():
        return rms_norm(x, x.shape[-count:], weight, eps)


@rounded_once
def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x - μ) / √(σ² + ε) · γ + β for every channel. Source: Ioffe & Szegedy 2015, algorithm 1.

    Layer normalization takes μ and σ² over the features of one token; batch normalization takes them over all
    examples and positions of one feature (`channel_statistics`), or from the running averages.

    Args:
        x: (N, C) or (N, C, L).
        mean, variance, weight, bias: μ, σ², γ, β, each (C,).

    Raises:
        RuntimeError: the dtypes differ.
    """
    checks.check_same_dtype("batch_norm", x, mean=mean, variance=variance, weight=weight, bias=bias)

    def per_channel(v: Any) -> Any:
        return None if v is None else v.reshape(-1, *[1] * (x.dim() - 2))  # (C,) or (C, 1)

    normalized = (x - per_channel(mean)) / torch.sqrt(per_channel(variance) + eps)
    return _scale_and_shift(normalized, per_channel(weight), per_channel(bias))


def channel_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (dividing by n) of every channel of x, (N, C) or (N, C, L): two tensors (C,)."""
    wide = widen(x)
    dims = [dim for dim in range(x.dim()) if dim != 1]
    mean = wide.mean(dims, keepdim=True)
    return mean.flatten(), (wide - mean).square().mean(dims)


@rounded_once
def cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """ℓ = -Σ_c w_c q_c log p_c, with p = softmax(logits) and q = (1 - ε) target + ε / C.

    Args:
        logits: (C,), (N, C) or (N, C, d₁, …, d_K).
        target: class indices, of the shape of `logits` without C (a target one-hot in the equation), or class
            probabilities, of the shape of `logits`.
        weight: w, (C,), or None for all ones.
        ignore_index: index targets with this value contribute nothing; negative where targets are probabilities.
        reduction: "none", "sum", or "mean": the sum divided by Σ w_target over the targets that count (index
            targets), or by their number (probabilities).
        label_smoothing: ε in [0, 1]. Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.

    Raises:
        IndexError: a target index is outside [0, C) and is not ignore_index.
        RuntimeError, ValueError: shapes, dtypes, label_smoothing or reduction are not as above.
    """
    class_dim = 0 if logits.dim() == 1 else 1
    checks.check_cross_entropy(logits, target, weight, ignore_index, reduction, label_smoothing, class_dim)
    if target.is_floating_point():
        q = (1 - label_smoothing) * target + label_smoothing / max(1, logits.shape[class_dim])
        losses = -(_weighted_log_softmax(logits, weight) * q).sum(class_dim)
        return _reduce(losses, reduction, losses.numel())

    counts = target != ignore_index
    index = target.where(counts, 0).long()
    if logits.dim() == 2 and weight is None:
        losses = _losses_of_rows(logits, index, label_smoothing)
    else:
        losses = _losses_of_indices(logits, index, label_smoothing, weight)
    losses = losses.masked_fill(~counts, 0)
    return _reduce(losses, reduction, (counts if weight is None else weight[index] * counts).sum())


def _losses_of_indices(logits: Tensor, index: Tensor, label_smoothing: float, weight: Tensor | None = None) -> Tensor:
    class_dim = 0 if logits.dim() == 1 else 1
    weighted = _weighted_log_softmax(logits, weight)
    losses = -pick(weighted, index, class_dim)
    if label_smoothing > 0:
        losses = (1 - label_smoothing) * losses - label_smoothing * weighted.mean(class_dim)
    return losses


_losses_of_rows = differentiated_by(loss.Surprise)(_losses_of_indices)


@rounded_once
def linear_cross_entropy(
    x: Tensor, linear_weight: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """`cross_entropy(linear(x, linear_weight), target, …)`, in training without keeping the logits.

    They are the largest tensor of a language model: tokens times vocabulary. Under autocast, logits of half precision
    become float32.

    Args:
        x: (N, d).
        linear_weight: W, (C, d).
        target: class indices, (N,), or class probabilities, (N, C).
        ignore_index, reduction, label_smoothing: as in `cross_entropy`, with its errors and those of `linear`.
    """
    has_total = reduction in ("mean", "sum") and 0 <= label_smoothing <= 1
    has_indices = x.dim() == 2 and target.shape == x.shape[:1] and target.dtype in (torch.int64, torch.uint8)
    if has_total and has_indices and are_taken(x, linear_weight):
        checks.check_linear(x, linear_weight, None)
        counts = target != ignore_index
        factors = counts.to(x.dtype)
        factors = factors / counts.sum() if reduction == "mean" else factors
        has_gradients = torch.is_grad_enabled() and (x.requires_grad or linear_weight.requires_grad)
        index = target.where(counts, 0).long()
        return _total_of_products(x, linear_weight, index, factors, label_smoothing, has_gradients)
    logits = widen(linear(x, linear_weight))
    return cross_entropy(logits, target, None, ignore_index, reduction, label_smoothing)


@differentiated_by(loss.SurpriseOfProducts)
def _total_of_products(
    x: Tensor, weight: Tensor, index: Tensor, factors: Tensor, label_smoothing: float, has_gradients: bool
) -> Tensor:
    return (_losses_of_indices(linear(x, weight), index, label_smoothing) * factors).sum()


def _weighted_log_softmax(logits: Tensor, weight: Tensor | None) -> Tensor:
    class_dim = 0 if logits.dim() == 1 else 1
    log_p = log_softmax(logits, class_dim)
    return log_p if weight is None else log_p * weight.reshape(-1, *[1] * (logits.dim() - 1 - class_dim))


def _scale_and_shift(x: Tensor, weight: Tensor | None, bias: Tensor | None = None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _reduce(losses: Tensor, reduction: str, count: Tensor | int) -> Tensor:
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.sum() / count
