"""Weights to and from `torch.nn.Transformer`, and from the classes that the tutorials teach.

    ours = build_transformer(V, V, S, T, d_model, N, h, dropout, d_ff, norm="pre")
    theirs = torch.nn.Transformer(d_model, h, N, N, d_ff, dropout, batch_first=True, norm_first=True)
    theirs.load_state_dict(to_torch(ours.state_dict()))
    ours.load_state_dict(ours.state_dict() | from_torch(theirs.state_dict()))

`torch.nn.Transformer` has no embeddings, positions and projection: those stay on our side, untouched.

Final normalizations: torch's stacks have them even with norm_first=False, norm="post" has none, as in the paper. Give
torch stacks without, `custom_encoder=TransformerEncoder(layer, N)` and `custom_decoder=TransformerDecoder(layer, N)`,
or ours with: `ours.encoder.norm = LayerNormalization(d_model)`, and the same for the decoder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import torch
from torch import Tensor
from torch.nn import Module

from scratch_transformer.model import LayerNormalization

# torch's name -> ours, inside encoder.layers.{i}. and decoder.layers.{i}. Several of ours are stacked in this order.
ENCODER_LAYER: dict[str, tuple[str, ...]] = {
    "self_attn.in_proj_weight": (
        "self_attention_block.w_q.weight",
        "self_attention_block.w_k.weight",
        "self_attention_block.w_v.weight",
    ),
    "self_attn.in_proj_bias": (
        "self_attention_block.w_q.bias",
        "self_attention_block.w_k.bias",
        "self_attention_block.w_v.bias",
    ),
    "self_attn.out_proj.weight": ("self_attention_block.w_o.weight",),
    "self_attn.out_proj.bias": ("self_attention_block.w_o.bias",),
    "linear1.weight": ("feed_forward_block.linear_1.weight",),
    "linear1.bias": ("feed_forward_block.linear_1.bias",),
    "linear2.weight": ("feed_forward_block.linear_2.weight",),
    "linear2.bias": ("feed_forward_block.linear_2.bias",),
    "norm1.weight": ("residual_connections.0.norm.alpha",),
    "norm1.bias": ("residual_connections.0.norm.bias",),
    "norm2.weight": ("residual_connections.1.norm.alpha",),
    "norm2.bias": ("residual_connections.1.norm.bias",),
}
DECODER_LAYER: dict[str, tuple[str, ...]] = ENCODER_LAYER | {
    "multihead_attn.in_proj_weight": (
        "cross_attention_block.w_q.weight",
        "cross_attention_block.w_k.weight",
        "cross_attention_block.w_v.weight",
    ),
    "multihead_attn.in_proj_bias": (
        "cross_attention_block.w_q.bias",
        "cross_attention_block.w_k.bias",
        "cross_attention_block.w_v.bias",
    ),
    "multihead_attn.out_proj.weight": ("cross_attention_block.w_o.weight",),
    "multihead_attn.out_proj.bias": ("cross_attention_block.w_o.bias",),
    "norm3.weight": ("residual_connections.2.norm.alpha",),
    "norm3.bias": ("residual_connections.2.norm.bias",),
}
# The same after encoder. and decoder., if the stacks have it.
FINAL_NORM: dict[str, tuple[str, ...]] = {"norm.weight": ("norm.alpha",), "norm.bias": ("norm.bias",)}
# Ours alone.
OUTSIDE = ("src_embed.", "tgt_embed.", "src_pos.", "tgt_pos.", "projection_layer.")
ATTENTION_WEIGHTS = (".w_q.weight", ".w_k.weight", ".w_v.weight", ".w_o.weight")
ATTENTION_BIASES = (".w_q.bias", ".w_k.bias", ".w_v.bias", ".w_o.bias")

# A part of a name, between dots, in a tutorial -> here.
TUTORIALS: dict[str, str] = {
    "embed": "embedding",
    "gamma": "alpha",
    "beta": "bias",
    "linear1": "linear_1",
    "linear2": "linear_2",
    "w_concat": "w_o",
    "self_attention": "self_attention_block",
    "cross_attention": "cross_attention_block",
    "residual_connection": "residual_connections",
    "projection": "proj",
}


def to_torch(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The stacks of a model's `state_dict` as the `state_dict` of `torch.nn.Transformer`.

    Attention without biases (attention_bias=False) gets biases of zero, which compute the same.

    Raises:
        ValueError: a tensor is missing, or is unknown; all are listed.
    """
    stacks = {name: values for name, values in state.items() if not name.startswith(OUTSIDE)}
    if not any(name.endswith(ATTENTION_BIASES) for name in stacks):
        weights = {name: values for name, values in stacks.items() if name.endswith(ATTENTION_WEIGHTS)}
        stacks |= {name.removesuffix("weight") + "bias": W.new_zeros(W.shape[0]) for name, W in weights.items()}
    table = _rename_table(stacks)
    _check_names({name for ours in table.values() for name in ours}, stacks, "the stacks of a Transformer")
    return {theirs: torch.cat([stacks[name] for name in ours]) for theirs, ours in table.items()}


