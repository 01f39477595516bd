"""The maps of a model as steps need them, those of the same rows as one (`generation.affine`).

Half-precision weights become float32. All this is done once for a model: `MergedDecoder`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer.generation.affine import Affine
from scratch_transformer.model import DecoderBlock, Transformer
from scratch_transformer.precision import widen
from scratch_transformer.translation.decoding.encoding import MergedEncoder
from scratch_transformer.translation.decoding.sublayers import Normalization, Residual, joined, scale


class Rounded:
    """The same with W in eight bits, a row of whole numbers from -127 to 127 times a scale, and y in bfloat16.

    A row y costs what reading W costs: a quarter of float32.
    """

    def __init__(self, exact: Affine) -> None:
        largest = exact.weight.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny)
        self.scale = (largest / 127).bfloat16()
        self.weight = (exact.weight / self.scale.float().unsqueeze(1)).round().clamp(-127, 127).to(torch.int8)
        self.bias = exact.offset()

    def for_rows(self, count: int) -> Rounded:
        """The same, for as many rows as there are."""
        return self

    def __call__(self, y: Tensor) -> Tensor:
        product: Tensor = torch._weight_int8pack_mm(y.bfloat16(), self.weight, self.scale)
        return product.to(y.dtype).add_(self.bias)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """x and what y becomes."""
        return self(y).add_(x)


def rounded(exact: Affine) -> Affine | Rounded:
    """`Rounded`, where torch's product takes the sizes: it reads so many weights at once, and looks for no end."""
    out, in_ = exact.weight.shape
    return exact if in_ % 32 or out % 8 else Rounded(exact)


class MergedLayer:
    """The maps of `model.DecoderBlock`; eight_bits: the largest of them `Rounded`."""

    def __init__(self, block: DecoderBlock, eight_bits: bool) -> None:
        self.residuals = [Residual(connection) for connection in block.residual_connections]  # type: ignore[arg-type]
        large: Callable[[Affine], Affine | Rounded] = rounded if eight_bits else lambda affine: affine
        own, cross, feed_forward = block.self_attention_block, block.cross_attention_block, block.feed_forward_block
        self.h, self.d_model = own.h, len(own.w_o.weight)
        self.self_project, self.self_output = large(joined(own)), large(Affine.of(own.w_o))
        self.cross_query, self.cross_output = Affine.of(cross.w_q).times(scale(cross)), Affine.of(cross.w_o)
        self.cross_key, self.cross_value = Affine.of(cross.w_k), Affine.of(cross.w_v)
        self.linear_1, self.linear_2 = large(Affine.of(feed_forward.linear_1)), large(Affine.of(feed_forward.linear_2))
        self.largest = max(3 * self.d_model**2, feed_forward.linear_1.weight.numel())


class MergedDecoder:
    """The decoder of a model as it is now, and its encoder: what is done once, and not for every source.

    eight_bits: round the weights of self-attention and feed-forward layers to eight bits, on a CPU: a step of a large
    model takes a fraction of the time, and its logits are a little off. The projection to the logits is exact, and so
    is the encoder.
    """

    @torch.inference_mode()
    def __init__(self, model: Transformer, eight_bits: bool = False) -> None:
        self.encoder, self.eight_bits = MergedEncoder(model), eight_bits
        self.layers = [MergedLayer(layer, eight_bits) for layer in model.decoder.layers]  # type: ignore[arg-type]
        self.norm = None if model.decoder.norm is None else Normalization(model.decoder.norm)
        self.project = Affine.of(model.projection_layer.proj)
        self.embedding, self.scale = widen(model.tgt_embed.embedding.weight), math.sqrt(model.tgt_embed.d_model)
        self.positions = widen(model.tgt_pos.pe.reshape(model.tgt_pos.seq_len, -1))
