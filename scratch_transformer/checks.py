"""What the package refuses, at the call, in words: which argument, what it was, what was expected.

The exception types are torch's wherever torch raises. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.precision import is_cast


def check_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """x (*, in_features), weight (out_features, in_features) and bias (out_features,) of one dtype."""
    if min(x.dim(), weight.dim()) == 0:
        raise RuntimeError(
            f"linear: both arguments to linear need to be at least 1D, but x is {x.dim()}D and weight {weight.dim()}D"
        )
    if x.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            f"linear: x has shape {tuple(x.shape)}, but its last dimension must be in_features={weight.shape[-1]} "
            f"of weight {tuple(weight.shape)}: these shapes cannot be multiplied"
        )
    for name, tensor in (("x", x), ("bias", bias)):
        if tensor is not None and tensor.dtype != weight.dtype and not is_cast(x.device):
            raise RuntimeError(f"linear: {name} must have weight's dtype, {weight.dtype}, but has {tensor.dtype}")
    if bias is not None and weight.dim() == 1:
        raise RuntimeError(f"linear: with a bias, weight must be a matrix, but it has shape {tuple(weight.shape)}")
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise RuntimeError(f"linear: bias must have shape ({weight.shape[0]},), not {tuple(bias.shape)}")


def check_ids(ids: Tensor, scales_sparse: bool = False) -> None:
    """Integers, as torch takes them for indices. scales_sparse: a sparse gradient is to be divided by frequencies."""
    if ids.dtype not in (torch.int64, torch.int32):
        raise RuntimeError(
            "embedding: ids must be of an int dtype: Expected tensor for argument #1 'indices' to have one of the "
            f"following scalar types: Long, Int; but got {ids.dtype}"
        )
    if scales_sparse:
        raise RuntimeError("embedding: scale_grad_by_freq not supported with sparse gradients; use sparse=False")


def check_numbers(name: str, x: Tensor) -> None:
    """Anything but booleans."""
    if x.dtype == torch.bool:
        raise RuntimeError(f"{name}: x must be numbers, but is {x.dtype}: Boolean inputs not supported")


def check_floating(name: str, x: Tensor) -> None:
    """A floating-point tensor."""
    if not x.is_floating_point():
        raise RuntimeError(f"{name}: x must be of a floating dtype, but is {x.dtype}: not implemented")


def check_probability(name: str, p: float) -> None:
    """A dropout probability."""
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p, the dropout probability, has to be between 0 and 1, but got {p}")


def check_rotary(name: str, d: int, base: float) -> None:
    """An even number of features, and a base that angles can be computed from."""
    if d <= 0 or d % 2 != 0:
        raise ValueError(f"{name}: d, the number of features, must be even and positive to make pairs, but is {d}")
    if not base > 0:
        raise ValueError(f"{name}: base must be positive, but is {base}")


def check_rotary_scaling(scaling: Any) -> None:
    """A factor; and either nothing else, or all that Llama 3's form needs."""
    if not scaling.factor > 0:
        raise ValueError(f"RotaryScaling: factor must be positive, but is {scaling.factor}")
    low, high, length = scaling.low_frequency_factor, scaling.high_frequency_factor, scaling.original_length
    if low is high is length is None:
        return
    if None in (low, high, length):
        raise ValueError(
            "RotaryScaling: low_frequency_factor, high_frequency_factor and original_length belong together, but are "
            f"{low}, {high} and {length}"
        )
    if not 0 < low < high or not length > 0:
        raise ValueError(
            "RotaryScaling: must have 0 < low_frequency_factor < high_frequency_factor and 0 < original_length, but "
            f"they are {low}, {high} and {length}"
        )


