"""What is around a sublayer of a decoding step, merged into its first and its last map (`generation.affine`).

Half-precision weights become float32. All this is done once for a model: `MergedDecoder`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer.generation.affine import Affine
from scratch_transformer.model import (
    DecoderBlock,
    LayerNormalization,
    MultiHeadAttentionBlock,
    ResidualConnection,
    Transformer,
)
from scratch_transformer.nn import Linear
from scratch_transformer.precision import widen


class Normalization:
    """`model.LayerNormalization`: γ x̂ + β."""

    def __init__(self, norm: LayerNormalization) -> None:
        self.gain, self.bias, self.eps = widen(norm.alpha), widen(norm.bias), norm.eps
        self.shape = list(norm.alpha.shape)

    def plain(self, x: Tensor) -> Tensor:
        """x̂, without mean and with a variance of 1."""
        return torch.layer_norm(x, self.shape, eps=self.eps)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.gain, self.bias, self.eps)


class Rounded:
    """The same with W in eight bits, a row of whole numbers from -127 to 127 times a scale, and y in bfloat16.

    A row y costs what reading W costs: a quarter of float32.
    """

    def __init__(self, exact: Affine) -> None:
        largest = exact.weight.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny)
        self.scale = (largest / 127).bfloat16()
        self.weight = (exact.weight / self.scale.float().unsqueeze(1)).round().clamp(-127, 127).to(torch.int8)
        self.bias = exact.offset()

    def __call__(self, y: Tensor) -> Tensor:
        product: Tensor = torch._weight_int8pack_mm(y.bfloat16(), self.weight, self.scale)
        return product.to(y.dtype).add_(self.bias)


def rounded(exact: Affine) -> Affine | Rounded:
    """`Rounded`, where torch's product takes the sizes: it reads so many weights at once, and looks for no end."""
    out, in_ = exact.weight.shape
    return exact if in_ % 32 or out % 8 else Rounded(exact)


class Residual:
    """`model.ResidualConnection` without dropout, around a sublayer that begins with `reading`."""

    def __init__(self, connection: ResidualConnection) -> None:
        self.norm_first, self.norm = connection.norm_first, Normalization(connection.norm)

    def reading(self, layer: Linear) -> Affine:
        """The layer, with the normalization before it, if there is one, merged into it."""
        return Affine.of(layer).behind(self.norm) if self.norm_first else Affine.of(layer)

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return sublayer(self.norm.plain(x)).add_(x)
        return self.norm(sublayer(x).add_(x))


class MergedLayer:
    """The maps of `model.DecoderBlock`; eight_bits: the largest of them `Rounded`."""

    def __init__(self, block: DecoderBlock, eight_bits: bool) -> None:
        self.residuals = [Residual(connection) for connection in block.residual_connections]  # type: ignore[arg-type]
        of_self, of_cross, of_feed_forward = self.residuals
        large: Callable[[Affine], Affine | Rounded] = rounded if eight_bits else lambda affine: affine
        own, cross, feed_forward = block.self_attention_block, block.cross_attention_block, block.feed_forward_block
        self.h = own.h
        query, key, value = map(of_self.reading, (own.w_q, own.w_k, own.w_v))
        self.self_project = large(Affine.beside([query.times(_scale(own)), key, value], own.h))
        self.self_output = large(Affine.of(own.w_o))
        self.cross_query, self.cross_output = (
            of_cross.reading(cross.w_q).times(_scale(cross)),
            Affine.of(cross.w_o),
        )
        self.cross_key, self.cross_value = Affine.of(cross.w_k), Affine.of(cross.w_v)
        self.linear_1 = large(of_feed_forward.reading(feed_forward.linear_1))
        self.linear_2 = large(Affine.of(feed_forward.linear_2))


class MergedDecoder:
    """The decoder of a model as it is now: what is done once, and not for every source.

    eight_bits: round the weights of self-attention and feed-forward layers to eight bits, on a CPU: a step of a large
    model takes a fraction of the time, and its logits are a little off. The projection to the logits is exact.
    """

    @torch.inference_mode()
    def __init__(self, model: Transformer, eight_bits: bool = False) -> None:
        self.layers = [MergedLayer(layer, eight_bits) for layer in model.decoder.layers]  # type: ignore[arg-type]
        self.norm = None if model.decoder.norm is None else Normalization(model.decoder.norm)
        project = Affine.of(model.projection_layer.proj)
        self.project = project if self.norm is None else project.behind(self.norm)
        self.embedding, self.scale = widen(model.tgt_embed.embedding.weight), math.sqrt(model.tgt_embed.d_model)
        self.positions = widen(model.tgt_pos.pe.reshape(model.tgt_pos.seq_len, -1))


def _scale(block: MultiHeadAttentionBlock) -> float:
    """1/√d_k."""
    return math.sqrt(block.h / len(block.w_q.weight))
