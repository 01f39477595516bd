"""Every choice that an implementation of the Transformer makes, right or wrong.

The canonical modules do what their recipe says. `Recipe()` is the reference; a mistake of the catalogue is a change of
one or two entries, and two mistakes at once are both changes: `replace(Recipe(), ddof=1, eps_inside=False)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """Strings are names of functions in `canonical/`, which say what they compute."""

    # ---- Normalization ----
    ddof: int = 0  # the variance divides by n - ddof
    eps: float | None = None  # instead of the setting's
    eps_inside: bool = True  # √(σ² + ε), not σ + ε
    norm_dims: str = "features"
    norm_kind: str = "norm"
    variance: str = "centred"

    # ---- Embedding, positions ----
    embedding_scale: str = "sqrt(d_model)"
    angles: str = "paper"
    layout: str = "interleaved"
    position_axis: str = "time"
    positions_dtype: str = "float64"
    input_scale: str = "none"  # of what the positions are added to

    # ---- Attention ----
    scale: str = "1/sqrt(d_k)"
    softmax_over: str = "keys"
    masking: str = "before softmax"
    fill: str = "-inf, empty rows zero"
    causal: str = "lower"
    padding: str = "keys"
    inverted: bool = False
    split: str = "heads"
    merge: str = "heads"
    swapped: str = "none"
    transposed: bool = True  # x Wᵀ, W as nn.Linear keeps it
    biases: str = ""  # projections whose bias is there and never added: "w_q w_k"
    scale_place: str = "scores"

    # ---- Activation, blocks, stacks ----
    activation: str = "relu"
    norm_order: str = "post"
    final_norm: bool = False
    layers: str = "own weights"
    memory: str = "encoder"
    memory_mask: str = "source"
    self_mask: str = "target"
    dropout: str = "as in torch"

    # ---- Output, loss, schedule, decoding ----
    output: str = "logits"
    loss_input: str = "logits"
    smoothing: str = "all classes"
    counted: str = "real tokens"
    reduction: str = "mean"
    schedule: str = "warm-up"
    decoding: str = "right"

    def with_(self, changes: Mapping[str, Any]) -> Recipe:
        return dataclasses.replace(self, **changes)


RIGHT = Recipe()
