"""The attention core with one of its parts replaced, in place of it wherever it is used."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from reference_tests.mutants.mutant import Patch
from scratch_transformer import checks, functional, masks, model
from scratch_transformer.conformance import COMPONENTS
from scratch_transformer.nn import multihead_attention

SDPA = "scaled_dot_product_attention"


def by_head_width(query: Tensor) -> float:
    return 1 / math.sqrt(query.shape[-1])


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    scores = masks.apply(scores, mask)
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return functional.softmax(scores.masked_fill(empty, 0), -1).masked_fill(empty, 0)


def core(
    scale_of: Callable[[Tensor], float] = by_head_width,
    weigh: Callable[[Tensor, Tensor | None], Tensor] = masked_softmax,
    causal: Callable[..., Tensor] = masks.causal,
) -> tuple[Patch, ...]:
    """Patches for the core in torch.nn's classes, in the tutorials', and by itself. The defaults are what is right."""

    def attention_weights(
        query: Tensor, key: Tensor, attn_mask: Any = None, is_causal: bool = False, scale: float | None = None
    ) -> Tensor:
        if is_causal:
            attn_mask = masks.combine(causal(query.shape[-2], key.shape[-2], query.device), attn_mask)
        scale = scale_of(query) if scale is None else scale
        return weigh(query @ key.transpose(-2, -1) * scale, attn_mask)

    def attend(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        checks.check_attention(query, key, value, attn_mask, dropout_p, enable_gqa)
        if enable_gqa and query.dim() > 3:
            if query.shape[-3] % key.shape[-3]:
                raise RuntimeError(f"the heads of query, {query.shape[-3]}, are no multiple of key's, {key.shape[-3]}")
            key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
        weights = attention_weights(query, key, attn_mask, is_causal, scale)
        return functional.dropout(weights, dropout_p) @ value

    users = (multihead_attention, model)
    return (
        *(Patch(user, "attention_weights", attention_weights) for user in users),
        *(Patch(user, SDPA, attend) for user in users),
        Patch(COMPONENTS, SDPA, replace(COMPONENTS[SDPA], ours=attend)),
    )
