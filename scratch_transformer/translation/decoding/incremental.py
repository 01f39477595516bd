"""The decoder's newest token alone: the keys and values of the tokens before it, and of the source, are kept.

    ids (R,) ─ embedding + position ─ N × (self-attention, cross-attention, feed-forward) ─ logits (R, V)
                                            │                │
                              keys, values of all      keys, values of the source,
                              tokens so far, grows     computed once

The decoder is causal: a later token changes nothing about the earlier ones, so their keys and values stay what they
were, and T tokens cost T steps of one token instead of T whole prefixes. The numbers are those of `model.decode`.

Such a step is small, and what it costs is the number of tensor operations: `merged` saves some. Shapes: B sources,
K prefixes of each, R = B·K, S source length, V tokens of the vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.generation.modes import one_thread
from scratch_transformer.model import Mask, Transformer
from scratch_transformer.translation.decoding.cached_attention import SelfAttention, cross_attention, each_of
from scratch_transformer.translation.decoding.merged import MergedDecoder, MergedLayer
from scratch_transformer.translation.decoding.modes import check_room


class IncrementalDecoder:
    """K prefixes of each source, one token longer with every `step`. Row b·K + i is prefix i of source b.

    To be made and used under torch.inference_mode(), with the model in evaluation mode: `modes.deciding`.

    Args:
        model: what `build_transformer` made, with any of its options.
        source_ids: (B, S), padded with source_pad_id on either side.
        K: prefixes of each source.
        merged: `MergedDecoder` of the model, to translate more than once; None: it is made here.
    """

    def __init__(
        self,
        model: Transformer,
        source_ids: Tensor,
        source_pad_id: int,
        K: int = 1,
        merged: MergedDecoder | None = None,
    ) -> None:
        padding = masks.padding(source_ids, source_pad_id)
        source_mask = None if padding.all() else padding
        merged = MergedDecoder(model) if merged is None else merged
        encoder_output = merged.encoder(source_ids, source_mask)
        self.layers = [_Layer(layer, encoder_output, source_mask, len(source_ids) * K) for layer in merged.layers]
        self.largest = max(layer.largest for layer in merged.layers) * len(source_ids) * K
        self.norm, self.project = merged.norm, merged.project.for_rows(len(source_ids) * K)
        self.embedding, self.scale, self.positions = merged.embedding, merged.scale, merged.positions
        self.K, self.length = K, 0

    def step(self, ids: Tensor) -> Tensor:
        """Append ids (R,), one to each prefix: the logits (R, V) of the token that comes next.

        Raises ValueError when the prefixes are longer than the model has positions for.
        """
        check_room(self.length, len(self.positions))
        with one_thread(self.largest):
            x = torch.add(self.positions[self.length], self.embedding.index_select(0, ids), alpha=self.scale)
            self.length += 1
            for layer in self.layers:
                x = layer(x)
            x = x if self.norm is None else self.norm(x)
        return self.project(x)

    def reorder(self, rows: Tensor) -> None:
        """Row r continues what was row rows[r], of the same source: (R,)."""
        for layer in self.layers:
            layer.self_attention.select(rows)

    def keep(self, sources: Tensor) -> None:
        """Go on with these of the sources: indices (B',)."""
        rows = each_of(sources, self.K)
        for layer in self.layers:
            layer.self_attention.select(rows)
            layer.cross_attention.select(sources)


class _Layer:
    """`model.DecoderBlock`, one token of each row: x (R, d_model) -> the same."""

    def __init__(self, layer: MergedLayer, encoder_output: Tensor, source_mask: Mask, rows: int) -> None:
        self.residuals = layer.residuals
        self.linear_1, self.linear_2 = layer.linear_1.for_rows(rows), layer.linear_2.for_rows(rows)
        self.self_attention = SelfAttention(layer, rows)
        self.cross_attention = cross_attention(layer, encoder_output, source_mask, rows)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.residuals[0](x, self.self_attention)
        x = self.residuals[1](x, self.cross_attention)
        return self.residuals[2](x, self.feed_forward)

    def feed_forward(self, x: Tensor, u: Tensor) -> Tensor:
        return self.linear_2.added(x, self.linear_1(u).relu_())
