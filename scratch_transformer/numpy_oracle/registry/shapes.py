"""Which parameters a component has: its state_dict's keys and shapes, written down independently of torch."""

from __future__ import annotations

from collections.abc import Sequence

from ..arrays import prefixed

Shapes = dict[str, tuple[int, ...]]


def linear(in_features: int, out_features: int, bias: bool) -> Shapes:
    """W and b of y = x Wᵀ + b."""
    return {"weight": (out_features, in_features)} | ({"bias": (out_features,)} if bias else {})


def affine(shape: Sequence[int], weight: bool, bias: bool) -> Shapes:
    """The scale and the shift of a normalisation."""
    return ({"weight": tuple(shape)} if weight else {}) | ({"bias": tuple(shape)} if bias else {})


def multihead_attention(E: int, bias: bool, kdim: int, vdim: int, add_bias_kv: bool) -> Shapes:
    """One packed projection where query, key and value are equally wide, three otherwise; and the output's."""
    if kdim == vdim == E:
        shapes: Shapes = {"in_proj_weight": (3 * E, E)}
    else:
        shapes = {"q_proj_weight": (E, E), "k_proj_weight": (E, kdim), "v_proj_weight": (E, vdim)}
    if bias:
        shapes["in_proj_bias"] = (3 * E,)
    if add_bias_kv:
        shapes |= {"bias_k": (1, 1, E), "bias_v": (1, 1, E)}
    return shapes | prefixed("out_proj", linear(E, E, bias))


def gated_feed_forward(E: int, F: int, bias: bool) -> Shapes:
    """Two maps to the hidden width, and one back."""
    widen = linear(E, F, bias)
    return prefixed("gate_proj", widen) | prefixed("up_proj", widen) | prefixed("down_proj", linear(F, E, bias))


def causal_self_attention(E: int, H: int, G: int, D: int, biases: tuple[bool, bool], has_norm: bool) -> Shapes:
    """Projections of H queries and G keys and values of width D, the output's, and perhaps norms. biases: in, out."""
    bias, output_bias = biases
    shapes = prefixed("q_proj", linear(E, H * D, bias)) | prefixed("o_proj", linear(H * D, E, output_bias))
    for name in ("k_proj", "v_proj"):
        shapes |= prefixed(name, linear(E, G * D, bias))
    return shapes | ({"q_norm.weight": (D,), "k_norm.weight": (D,)} if has_norm else {})


def encoder_layer(E: int, F: int, bias: bool) -> Shapes:
    """Self-attention, feed-forward, and a norm for each."""
    return _layer(E, F, bias, attentions=("self_attn",))


def decoder_layer(E: int, F: int, bias: bool) -> Shapes:
    """Self-attention, attention to the memory, feed-forward, and a norm for each."""
    return _layer(E, F, bias, attentions=("self_attn", "multihead_attn"))


def stack(layer: Shapes, num_layers: int, norm: Shapes | None) -> Shapes:
    """The layer's parameters once for every layer, and the final norm's."""
    shapes = {key: shape for i in range(num_layers) for key, shape in prefixed(f"layers.{i}", layer).items()}
    return shapes | prefixed("norm", norm or {})


def _layer(E: int, F: int, bias: bool, attentions: tuple[str, ...]) -> Shapes:
    shapes = prefixed("linear1", linear(E, F, bias)) | prefixed("linear2", linear(F, E, bias))
    for name in attentions:
        shapes |= prefixed(name, multihead_attention(E, bias, E, E, add_bias_kv=False))
    for i in range(1, len(attentions) + 2):
        shapes |= prefixed(f"norm{i}", affine((E,), weight=True, bias=bias))
    return shapes