def from_torch(state: Mapping[str, Tensor], attention_bias: bool = True) -> dict[str, Tensor]:
    """The inverse of `to_torch`: `torch.nn.Transformer`'s `state_dict` under our names.

    attention_bias: False for a model without these biases; they must be zero then.

    Raises:
        ValueError: a tensor is missing, or is unknown, or a bias that is to be left out is not zero; all are listed.
    """
    table = _rename_table(state)
    _check_names(table.keys(), state, "a torch.nn.Transformer")
    renamed = {
        name: part
        for theirs, ours in table.items()
        for name, part in zip(ours, state[theirs].chunk(len(ours)), strict=True)
    }
    if attention_bias:
        return renamed
    biases = {name: values for name, values in renamed.items() if name.endswith(ATTENTION_BIASES)}
    non_zero = sorted(name for name, values in biases.items() if values.any())
    if non_zero:
        raise ValueError(f"attention_bias=False, but these biases are not zero: {_listed(non_zero)}")
    return {name: values for name, values in renamed.items() if name not in biases}


def load_tutorial(module: Module, state: Mapping[str, Tensor]) -> None:
    """Load the `state_dict` of a tutorial's model, or of one of its classes, into ours of the same name.

    Layer normalizations with one scale and one shift for all features are widened to one per feature, unless `module`
    has such (`normalize_as_taught(scalar=True)`). For the tutorial's outputs to the last digits, its arithmetic is
    needed besides its weights: `normalize_as_taught`.

    Raises:
        ValueError: a tensor is missing, or is unknown; all are listed.
        RuntimeError: a tensor has another shape than `module`'s.
    """
    ours = module.state_dict()
    renamed = {".".join(TUTORIALS.get(part, part) for part in name.split(".")): state[name] for name in state}
    _check_names(ours.keys(), renamed, f"this {type(module).__name__}")
    for name, values in renamed.items():
        if values.shape == (1,) and ours[name].dim() == 1:
            renamed[name] = values.expand_as(ours[name])
    module.load_state_dict(renamed)


class LayerNormalizationAsTaught(LayerNormalization):
    """α · (x - μ) / (s + ε) + b with s² = Σ (x - μ)² / (n - 1): what most tutorials teach.

    Two things differ from `LayerNormalization`: n - 1 makes the output √((n - 1)/n) times as large (NaN for n = 1), and
    ε is added to s instead of s², so that ε = 1e-6 matters only for s ≲ 1e-6, whereas torch's 1e-5 does for s ≲ 3e-3.
    scalar: one α and one b for all features.
    """

    def __init__(self, features: int, eps: float = 1e-6, scalar: bool = False) -> None:
        super().__init__(1 if scalar else features, eps)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, features) -> the same."""
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.alpha * (x - mean) / (std + self.eps) + self.bias


def normalize_as_taught(module: Module, eps: float = 1e-6, scalar: bool = False) -> None:
    """Put a fresh `LayerNormalizationAsTaught` in the place of every `LayerNormalization` inside `module`."""
    for parent in list(module.modules()):
        for name, norm in list(parent.named_children()):
            if type(norm) is LayerNormalization:
                taught = LayerNormalizationAsTaught(norm.alpha.numel(), eps, scalar)
                setattr(parent, name, taught.to(norm.alpha))


def _rename_table(names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The whole table, torch's name -> ours, for as many layers and final normalizations as `names` speak of."""
    table: dict[str, tuple[str, ...]] = {}
    for stack, layer in (("encoder.", ENCODER_LAYER), ("decoder.", DECODER_LAYER)):
        found = re.findall(rf"^{stack}layers\.(\d+)\.", "\n".join(names), re.MULTILINE)
        parts = {f"{stack}layers.{i}.": layer for i in range(max(map(int, found), default=-1) + 1)}
        if any(name.startswith(stack + "norm.") for name in names):
            parts[stack] = FINAL_NORM
        for prefix, part in parts.items():
            table |= {prefix + theirs: tuple(prefix + name for name in ours) for theirs, ours in part.items()}
    return table


def _check_names(expected: Iterable[str], state: Mapping[str, Tensor], what: str) -> None:
    missing, unknown = sorted(set(expected) - set(state)), sorted(set(state) - set(expected))
    if missing or unknown or not state:
        raise ValueError(f"not the tensors of {what}: missing {_listed(missing)}; unknown {_listed(unknown)}")


def _listed(names: list[str], limit: int = 12) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return (", ".join(names[:limit]) + more) or "none"
