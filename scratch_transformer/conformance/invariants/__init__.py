"""Properties that need no oracle: equations that hold for every correct implementation, one function each.

Every function takes `build`, which makes the component, a `Draw` of random numbers and a `Setting` of sizes and flags,
and returns by how much its equation, in the docstring, is violated. The table names them per component.
"""

from scratch_transformer.conformance.invariants.attention import SDPA
from scratch_transformer.conformance.invariants.language import (
    CAUSAL_SELF_ATTENTION,
    GATED_FEED_FORWARD,
    ROTARY,
    SILU,
)
from scratch_transformer.conformance.invariants.layers import DROPOUT, EMBEDDING, GELU, LINEAR, RELU, SOFTMAX
from scratch_transformer.conformance.invariants.loss import CROSS_ENTROPY
from scratch_transformer.conformance.invariants.multihead_attention import MULTIHEAD_ATTENTION
from scratch_transformer.conformance.invariants.normalization import BATCH_NORM, LAYER_NORM, RMS_NORM
from scratch_transformer.conformance.invariants.setting import Setting, tolerance
from scratch_transformer.conformance.invariants.stacks import (
    DECODER,
    DECODER_LAYER,
    ENCODER,
    ENCODER_LAYER,
    TRANSFORMER,
)

__all__ = [
    "BATCH_NORM",
    "CAUSAL_SELF_ATTENTION",
    "CROSS_ENTROPY",
    "DECODER",
    "DECODER_LAYER",
    "DROPOUT",
    "EMBEDDING",
    "ENCODER",
    "ENCODER_LAYER",
    "GATED_FEED_FORWARD",
    "GELU",
    "LAYER_NORM",
    "LINEAR",
    "MULTIHEAD_ATTENTION",
    "RELU",
    "RMS_NORM",
    "ROTARY",
    "SDPA",
    "SILU",
    "SOFTMAX",
    "TRANSFORMER",
    "Setting",
    "tolerance",
]
