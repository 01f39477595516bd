"""What `MultiheadAttention` and the stacks refuse, at the call, in words: which argument, what it was, what was expected.

The exception types are torch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from scratch_transformer.nn.multihead_attention import MultiheadAttention


def refuse_nested(module: object, **tensors: Tensor) -> None:
    """Nested tensors are a layout of their own; a padded tensor and a mask say the same."""
    for name, tensor in tensors.items():
        if tensor.is_nested:
            raise NotImplementedError(
                f"{type(module).__name__}: {name} is a nested tensor, which is not supported; "
                "pass a padded tensor and a key_padding_mask instead"
            )


def check_attention_inputs(
    module: MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool,
) -> None:
    """The checks of `MultiheadAttention.forward`, from the ranks to the sizes."""
    refuse_nested(module, query=query, key=key, value=value)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint: is_causal=True only says that attn_mask is the causal mask "
            "(Transformer.generate_square_subsequent_mask makes one), but attn_mask is None"
        )
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor of shape "
            f"{tuple(query.shape)}"
        )
    batch_rank = query.dim() - 2  # 1 if batched, else 0
    _check_rank("key", key, (query.dim(),), query)
    _check_rank("value", value, (query.dim(),), query)
    _check_rank("key_padding_mask", key_padding_mask, (1 + batch_rank,), query)
    _check_rank("attn_mask", attn_mask, (2, 3), query)
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
    _check_sizes(module, query, key, key_padding_mask, attn_mask)


def _check_rank(name: str, tensor: Tensor | None, ranks: tuple[int, ...], query: Tensor) -> None:
    if tensor is not None and tensor.dim() not in ranks:
        kind = "batched (3-D)" if query.dim() == 3 else "unbatched (2-D)"
        wanted = " or ".join(f"{rank}-D" for rank in ranks)
        raise AssertionError(
            f"For {kind} `query`, expected `{name}` to be {wanted} but found {tensor.dim()}-D tensor of shape "
            f"{tuple(tensor.shape)}"
        )


def _check_sizes(
    module: MultiheadAttention, query: Tensor, key: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None
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
        expected = (T, S) if attn_mask.dim() == 2 else (B * module.num_heads, T, S)
        if tuple(attn_mask.shape) != expected:
            kind = AssertionError if attn_mask.dim() == 3 and not is_batched else RuntimeError
            raise kind(
                f"The shape of the {attn_mask.dim()}D attn_mask is {tuple(attn_mask.shape)}, but should be {expected}"
            )
