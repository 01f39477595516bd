"""Every choice that an implementation of the Transformer makes, right or wrong.

The canonical modules do what their recipe says. `Recipe()` is the reference; a mistake of the catalogue is a change of
one or two entries, and two mistakes at once are both changes: `RIGHT.with_({"ddof": 1, "eps_inside": False})`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """The values of an entry are the cases that its function in `canonical/` tells apart; the defaults are right."""

    # ---- Normalization ----
    ddof: int = 0  # the variance divides by n - ddof
    eps: float | None = None  # instead of the setting's
    eps_inside: bool = True  # √(σ² + ε), not σ + ε
    norm_dims: str = "features"
    norm_kind: str = "norm"  # "rms" or "centred": the other of LayerNorm and RMSNorm; "divided only": x / σ
    variance: str = "centred"

    # ---- Embedding, positions ----
    embedding_scale: str = "sqrt(d_model)"
    positions: str = "sinusoidal"  # "learned", "none"
    angles: str = "paper"
    layout: str = "interleaved"
    first_position: int = 0
    position_axis: str = "time"
    positions_dtype: str = "float64"
    input_scale: str = "none"  # of what the positions are added to
    adding: str = "added"
    embedding_norm: bool = False  # after embedding and positions, as in BERT

    # ---- Attention ----
    scale: str = "1/sqrt(d_k)"  # or a number
    scale_place: str = "scores"
    softmax_over: str = "keys"
    masking: str = "before softmax"
    fill: str = "-inf, empty rows zero"
    causal: str = "lower"
    padding: str = "keys"
    split: str = "heads"
    merge: str = "heads"
    swapped: str = "none"
    transposed: bool = True  # x Wᵀ, W as nn.Linear keeps it
    unused_biases: str = ""  # projections whose bias is there and never added: "w_q w_k"
    wrapped: str = "none"  # "post", "pre": residual and norm are inside attention or feed-forward; "norm": the norm is

    # ---- Activation, blocks, stacks ----
    activation: str = "relu"
    activation_place: str = "between"
    norm_order: str = "post"
    norms: str = "own"
    residual: str = "input"  # "memory", "value", "key", "block's input": what is added to a sublayer's output
    final_norm: bool = False
    layers: str = "own weights"
    feeding: str = "previous layer"
    memory: str = "encoder"
    memory_mask: str = "source"
    self_mask: str = "target"
    order: str = "self, cross"
    roles: str = "right"  # "swapped": the encoder reads the target

    # ---- Output, loss, schedule, decoding, masks ----
    head: bool = True  # whether a decoder ends in the projection
    output: str = "logits"
    loss_input: str = "logits"
    smoothing: str = "all classes"
    smoothing_amount: float | None = None  # instead of the setting's
    counted: str = "real tokens"
    reduction: str = "mean"
    schedule: str = "paper"
    decoding: str = "right"
    length_penalty: float = 0.0
    ends: str = "bos, eos"  # which of them the decoded ids include
    blocked_is: str = "False"  # of masks
    mask_shape: str = "2"

    def with_(self, changes: Mapping[str, Any]) -> Recipe:
        return dataclasses.replace(self, **changes)


RIGHT = Recipe()
