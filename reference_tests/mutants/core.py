"""The attention core as the kit computes it by recipe, in place of the reference's wherever it is used."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from reference_tests.mutants.mutant import Patch
from scratch_transformer import checks, functional, masks, model
from scratch_transformer.conformance import COMPONENTS
from scratch_transformer.kit.canonical import core as canonical
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.nn import multihead_attention

SDPA = "scaled_dot_product_attention"


def core(changes: Mapping[str, Any]) -> tuple[Patch, ...]:
    """Patches for the core in torch.nn's classes, in the tutorials', and by itself. changes: of the right recipe."""
    recipe = RIGHT.with_(changes)

    def attention_weights(
        query: Tensor, key: Tensor, attn_mask: Any = None, is_causal: bool = False, scale: float | None = None
    ) -> Tensor:
        T, S = query.shape[-2], key.shape[-2]
        if is_causal:
            causal = canonical.other_causal(masks.causal(T, S, query.device), recipe.causal)
            attn_mask = masks.combine(causal, attn_mask)
        heads = query.shape[-3] if query.dim() > 2 else 1
        scale = canonical.scale(recipe, query.shape[-1], heads, S) if scale is None else scale
        scores = query @ key.transpose(-2, -1) * scale
        if attn_mask is None:
            return canonical.masked_softmax(scores, None, recipe)
        if attn_mask.dtype != torch.bool:
            scores = scores + attn_mask
            attn_mask = scores != -torch.inf
            scores = scores.masked_fill(~attn_mask, 0.0)
        return canonical.masked_softmax(scores, attn_mask, recipe)

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