def broadcasts(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Whether a tensor of this shape broadcasts to the other shape."""
    return len(shape) <= len(other) and all(size in (1, wanted) for size, wanted in _from_the_last(shape, other))


def _from_the_last(shape: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes of two shapes that meet when they are broadcast, the last ones first."""
    both = min(len(shape), len(other))  # torch 2.6 doesn't compile a zip of unequal lengths, whatever `strict` says
    return list(zip(shape[::-1][:both], other[::-1][:both], strict=True))


def check_turns(x: Tensor, turns: Tensor) -> None:
    """x (*, L, d) floating-point, and turns (2, *, L, d/2) that broadcast to it without making it larger."""
    check_floating("rotary", x)
    pairs = (*x.shape[:-1], x.shape[-1] // 2) if x.dim() else ()
    shape = tuple(turns.shape[1:])
    fits = broadcasts(shape, pairs)
    if x.dim() < 1 or turns.dim() < 2 or turns.shape[0] != 2 or not fits or shape[-1] * 2 != x.shape[-1]:
        raise RuntimeError(
            f"rotary: turns must be cosines and sines (2, *, L, d/2) that broadcast to the pairs of x (*, L, d), but "
            f"turns has shape {tuple(turns.shape)} and x {tuple(x.shape)}"
        )


def check_features(name: str, x: Tensor, d_model: int) -> None:
    """x (B, L, d_model)."""
    if x.dim() != 3 or x.shape[-1] != d_model:
        raise RuntimeError(f"{name}: x must have shape (B, L, d_model={d_model}), but has {tuple(x.shape)}")


def check_causal_self_attention(
    d_model: int, num_heads: int, num_kv_heads: int, head_dim: int | None, dropout: float
) -> None:
    """Sizes that are positive and divide each other."""
    if min(d_model, num_heads, num_kv_heads, 1 if head_dim is None else head_dim) < 1:
        raise ValueError(
            "CausalSelfAttention: d_model, num_heads, num_kv_heads and head_dim must be positive, but got "
            f"{d_model=}, {num_heads=}, {num_kv_heads=} and {head_dim=}"
        )
    if num_heads % num_kv_heads != 0:
        raise ValueError(
            f"CausalSelfAttention: num_heads must be a multiple of num_kv_heads, got {num_heads=} and {num_kv_heads=}"
        )
    if head_dim is None and d_model % num_heads != 0:
        raise ValueError(
            "CausalSelfAttention: without head_dim, d_model must be a multiple of num_heads, "
            f"got {d_model=} and {num_heads=}"
        )
    check_probability("CausalSelfAttention", dropout)


def check_cached(layer: int, num_layers: int, stored: Tensor | None, key: Tensor, value: Tensor) -> None:
    """A layer that there is, and keys and values (B, G, L, D) that go on with what is stored, (2, B, G, room, D)."""
    if not 0 <= layer < num_layers:
        raise IndexError(f"KeyValueCache: layer must be from 0 to {num_layers - 1}, but is {layer}")
    if key.dim() != 4 or key.shape != value.shape:
        raise RuntimeError(
            "KeyValueCache: key and value must have the same shape (B, G, L, D), but have "
            f"{tuple(key.shape)} and {tuple(value.shape)}"
        )
    if torch.is_grad_enabled() and (key.requires_grad or value.requires_grad):
        raise RuntimeError(
            "KeyValueCache: key and value need gradients, which a cache does not keep; generate under torch.no_grad() "
            "or torch.inference_mode()"
        )
    if stored is None:
        return
    B, G, _, D = key.shape
    if (*stored.shape[1:3], stored.shape[-1]) != (B, G, D) or (key.dtype, key.device) != (stored.dtype, stored.device):
        raise RuntimeError(
            f"KeyValueCache: key must go on with what is stored, {stored.dtype} on {stored.device} with "
            f"(B, G, D) = {(*stored.shape[1:3], stored.shape[-1])}, but is {key.dtype} on {key.device} with {(B, G, D)}"
        )


def check_normalized(name: str, x: Tensor, normalized_shape: Sequence[int], **parameters: Tensor | None) -> None:
    """x (*, *normalized_shape), parameters of normalized_shape and of a dtype that x can be computed in."""
    shape = tuple(normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise RuntimeError(f"{name}: x has shape {tuple(x.shape)}, but must end in normalized_shape={shape}")
    for what, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != shape:
            raise RuntimeError(f"{name}: {what} must have shape normalized_shape={shape}, not {tuple(parameter.shape)}")
    check_same_dtype(name, x, **parameters)


def check_same_dtype(name: str, x: Tensor, **parameters: Tensor | None) -> None:
    """Parameters of x's dtype. Half precision has been widened before, so that float32 parameters go with it."""
    for what, parameter in parameters.items():
        if parameter is not None and parameter.dtype != x.dtype:
            raise RuntimeError(f"{name}: x has dtype {x.dtype}, but {what} has {parameter.dtype}: mixed dtype")


def check_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    class_dim: int,
) -> None:
    """Everything about `functional.cross_entropy` but the range of the targets."""
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(
            f"cross_entropy: reduction={reduction!r} is not a valid value, expected 'none', 'mean' or 'sum'"
        )
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"cross_entropy: label_smoothing must be between 0.0 and 1.0, but got {label_smoothing}")
    if logits.dim() == 0:
        raise RuntimeError("cross_entropy: logits must have a class dimension, (C,) or (N, C, ...), but got a scalar")
    classes = logits.shape[class_dim]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight must have shape ({classes},), one per class, not {tuple(weight.shape)}: "
            f"weight tensor should be defined either for all {classes} classes or no classes"
        )
    if target.is_floating_point():
        if ignore_index >= 0:
            raise RuntimeError(
                "cross_entropy: ignore_index is not supported for floating point target, which has no indices, "
                f"but got ignore_index={ignore_index}"
            )
        if target.shape != logits.shape:
            raise RuntimeError(
                f"cross_entropy: class probabilities need target of the same shape as logits, {tuple(logits.shape)}, "
                f"but got {tuple(target.shape)} (for class indices, expected target dtype to be Long or Byte)"
            )
        return
    if target.dtype not in (torch.int64, torch.uint8):
        raise RuntimeError(
            "cross_entropy: class indices in target must be torch.int64 or torch.uint8: expected target dtype to be "
            f"Long or Byte, but got {target.dtype}"
        )
    expected = logits.shape[:class_dim] + logits.shape[class_dim + 1 :]
    if target.shape == logits.shape:
        raise RuntimeError(
            f"cross_entropy: Expected floating point type for target with class probabilities, got {target.dtype}: "
            f"class indices need target of shape {tuple(expected)} for logits {tuple(logits.shape)}"
        )
    if target.shape != expected:
        is_batch = target.shape[:1] != expected[:1] and logits.dim() > 1
        in_torchs_words = (
            "Expected input batch_size (N) to match target batch_size" if is_batch else "Expected target size"
        )
        raise (ValueError if is_batch else RuntimeError)(
            f"cross_entropy: class indices need target of shape {tuple(expected)} for logits {tuple(logits.shape)}, "
            f"but got {tuple(target.shape)}: {in_torchs_words}"
        )


