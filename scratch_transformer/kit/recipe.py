"""Every choice that an implementation of the Transformer makes, right or wrong.

The canonical modules do what their recipe says. `Recipe()` is the reference; a mistake of the catalogue is a change of
one or two entries, and two mistakes at once are both changes: `RIGHT.with_({"ddof": 1, "eps_inside": False})`.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Parts = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
"""The names of parts, and their own values of entries."""


@dataclass(frozen=True)
class Recipe:
    """The values of an entry are the cases that its function in `canonical/` tells apart; the defaults are right."""

    # ---- Normalization ----
    ddof: int = 0  # the variance divides by n - ddof
    eps: float | None = None  # instead of the setting's
    eps_inside: bool = True  # √(σ² + ε), not σ + ε
    norm_dims: str = "features"
    norm_kind: str = "norm"  # "rms" or "centred": the other of LayerNorm and RMSNorm; "divided only": x / σ;
    # "mean divided": x - μ / σ
    variance: str = "centred"  # "at least eps": clamped, and eps added where `eps_inside`
    norm_scale: str = "weight"  # "1 + weight", as in Gemma
    affine: str = "scale, shift"  # what is used of them: "scale", "shift", "neither"; "shift, scale": γ (x̂ + β);
    # "scale, shift in the divisor": γ (x - μ) / (σ + β)

    # ---- Embedding, positions ----
    embedding_scale: str = "sqrt(d_model)"
    positions: str = "sinusoidal"  # "learned", "none"
    angles: str = "paper"
    layout: str = "interleaved"
    first_position: int = 0
    position_axis: str = "time"  # "batch"; all tokens have the first row, "none", or the one after theirs, "length"
    positions_dtype: str = "float64"
    input_scale: str = "none"  # of what the positions are added to
    adding: str = "added"  # "multiplied"; "twice": what the positions are added to is added once more
    embedding_norm: bool = False  # after embedding and positions, as in BERT

    # ---- Rotary positions ----
    rotary: str = "none"  # "interleaved": features 0 and 1 are a pair; "halves": 0 and d_k/2
    rotary_table: str = "own"  # "other": cosines and sines in the order of the other pairing
    rotary_out: str = "own"  # "other": the features come out in the order of the other pairing
    rotary_turn: str = "forward"
    rotary_angles: str = "paper"
    rotary_first: int = 0
    rotary_axis: str = "time"  # "heads", "features": all tokens are turned alike; "given positions ignored"
    rotates: str = "q k"
    rotary_place: str = "heads"  # "all features": before they are split into heads

    step_positions: str = "right"  # of tokens that come one by one, after a prompt or from the first on

    # ---- Attention ----
    scale: str = "1/sqrt(d_k)"  # or a number
    scale_place: str = "scores"
    softmax_over: str = "keys"
    scored: str = "keys"  # what queries are multiplied with; "values"
    weighed: str = "values"  # what the weights are multiplied with; "keys"
    summed: str = "together"  # "features apart": queries and keys have two letters for them, and each is summed alone;
    # "keys apart": weights and values; "own value": weights over their keys, beside the value of the query's own token
    weighing: str = "softmax"  # "nothing", "sigmoid", "log_softmax", "softmax twice"
    masking: str = "before softmax"
    fill: str = "-inf, empty rows zero"
    causal: str = "lower"
    span: int = 0  # how many tokens each sees where the future is hidden, itself and those before it; 0: all
    unmasked: str = "all"  # what a query may attend to where the core is given no mask: "earlier", "before the end"
    padding: str = "keys"  # of a function that makes a mask: "both", where padding's own rows are blocked too
    split: str = "heads"
    merge: str = "heads"
    swapped: str = "none"
    uses: str = "q k v"  # whose projections make queries, keys and values
    transposed: bool = True  # x Wᵀ, W as nn.Linear keeps it
    unused_biases: str = ""  # projections whose bias is there and never added: "w_q w_k"
    kv_order: str = (
        "each repeated"  # "all repeated": heads 0 1 0 1 for 0 0 1 1, where query heads share them; "keys alone"
    )
    qk_norm: bool = False  # queries and keys of every head are normalized, as in Qwen 3
    wrapped: str = "none"  # "post", "pre": residual and norm are inside attention or feed-forward; "norm": the norm is;
    # "pre all": as "pre", and keys and values are normalized too, whatever they are; "sum", "last": the residual alone,
    # or the norm of the result

    # ---- Activation, blocks, stacks ----
    activation: str = "relu"
    activation_place: str = "between"
    gated: bool = False  # activation(x W_gateᵀ) ⊙ (x W_1ᵀ), as in SwiGLU
    gate: str = "gate"  # which of the two goes through the activation
    gating: str = "product"
    norm_order: str = "post"  # "parallel": x + f(norm(x)) + g(norm(x)); "neither": f(x); "thrown away": x
    # "before and after": norm(x + f(norm(x)))
    norms: str = "own"  # "shared"; of a decoder's layer also which norm each sublayer has: "1 2 2"
    residual: str = "input"  # "memory", "value", "key", "block's input": what is added to a sublayer's output
    # "block's input, in cross-attention"; "own output": it itself; "twice": the input, two times; "negative": the input
    # is subtracted; "earlier output": of the sublayer before, as it is; "block's input too"; "after the norm too"
    summand: str = "output"  # "negative"; "nothing", "its input", "earlier output": the output is thrown away
    final_norm: bool = False
    layers: str = "own weights"
    feeding: str = "previous layer"
    network: str = "used"  # "thrown away": what the feed-forward network gives
    network_input: str = "attention's"  # "block's input"; "earlier output": attention's without residual and norm
    depth: str = "all layers"  # "first layer": the others are not made, or never reached
    cross_input: str = "self-attention's output"  # "block's input": what the attention to the encoder is given
    memory: str = "encoder"  # "decoder", "decoder, its mask"; "its keys": values are the decoder's own
    memory_norm: str = "none"  # of the encoder's output, in every layer: "own", "queries'"
    memory_mask: str = "source"
    self_mask: str = "target"
    source_mask: str = "source"  # of a whole's encoder: "causal too"
    order: str = "self, cross"
    roles: str = "right"  # "swapped": the encoder reads the target; "exchanged in every layer": of a decoder's stack
    target_table: str = "own"  # "source's": in which the target's ids are looked up

    # ---- Output, loss, schedule, decoding, masks ----
    head: bool = True  # whether a decoder ends in the projection
    head_layer: bool = False  # a linear map, an activation and a norm before the projection, as in BERT
    pooled: str = "first"  # of a sentence, what its one vector is made of: "last" token, "mean"
    output: str = "logits"
    logits: str = "as they are"  # "over sqrt(d_model)": the scores of words are divided
    loss_input: str = "logits"
    smoothing: str = "all classes"
    smoothing_amount: float | None = None  # instead of the setting's
    counted: str = "real tokens"
    reduction: str = "mean"
    schedule: str = "paper"
    schedule_steps: str = "from 1"  # "from 0", as LambdaLR counts; "from 0, which is taken for 1"
    merging: str = "first learned first"
    specials: str = "kept"  # "cut": like any other text; "as told": the first that fits, not the longest
    words: str = "first"  # "none": the text is not cut into words; "of ASCII": other letters are none
    decoded: str = "the text"
    targets: str = "the next"  # of a window of a text: "the same", "two later"
    windows: str = "all"  # "without the last", "beyond the end"
    cosine: str = "right"
    cosine_falls: str = "as half a cosine"
    cosine_least: str = "below"  # "on top": added to the whole wave, so that it begins above the greatest rate
    cosine_warmup: str = "from 0"
    cosine_rise: str = "from nothing"  # "from the least": of the rate in the warm-up
    cosine_end: str = "for good"  # "again": the warm-up and the wave begin anew after the last step
    cosine_steps: str = "from 0"  # "from 1": the first step is taken for the second, of all that is computed
    adam_correction: str = "both"  # of the two moments' start at zero
    adam_eps: str = "outside"  # "inside": √(v̂ + ε); "uncorrected": √v + ε
    adam_moments: str = "right"
    decay: str = "before the step"  # "after the step"; "in the gradient": Adam with L2, no AdamW; "in both"; "none"
    decay_rate: str = "times the learning rate"  # "alone"
    decayed: str = "matrices"  # which weights shrink
    decays_embeddings: bool = True
    clipping: str = "right"
    clip_eps: float = 1e-6
    temperature: str = "divides"  # "for top-p alone": what is drawn from is not divided
    top_p: str = "right"
    nucleus: str = "of what top-k left"  # of which probabilities top-p counts
    top_k: str = "right"
    penalty: str = "right"  # for what has been said already; "of new words": the prompt's ids have none
    removed: str = "-inf"  # the logits of what may not be drawn
    decoding: str = "right"
    writes: str = "as told"  # "one more", "one less" than the longest text that is told
    window: str = "the end"  # of a text, of which a model takes so many words; "the beginning", "the last word",
    # "counted from the front", "all but the last"
    length_penalty: float = 0.0
    ends: str = "bos, eos"  # which of them the decoded ids include
    blocked_is: str = "False"  # of masks
    mask_shape: str = "2"

    # ---- Parts that are made in another way than the rest ----
    parts: Parts = ()
    """The name of a part, "decoder" or "cross_attn", and its own values of entries."""

    def within(self, *path: str) -> Recipe:
        """The recipe of a part, by the names on the way to it; of "encoder.norm1" the way may come in pieces."""
        if not self.parts:
            return self
        left = [(".".join(name for name in part.split(".") if name not in path), own) for part, own in self.parts]
        own = {name: value for part, entries in left if not part for name, value in entries}
        further = tuple((part, entries) for part, entries in left if part)
        return self.with_({**own, "parts": further}) if further != self.parts else self

    def with_(self, changes: Mapping[str, Any]) -> Recipe:
        """This recipe with other values. Each is made once, as searching asks for the same ones again and again."""
        key = self, frozenset(changes.items())
        if key not in _MADE:
            _MADE[key] = self._changed(changes)
        return _MADE[key]

    def _changed(self, changes: Mapping[str, Any]) -> Recipe:
        """As `dataclasses.replace`, which asks for a hundred entries by name."""
        if unknown := changes.keys() - self.__dataclass_fields__.keys():
            raise TypeError(f"a recipe has no {', '.join(sorted(unknown))}")
        other = object.__new__(Recipe)
        other.__dict__.update(self.__dict__, **changes)
        other.__dict__.pop("_hash", None)
        return other

    def __hash__(self) -> int:
        if "_hash" not in self.__dict__:
            self.__dict__["_hash"] = hash(_values(self))
        return int(self.__dict__["_hash"])


_values = operator.attrgetter(*(field.name for field in dataclasses.fields(Recipe)))
_MADE: dict[tuple[Any, ...], Recipe] = {}

RIGHT = Recipe()
