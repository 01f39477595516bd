"""R, G and K: mistakes in rotary positions, gated feed-forward, grouped queries and the cache."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reference_tests.mutants.mutant import Mutant, Patch, around
from scratch_transformer import functional, nn
from scratch_transformer.attention import naive, scaled_dot_product_attention
from scratch_transformer.nn import causal_self_attention

Original = Callable[..., Any]
plain_rotary, plain_turns = functional.rotary, functional.rotary_turns


def turning(rotary: Callable[..., Tensor]) -> tuple[Patch, ...]:
    return (Patch(functional, "rotary", rotary),)


def other_pairs(x: Tensor, turns: Tensor, interleaved: bool = False) -> Tensor:
    """R1."""
    return plain_rotary(x, turns, not interleaved)


def backwards(x: Tensor, turns: Tensor, interleaved: bool = False) -> Tensor:
    """R7."""
    return plain_rotary(x, turns * turns.new_tensor([1.0, -1.0]).reshape(2, *[1] * (turns.dim() - 1)), interleaved)


def without_minus(x: Tensor, turns: Tensor, interleaved: bool = False) -> Tensor:
    """R6."""
    cos, sin = turns.to(x.dtype)
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1) if interleaved else x.chunk(2, -1)
    turned = (a * cos + b * sin, a * sin + b * cos)
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


def halves_come_out(x: Tensor, turns: Tensor, interleaved: bool = False) -> Tensor:
    """R10."""
    turned = plain_rotary(x, turns, interleaved)
    return turned.unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2) if interleaved else turned


def frequencies(change: Callable[[int], int]) -> tuple[Patch, ...]:
    """R2. With the exponents of another width."""

    def turns(positions: Tensor, d: int, base: float = 10_000.0, scaling: Any = None) -> Tensor:
        exponent = d / change(d)
        return plain_turns(positions, d, base**exponent, scaling)

    return (Patch(functional, "rotary_turns", turns),)


def unscaled(positions: Tensor, d: int, base: float = 10_000.0, scaling: Any = None) -> Tensor:
    """R2."""
    return plain_turns(positions, d, base)


def counted_from_zero(original: Original, module: nn.RotaryEmbedding, x: Tensor, positions: Tensor) -> Tensor:
    """R9."""
    return original(module, x, torch.arange(x.shape[-2], device=x.device))


def values_too(
    original: Original, module: nn.CausalSelfAttention, x: Tensor, norm: Any = None, turns: Tensor | None = None
) -> Tensor:
    """R3. `_heads` gets no turns for the values, so the last that it got are kept."""
    if turns is None:
        turns = getattr(module, "_last_turns", None)
    module._last_turns = turns
    return original(module, x, norm, turns)


def queries_only(
    original: Original, module: nn.CausalSelfAttention, x: Tensor, norm: Any = None, turns: Tensor | None = None
) -> Tensor:
    """R4."""
    is_query = x.shape[-1] == module.num_heads * module.head_dim
    return original(module, x, norm, turns if is_query else None)


def normalized_afterwards(
    original: Original, module: nn.CausalSelfAttention, x: Tensor, norm: Any = None, turns: Tensor | None = None
) -> Tensor:
    """R8. Of two tokens in a row the first half of the features and the second, before the heads are split."""
    if turns is None:
        return original(module, x, norm)
    turned = plain_rotary(x.unflatten(-1, (module.head_dim, -1)).movedim(-1, 1), turns, module.interleaved)
    return original(module, turned.movedim(1, -1).flatten(-2), norm)


# ---- Gates ----


def gate_is(forward: Callable[[nn.GatedFeedForward, Tensor, Callable[[Tensor], Tensor]], Tensor]) -> tuple[Patch, ...]:
    def replaced(original: Original, module: nn.GatedFeedForward, x: Tensor) -> Tensor:
        from scratch_transformer.nn.feed_forward import ACTIVATIONS

        return module.down_proj(forward(module, x, ACTIVATIONS[module.activation]))

    return (around(nn.GatedFeedForward, "forward", replaced),)


# ---- Grouped queries and the cache ----


def repeated_in_turn(query: Tensor, x: Tensor) -> Tensor:
    """G3. Heads 0, 1, 0, 1 instead of 0, 0, 1, 1."""
    if min(query.dim(), x.dim()) < 3 or x.shape[-3] in (1, query.shape[-3]):
        return x
    return torch.cat([x] * (query.shape[-3] // x.shape[-3]), dim=-3)


def aligned_at_the_top(*args: Any, **kwargs: Any) -> Tensor:
    """K1. Query t of a chunk sees key t only, whatever the cache has."""
    return scaled_dot_product_attention(*args, **{**kwargs, "bottom_right": False})


def without_causality(*args: Any, **kwargs: Any) -> Tensor:
    return scaled_dot_product_attention(*args, **{**kwargs, "is_causal": False})


def newest_only(original: Original, cache: nn.KeyValueCache, layer: int, key: Tensor, value: Tensor) -> Any:
    """K1. Values are replaced, not appended."""
    before = cache._lengths[layer]
    keys, values = original(cache, layer, key, value)
    values[:, :, :before] = 0
    return keys, values


def overwrites(original: Original, cache: nn.KeyValueCache, layer: int, key: Tensor, value: Tensor) -> Any:
    """K1. One place too early: the token before is lost."""
    if cache._lengths[layer]:
        cache._lengths[layer] -= 1
    return original(cache, layer, key, value)


ROTARY, GATED, CAUSAL = "RotaryEmbedding", "GatedFeedForward", "CausalSelfAttention"
LANGUAGE = (
    Mutant("R1",
           "Neighbours are turned together where halves should, and the other way round.",
           ROTARY, turning(other_pairs), ("definition",)),
    Mutant("R2-halved",
           "base^(-i/d) instead of base^(-2i/d).",
           ROTARY, frequencies(lambda d: 2 * d), ("definition", "the first pair turns fastest")),
    Mutant("R2-unscaled",
           "Pairs turn as fast as without the scaling that was asked for.",
           ROTARY, (Patch(functional, "rotary_turns", unscaled),), ("definition",)),
    Mutant("R3",
           "Values are turned like queries and keys.",
           CAUSAL, (around(nn.CausalSelfAttention, "_heads", values_too),),
           ("definition", "a shift of all positions is invisible")),
    Mutant("R4",
           "Queries are turned, keys are not.",
           CAUSAL, (around(nn.CausalSelfAttention, "_heads", queries_only),),
           ("definition", "a shift of all positions is invisible")),
    Mutant("R6",
           "a cos + b sin in place of a cos - b sin: lengths change.",
           ROTARY, turning(without_minus), ("definition", "keeps lengths", "scores depend on distances only",
                                            "turns add up")),
    Mutant("R7",
           "By -θ instead of θ: scores are the same, but not the features.",
           ROTARY, turning(backwards), ("definition", "the first pair turns fastest")),
    Mutant("R8",
           "The features of all heads make the pairs, not those of one head.",
           CAUSAL, (around(nn.CausalSelfAttention, "_heads", normalized_afterwards),), ("definition",)),
    Mutant("R9",
           "The positions that were given are not looked at.",
           ROTARY, (around(nn.RotaryEmbedding, "forward", counted_from_zero),), ("definition", "turns add up")),
    Mutant("R10",
           "Neighbours go in, and come out one half behind the other.",
           ROTARY, turning(halves_come_out), ("definition",)),
    Mutant("G1",
           "The activation is on the upper path.",
           GATED, gate_is(lambda m, x, act: m.gate_proj(x) * act(m.up_proj(x))),
           ("definition", "is linear in the upper path")),
    Mutant("G2",
           "act(gate) + up instead of act(gate) ⊙ up.",
           GATED, gate_is(lambda m, x, act: act(m.gate_proj(x)) + m.up_proj(x)),
           ("definition", "is linear in the upper path")),
    Mutant("G3",
           "Queries that share a key are h/G apart, not neighbours.",
           CAUSAL, (Patch(naive, "repeat_heads", repeated_in_turn),),
           ("definition", "queries that share are neighbours")),
    Mutant("G4",
           "gate ⊙ up: the gate is never closed.",
           GATED, gate_is(lambda m, x, act: m.gate_proj(x) * m.up_proj(x)), ("definition",)),
    Mutant("G5",
           "act(gate ⊙ up) instead of act(gate) ⊙ up.",
           GATED, gate_is(lambda m, x, act: act(m.gate_proj(x) * m.up_proj(x))),
           ("definition", "is linear in the upper path")),
    Mutant("G6",
           "σ(x) instead of x σ(x).",
           "SiLU", (Patch(functional, "silu", lambda x, inplace=False: functional.sigmoid(x)),),
           ("definition", "splits the identity", "is open by the odds")),
    Mutant("K1-aligned",
           "A chunk behind a cache sees the first tokens only.",
           CAUSAL, (Patch(causal_self_attention, "scaled_dot_product_attention", aligned_at_the_top),),
           ("a chunk after a cache is causal",)),
    Mutant("K1-open",
           "No causality: right for a token alone, which is the last one.",
           CAUSAL, (Patch(causal_self_attention, "scaled_dot_product_attention", without_causality),),
           ("definition", "later tokens are invisible", "a cache changes nothing")),
    Mutant("K1-values",
           "The values of earlier tokens are forgotten.",
           CAUSAL, (around(nn.KeyValueCache, "append", newest_only),),
           ("a cache changes nothing", "a chunk after a cache is causal")),
    Mutant("K1-early",
           "A new token overwrites the one before.",
           CAUSAL, (around(nn.KeyValueCache, "append", overwrites),),
           ("a cache changes nothing", "a chunk after a cache is causal")),
)  # fmt: skip