def check_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    enable_gqa: bool,
    window: tuple[int | None, int | None] = (None, None),
) -> None:
    """query (..., T, D), key (..., S, D), value (..., S, Dv) of one dtype, and a mask that fits the scores.

    Under autocast the dtypes may differ, for the products are computed in one.
    """
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"attention: dropout_p, a probability, has to be between 0 and 1, but is {dropout_p}")
    for name, x in {"query": query, "key": key, "value": value}.items():
        if x.is_nested:
            raise RuntimeError(f"attention: {name} is a nested tensor; pass a padded tensor and a mask instead")
        if x.dim() < 2:
            raise RuntimeError(f"attention: {name} must have at least 2 dimensions, but has shape {tuple(x.shape)}")
        if x.device != query.device or (x.dtype != query.dtype and not is_cast(x.device)):
            raise RuntimeError(
                f"attention: expected query, key and value to have the same dtype and device, but query is "
                f"{query.dtype} on {query.device} and {name} is {x.dtype} on {x.device}"
            )
    if query.shape[-1] != key.shape[-1]:
        raise RuntimeError(
            f"attention: query and key must have the same width, but query is {tuple(query.shape)} "
            f"and key {tuple(key.shape)}"
        )
    if key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            f"attention: every key needs a value, but key is {tuple(key.shape)} and value {tuple(value.shape)}"
        )
    if enable_gqa:
        _check_groups(query, key=key, value=value)
    else:
        _check_batch(query, key=key, value=value)
    if attn_mask is not None:
        _check_mask(query, key, attn_mask)
    if len(window) != 2 or any(side is not None and side < 0 for side in window):
        raise ValueError(
            f"attention: window must be two numbers of keys, before and after, at least 0 or None, but is {window}"
        )


def _check_groups(query: Tensor, **others: Tensor) -> None:
    for name, x in others.items():
        if min(query.dim(), x.dim()) < 3:
            raise RuntimeError(
                f"attention: enable_gqa needs query and {name} with a head dimension, (..., H, length, width)"
            )
        heads, groups = query.shape[-3], x.shape[-3]
        if groups == 0 or heads % groups != 0:
            raise RuntimeError(
                f"attention: with enable_gqa query's number of heads, {heads}, must be a multiple of {name}'s, {groups}"
            )


def _check_batch(query: Tensor, **others: Tensor) -> None:
    for name, x in others.items():
        for size, expected in _from_the_last(x.shape[:-2], query.shape[:-2]):
            if size != expected and 1 not in (size, expected):
                raise RuntimeError(
                    f"attention: query {tuple(query.shape)} and {name} {tuple(x.shape)} must agree in batch and heads "
                    f"(or, with fewer heads in {name}, enable_gqa=True), but {expected} is not {size}"
                )


