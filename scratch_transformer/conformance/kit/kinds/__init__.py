"""All kinds of components that the kit knows, by name."""

from scratch_transformer.conformance.kit.kind import Kind
from scratch_transformer.conformance.kit.kinds.attention import (
    CAUSAL_SELF_ATTENTION,
    CROSS_ATTENTION,
    MULTIHEAD,
    SDPA,
    SELF_ATTENTION,
)
from scratch_transformer.conformance.kit.kinds.normalization import LAYER_NORM, RMS_NORM

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        LAYER_NORM,
        RMS_NORM,
        SDPA,
        MULTIHEAD,
        SELF_ATTENTION,
        CAUSAL_SELF_ATTENTION,
        CROSS_ATTENTION,
    )
}
