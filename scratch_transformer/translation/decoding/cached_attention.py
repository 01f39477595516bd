"""Attention of each row's newest token: to the tokens before it and itself, and to its source.

Shapes: B sources, K prefixes of each, R = B·K rows, h heads, t tokens so far, S source length.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.generation.affine import Affine
from scratch_transformer.model import Mask
from scratch_transformer.translation.decoding.merged import MergedLayer
from scratch_transformer.translation.decoding.sublayers import additive, attended

FIRST_CAPACITY = 64
"""Tokens that a cache has room for at first; it doubles when they are used up."""
SMALL = 256
"""Columns that a matrix may always have where it saves operations: reading it takes no longer than they do."""


class SelfAttention:
    """The newest token's attention to all tokens so far and itself."""

    def __init__(self, layer: MergedLayer, rows: int) -> None:
        self.project, self.output = layer.self_project.for_rows(rows), layer.self_output.for_rows(rows)
        self.h, self.d_model, self.length = layer.h, layer.d_model, 0
        self.d_k = self.d_model // self.h
        self._keep(layer.cross_query.weight.new_empty(rows * self.h, FIRST_CAPACITY, 2, self.d_k))

    def _keep(self, tokens: Tensor) -> None:
        """tokens (R·h, capacity, 2, d_k): the key and value of each token in each head."""
        self.tokens, self.capacity = tokens, tokens.shape[1]
        self.keys, self.values = tokens[:, :, 0].transpose(1, 2), tokens[:, :, 1]  # (R·h, d_k, C), (R·h, C, d_k)

    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        """x and what u attends to."""
        t = self.length
        if t == self.capacity:
            self._keep(torch.cat([self.tokens, torch.empty_like(self.tokens)], dim=1))
        new = self.project(u).view(-1, 3, self.d_k)  # query, key and value of each head
        self.tokens.select(1, t).copy_(new.narrow(1, 1, 2))
        self.length = t + 1
        weights = new.narrow(1, 0, 1).bmm(self.keys.narrow(2, 0, t + 1)).softmax(-1)  # (R·h, 1, t + 1)
        heads = weights.bmm(self.values.narrow(1, 0, t + 1))  # (R·h, 1, d_k)
        return self.output.added(x, heads.view(-1, self.d_model))

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, in this order."""
        self._keep(self.tokens.index_select(0, each_of(rows, self.h)))


class CrossAttention:
    """The newest token's attention to its source, whose keys and values never change; the K prefixes share them."""

    def __init__(self, layer: MergedLayer, encoder_output: Tensor, source_mask: Mask, rows: int) -> None:
        self.project, self.output = layer.cross_query.for_rows(rows), layer.cross_output.for_rows(rows)
        self.h, self.d_model = layer.h, layer.d_model
        self.keys = _by_head(layer.cross_key, encoder_output, layer.h).transpose(1, 2)  # (B·h, d_k, S)
        self.values = _by_head(layer.cross_value, encoder_output, layer.h)  # (B·h, S, d_k)
        self.mask = None if source_mask is None else additive(source_mask, self.values)

    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        """x and what u attends to."""
        B_h, d_k = len(self.keys), self.d_model // self.h
        B = B_h // self.h
        query = self.project(u).view(B, -1, self.h, d_k).transpose(1, 2).reshape(B_h, -1, d_k)  # (B·h, K, d_k)
        heads = attended(query, self.keys, self.values, self.mask)  # (B·h, K, d_k)
        return self.output.added(x, heads.view(B, self.h, -1, d_k).transpose(1, 2).reshape(-1, self.d_model))

    def select(self, sources: Tensor) -> None:
        """Go on with these sources."""
        chosen = each_of(sources, self.h)
        self.keys, self.values = self.keys.index_select(0, chosen), self.values.index_select(0, chosen)
        self.mask = None if self.mask is None else self.mask.index_select(0, chosen)


class CrossAttentionToOne:
    """The same to a single source without padding: its keys are merged into the query's map, its values into W_o.

    scores = K (W_q u + b_q) = (K W_q) u + K b_q and W_o (V w) + b_o = (W_o V + b_o 1ᵀ / h) w, w the weights of all h
    heads, whose sum is h.
    """

    def __init__(self, layer: MergedLayer, encoder_output: Tensor, rows: int) -> None:
        query, output = layer.cross_query, layer.cross_output
        keys, values = (_by_head(map_, encoder_output, layer.h) for map_ in (layer.cross_key, layer.cross_value))
        h, self.S, d_k = keys.shape
        weight, bias = query.weight.view(h, d_k, -1), query.offset().view(h, d_k, 1)
        scores = Affine(keys.bmm(weight).flatten(0, 1), keys.bmm(bias).flatten())  # (h·S, d_model), (h·S,)
        merged = torch.baddbmm(output.offset() / h, values, output.weight.T.reshape(h, d_k, -1))  # (h, S, d_model)
        self.scores, self.output = scores.for_rows(rows), Affine(merged.flatten(0, 1).T, None).for_rows(rows)

    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        """x and what u attends to."""
        scores = self.scores(u)  # (R, h·S)
        weights = scores.view(-1, self.S).softmax(-1)
        return self.output.added(x, weights.view(scores.shape))

    def select(self, sources: Tensor) -> None:
        """Go on with it, or with none."""


def cross_attention(
    layer: MergedLayer, encoder_output: Tensor, source_mask: Mask, rows: int
) -> CrossAttention | CrossAttentionToOne:
    """The one or the other, whichever costs less."""
    B, S, _ = encoder_output.shape
    if B == 1 and source_mask is None and is_short(S, layer):
        return CrossAttentionToOne(layer, encoder_output, rows)
    return CrossAttention(layer, encoder_output, source_mask, rows)


def is_short(S: int, layer: MergedLayer) -> bool:
    """Whether `CrossAttentionToOne` of so many tokens costs no more than `CrossAttention`."""
    return S * layer.h <= max(layer.d_model, SMALL)


def _by_head(affine: Affine, encoder_output: Tensor, h: int) -> Tensor:
    """Keys or values of the source: (B·h, S, d_k)."""
    B, S, _ = encoder_output.shape
    return affine.for_rows(B * S)(encoder_output.flatten(0, 1)).view(B, S, h, -1).transpose(1, 2).reshape(B * h, S, -1)


def each_of(indices: Tensor, count: int) -> Tensor:
    """The places of what comes `count` in a row: of (2, 0) and 3, they are (6, 7, 8, 0, 1, 2)."""
    return (indices.unsqueeze(1) * count + torch.arange(count, device=indices.device)).flatten()
