"""Layers that torch.nn has no module for, put together from torch.nn.functional with the same weights."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.kit.kind import Settings, State
from scratch_transformer.kit.kinds.layers import builtin_mlp
from scratch_transformer.kit.kinds.rotary import turned
from scratch_transformer.kit.recipe import Recipe

functional = torch.nn.functional


def is_torch_attention(settings: Settings, recipe: Recipe) -> bool:
    """Whether nn.MultiheadAttention can be this: as many keys as queries, of d_model / h features, nothing turned."""
    shares = settings.get("num_kv_heads") or settings.get("d_k")
    return not shares and recipe.rotary == "none" and not recipe.qk_norm


def is_torch_layer(settings: Settings, recipe: Recipe) -> bool:
    """Whether nn.TransformerEncoderLayer can be this."""
    usual = recipe.norm_kind == "norm" and recipe.norm_scale == "weight" and not recipe.gated
    usual = usual and recipe.norm_order in ("pre", "post")
    return usual and recipe.activation != "relu squared" and is_torch_attention(settings, recipe)


def norm(x: Tensor, recipe: Recipe, state: State, prefix: str) -> Tensor:
    weight, bias = state[f"{prefix}.weight"], state[f"{prefix}.bias"]
    weight = weight + 1 if recipe.norm_scale == "1 + weight" else weight
    if recipe.norm_kind == "rms":
        return functional.rms_norm(x, x.shape[-1:], weight, 1e-5) + bias
    return functional.layer_norm(x, x.shape[-1:], weight, bias)


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, settings: Settings, recipe: Recipe, state: State,
    prefix: str = "",
) -> Tensor:  # fmt: skip
    """Projections, rotary positions, and scaled_dot_product_attention with shared keys and values."""
    h = settings["num_heads"]
    kv, base = settings.get("num_kv_heads") or h, settings.get("rope_base", 10000.0)

    def project(name: str, x: Tensor) -> Tensor:
        return functional.linear(x, state[f"{prefix}{name}.weight"], state[f"{prefix}{name}.bias"])

    def heads(name: str, x: Tensor, number: int) -> Tensor:
        x, is_wide = project(f"w_{name}", x), settings.get("wide_qk_norm")
        is_normed = recipe.qk_norm and name != "v"
        x = norm(x, recipe, state, f"{prefix}{name}_norm") if is_normed and is_wide else x
        x = x.unflatten(-1, (number, -1)).transpose(1, 2)
        if name == "v":
            return x
        x = norm(x, recipe, state, f"{prefix}{name}_norm") if is_normed and not is_wide else x
        return x if recipe.rotary == "none" else turned(x, torch.arange(x.shape[2]), base, recipe)

    q, k, v = heads("q", query, h), heads("k", key, kv), heads("v", value, kv)
    merged = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    return project("w_o", merged.transpose(1, 2).flatten(2))


def layer(
    x: Tensor, mask: Tensor | None, settings: Settings, recipe: Recipe, state: State, prefix: str,
    memory: Tensor | None = None, memory_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Self-attention, cross-attention to a memory if there is one, and feed-forward network, in the recipe's order."""

    def attend(x: Tensor) -> Tensor:
        return attention(x, x, x, mask, settings, recipe.within("self_attn"), state, f"{prefix}self_attn.")

    def cross(x: Tensor) -> Tensor:
        assert memory is not None
        own = recipe.within("cross_attn")
        return attention(x, memory, memory, memory_mask, settings, own, state, f"{prefix}cross_attn.")

    def feed(x: Tensor) -> Tensor:
        return builtin_mlp(x, recipe, state, f"{prefix}feed_forward.")

    if recipe.norm_order == "parallel":
        second = "norm2" if recipe.norms == "own" else "norm1"
        first, other = (norm(x, recipe, state, f"{prefix}{name}") for name in ("norm1", second))
        return x + attend(first) + feed(other)
    for number, sublayer in enumerate([attend, feed] if memory is None else [attend, cross, feed], start=1):
        path = f"{prefix}norm{number}"
        if recipe.norm_order == "norm on the output":
            x = x + norm(sublayer(x), recipe, state, path)
        elif recipe.norm_order == "pre":
            x = x + sublayer(norm(x, recipe, state, path))
        else:
            x = norm(x + sublayer(x), recipe, state, path)
    return x