def _check_mask(query: Tensor, key: Tensor, attn_mask: Tensor) -> None:
    goes = attn_mask.dtype in (torch.bool, torch.float32, query.dtype)
    if not goes and not (attn_mask.is_floating_point() and is_cast(query.device)):
        raise RuntimeError(
            f"attention: attn_mask must be bool, float32 or of query's dtype {query.dtype}, not {attn_mask.dtype}"
        )
    scores_shape = (query.shape[-2], key.shape[-2])
    for size, expected in _from_the_last(attn_mask.shape, scores_shape):
        if size not in (1, expected):
            raise RuntimeError(
                f"attention: attn_mask {tuple(attn_mask.shape)} must broadcast to (..., T, S) = (..., "
                f"{scores_shape[0]}, {scores_shape[1]})"
            )


def refuse_nested(module: object, **tensors: Tensor) -> None:
    """Nested tensors are a layout of their own; a padded tensor and a mask say the same."""
    for name, tensor in tensors.items():
        if tensor.is_nested:
            raise NotImplementedError(
                f"{type(module).__name__}: {name} is a nested tensor, which is not supported; "
                "pass a padded tensor and a key_padding_mask instead"
            )


def check_multihead_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool,
    trusts_hint: bool,
) -> None:
    """The checks of `MultiheadAttention.forward`, from the ranks to the sizes.

    trusts_hint: attn_mask will not be looked at, so its size is not checked (as in torch).
    """
    refuse_nested(module, query=query, key=key, value=value)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint: is_causal=True only says that attn_mask is the causal "
            "mask (Transformer.generate_square_subsequent_mask makes one), but attn_mask is None"
        )
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor of shape "
            f"{tuple(query.shape)}"
        )
    _check_ranks(query, key, value, key_padding_mask, attn_mask)
    if query.shape[-1] != module.embed_dim:
        raise AssertionError(
            f"was expecting embedding dimension of {module.embed_dim} (embed_dim), but query has {query.shape[-1]}: "
            f"its shape is {tuple(query.shape)}"
        )
    if key.shape[:-1] != value.shape[:-1] or (module._qkv_same_embed_dim and key.shape != value.shape):
        raise AssertionError(f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}")
    for name, x, width in (("key", key, module.kdim), ("value", value, module.vdim)):
        if x.shape[-1] != width:
            kind = RuntimeError if module._qkv_same_embed_dim else AssertionError
            raise kind(f"{name} must have {width} features ({name[0]}dim), but its shape is {tuple(x.shape)}")
    _check_sizes(module, query, key, key_padding_mask, None if trusts_hint else attn_mask)


def _check_ranks(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None
) -> None:
    rank = query.dim()
    wants = f"For {'batched (3-D)' if rank == 3 else 'unbatched (2-D)'} `query`, expected"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"{wants} `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
            f": key {tuple(key.shape)}, value {tuple(value.shape)}"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"{wants} `key_padding_mask` to be `None` or {rank - 1}-D but found {key_padding_mask.dim()}-D tensor "
            f"instead: {tuple(key_padding_mask.shape)}"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"{wants} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead: "
            f"{tuple(attn_mask.shape)}"
        )


def _check_sizes(
    module: Any, query: Tensor, key: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None
) -> None:
    batch_dim, length_dim = (0, 1) if module.batch_first else (1, 0)
    is_batched = query.dim() == 3
    B, T, S = (
        (query.shape[batch_dim], query.shape[length_dim], key.shape[length_dim])
        if is_batched
        else (1, len(query), len(key))
    )
    if is_batched and key.shape[batch_dim] != B:
        raise RuntimeError(
            f"query and key must have the same batch size, but with batch_first={module.batch_first} query "
            f"{tuple(query.shape)} has {B} and key {tuple(key.shape)} has {key.shape[batch_dim]}"
        )
    if key_padding_mask is not None:
        expected = (B, S) if is_batched else (S,)
        if tuple(key_padding_mask.shape) != expected:
            raise AssertionError(
                f"expecting key_padding_mask shape of {expected}, but got {tuple(key_padding_mask.shape)}"
            )
    if attn_mask is not None:
        needed = (T, S) if attn_mask.dim() == 2 else (B * module.num_heads, T, S)
        if tuple(attn_mask.shape) != needed:
            got = f"but got {tuple(attn_mask.shape)}"
            if attn_mask.dim() == 3 and not is_batched:
                raise AssertionError(f"Expected `attn_mask` shape to be {needed} {got}")
            raise RuntimeError(f"The shape of the {attn_mask.dim()}D attn_mask should be {needed}, {got}")
