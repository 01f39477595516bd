"""Encoders, decoders and both together with the choices of today: rotary positions, RMSNorm, gates, shared keys.

The kinds are those of the paper, by the same names: a learner's encoder layer is one, whatever norm it has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.kinds import blocks, models
from scratch_transformer.kit.kinds.choices import Choices, Options, combined
from scratch_transformer.kit.kinds.layers import GATED_MISTAKES, OUTPUTS
from scratch_transformer.kit.kinds.llama import (
    FEEDS,
    NO_TURN,
    NORMS,
    OF_TWO,
    ORDERS_TODAY,
    QUERY_NORM,
    SCALED,
    TURNED,
    TURNING,
    only,
)
from scratch_transformer.kit.kinds.rotary import BASE

UNTURNED = (("cross_attn", (("rotary", "none"),)),)
"""Queries of the target and keys of the source have positions of two sequences, so that many turn neither."""
BY_ITSELF: Options = {**TURNED, **NO_TURN}
BY_ATTENTION: Options = {
    **{f"{words} in self-attention": {**changes, "parts": UNTURNED} for words, changes in TURNED.items()},
    **{f"{words} in both attentions": {**changes, "parts": ()} for words, changes in TURNED.items()},
    **{words: {**changes, "parts": ()} for words, changes in NO_TURN.items()},
}
ADDED: dict[str, dict[str, Any]] = {
    name: {**changes, "rotary": "none"} for name, changes in models.POSITIONS.items() if name != "no positions"
}
FINAL: Options = {"": {"final_norm": True}, "no final norm": {"final_norm": False}}


def of_layer(turned: Options, orders: Options) -> Choices:
    return combined(orders, turned, NORMS, FEEDS, QUERY_NORM)


def of_model(turned: Options, orders: Options) -> Choices:
    """Positions are turned, or added to the embeddings, or there are none."""
    positions: Options = {**{name: {**changes, "positions": "none"} for name, changes in turned.items()}, **ADDED}
    return combined(FINAL, positions, SCALED, models.NORMALIZED, orders, NORMS, FEEDS, QUERY_NORM)


def as_today(kind: Kind, designs: Choices) -> Kind:
    """A kind of the paper, with these designs in place of its own."""
    return replace(
        kind,
        source=f"{kind.source}; Touvron et al. 2023, section 2.2",
        defaults={**kind.defaults, "rope_base": BASE},
        mistakes=only((*TURNING, *GATED_MISTAKES, *kind.mistakes)),
        designs=designs,
        full={**kind.full, "gated": True, "qk_norm": True},
        builtin="torch.nn.functional's parts, put together",
    )


TODAY: dict[str, Kind] = {
    kind.name: as_today(kind, designs)
    for kind, designs in (
        (blocks.ENCODER_LAYER, of_layer(BY_ITSELF, OF_TWO)),
        (blocks.ENCODER, combined(FINAL, of_layer(BY_ITSELF, OF_TWO))),
        (blocks.DECODER_LAYER, of_layer(BY_ATTENTION, ORDERS_TODAY)),
        (blocks.DECODER, combined(FINAL, of_layer(BY_ATTENTION, ORDERS_TODAY))),
        (models.TOKEN_ENCODER, of_model(BY_ITSELF, OF_TWO)),
        (models.TOKEN_DECODER, combined(models.HEADS, OUTPUTS, of_model(BY_ATTENTION, ORDERS_TODAY))),
        (models.SEQ2SEQ, combined(models.HEADS, OUTPUTS, of_model(BY_ATTENTION, ORDERS_TODAY))),
    )
}
"""By the names of the paper's kinds."""
