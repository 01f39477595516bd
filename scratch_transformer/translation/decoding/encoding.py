"""The encoder in as few tensor operations as possible: the numbers are those of `model.encode`.

Shapes: B sources, S source length, d_model features, h heads.
"""

from __future__ import annotations

from torch import Tensor

from scratch_transformer.generation.affine import Affine
from scratch_transformer.model import EncoderBlock, Transformer
from scratch_transformer.precision import widen
from scratch_transformer.translation.decoding.sublayers import Normalization, Residual, additive, attended, joined


class MergedEncoder:
    """The encoder of a model: ids (B, S), which of them are no padding, (B, 1, 1, S), or None -> (B, S, d_model)."""

    def __init__(self, model: Transformer) -> None:
        self.embed, self.place = model.src_embed, model.src_pos
        self.layers = [_Layer(layer) for layer in model.encoder.layers]  # type: ignore[arg-type]
        self.norm = None if model.encoder.norm is None else Normalization(model.encoder.norm)

    def __call__(self, source_ids: Tensor, source_mask: Tensor | None) -> Tensor:
        embedded = widen(self.place(self.embed(source_ids)))
        x = embedded.flatten(0, 1)
        for layer in self.layers:
            x = layer(x, len(source_ids), source_mask)
        return (x if self.norm is None else self.norm(x)).view(embedded.shape)


class _Layer:
    """`model.EncoderBlock`: x (B·S, d_model) -> the same."""

    def __init__(self, block: EncoderBlock) -> None:
        own, feed_forward = block.self_attention_block, block.feed_forward_block
        self.residuals = [Residual(connection) for connection in block.residual_connections]  # type: ignore[arg-type]
        self.h, self.project, self.output = own.h, joined(own), Affine.of(own.w_o)
        self.linear_1, self.linear_2 = Affine.of(feed_forward.linear_1), Affine.of(feed_forward.linear_2)

    def __call__(self, x: Tensor, B: int, mask: Tensor | None) -> Tensor:
        x = self.residuals[0](x, lambda x, u: self._attend(x, u, B, mask))
        return self.residuals[1](x, self._feed_forward)

    def _attend(self, x: Tensor, u: Tensor, B: int, mask: Tensor | None) -> Tensor:
        R, d_model = x.shape
        by_head = self.project.for_rows(R)(u).view(B, R // B, self.h, 3, -1).permute(3, 0, 2, 1, 4)
        query, key, value = by_head.flatten(1, 2)  # (B·h, S, d_k) each
        heads = attended(query, key.transpose(1, 2), value, None if mask is None else additive(mask, value))
        together = heads.view(B, self.h, R // B, -1).transpose(1, 2).reshape(R, d_model)
        return self.output.for_rows(R).added(x, together)

    def _feed_forward(self, x: Tensor, u: Tensor) -> Tensor:
        inner = self.linear_1.for_rows(len(x))(u).relu_()
        return self.linear_2.for_rows(len(x)).added(x, inner)
