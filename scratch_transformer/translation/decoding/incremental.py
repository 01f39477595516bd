"""The decoder's newest token alone: the keys and values of the tokens before it, and of the source, are kept.

    ids (R,) ─ embedding + position ─ N × (self-attention, cross-attention, feed-forward) ─ logits (R, V)
                                            │                │
                              keys, values of all      keys, values of the source,
                              tokens so far, grows     computed once

The decoder is causal: a later token changes nothing about the earlier ones, so their keys and values stay what they
were, and T tokens cost T steps of one token instead of T whole prefixes. The numbers are those of `model.decode`.

Such a step is small, and what it costs is the number of tensor operations: so the projections to query, key and value
are one product here, and their weights hold the 1/√d_k. Shapes: B sources, K prefixes of each, R = B·K, h heads,
t tokens so far, S source length. Half-precision models are stepped in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.model import (
    DecoderBlock,
    LayerNormalization,
    MultiHeadAttentionBlock,
    ResidualConnection,
    Transformer,
)
from scratch_transformer.nn import Linear
from scratch_transformer.precision import widen

FIRST_CAPACITY = 64
"""Tokens that a cache has room for at first; it doubles when they are used up."""


class IncrementalDecoder:
    """K prefixes of each source, one token longer with every `step`. Row b·K + i is prefix i of source b.

    To be made and used under torch.inference_mode(), with the model in evaluation mode: `modes.deciding`.

    Args:
        model: what `build_transformer` made, with any of its options.
        source_ids: (B, S), padded with source_pad_id on either side.
        K: prefixes of each source.
    """

    def __init__(self, model: Transformer, source_ids: Tensor, source_pad_id: int, K: int = 1) -> None:
        source_mask = masks.padding(source_ids, source_pad_id)
        encoder_output = widen(model.encode(source_ids, source_mask))
        rows = len(source_ids) * K
        self.layers = [_Layer(layer, encoder_output, source_mask, rows) for layer in model.decoder.layers]  # type: ignore[arg-type]
        self.norm = _normalization(model.decoder.norm) if model.decoder.norm is not None else None
        self.project = _affine(model.projection_layer.proj)
        self.embedding, self.scale = widen(model.tgt_embed.embedding.weight), math.sqrt(model.tgt_embed.d_model)
        self.positions = widen(model.tgt_pos.pe.reshape(model.tgt_pos.seq_len, -1))
        self.K, self.length = K, 0

    def step(self, ids: Tensor) -> Tensor:
        """Append ids (R,), one to each prefix: the logits (R, V) of the token that comes next.

        Raises ValueError when the prefixes are longer than the model has positions for.
        """
        if self.length == len(self.positions):
            raise ValueError(f"decoding: a prefix of {self.length + 1} tokens is longer than seq_len={self.length}")
        x = torch.add(self.positions[self.length], self.embedding.index_select(0, ids), alpha=self.scale)
        self.length += 1
        for layer in self.layers:
            x = layer(x)
        return self.project(x if self.norm is None else self.norm(x))

    def reorder(self, rows: Tensor) -> None:
        """Row r continues what was row rows[r], of the same source: (R,)."""
        for layer in self.layers:
            layer.self_attention.select(rows)

    def keep(self, sources: Tensor) -> None:
        """Go on with these of the sources: indices (B',)."""
        rows = _each_of(sources, self.K)
        for layer in self.layers:
            layer.self_attention.select(rows)
            layer.cross_attention.select(sources)


class _Layer:
    """`model.DecoderBlock`, one token of each row: x (R, d_model) -> the same."""

    def __init__(self, block: DecoderBlock, encoder_output: Tensor, source_mask: Tensor, rows: int) -> None:
        self.self_attention = _SelfAttention(block.self_attention_block, rows)
        self.cross_attention = _CrossAttention(block.cross_attention_block, encoder_output, source_mask)
        self.inner = _affine(block.feed_forward_block.linear_1)
        self.outer = _affine(block.feed_forward_block.linear_2)
        sublayers = (self.self_attention, self.cross_attention, self.feed_forward)
        self.residuals = list(map(_residual, block.residual_connections, sublayers))  # type: ignore[arg-type]

    def __call__(self, x: Tensor) -> Tensor:
        for residual in self.residuals:
            x = residual(x)
        return x

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.outer(self.inner(x).clamp_(min=0))


class _SelfAttention:
    """The newest token's attention to all tokens so far and itself."""

    def __init__(self, block: MultiHeadAttentionBlock, rows: int) -> None:
        self.project = _affine(block.w_q, block.w_k, block.w_v, query_scale=_scale(block))
        self.output = _affine(block.w_o)
        self.h, self.length = block.h, 0
        like, d_k = widen(block.w_q.weight), block.w_q.weight.shape[0] // block.h
        self.keys = like.new_empty(rows * block.h, d_k, FIRST_CAPACITY)  # as columns: a product takes them as they are
        self.values = like.new_empty(rows * block.h, FIRST_CAPACITY, d_k)

    def __call__(self, x: Tensor) -> Tensor:
        R, d_model = x.shape
        query, key, value = self.project(x).view(R, 3, self.h, -1).unbind(1)  # each (R, h, d_k)
        keys, values = self._append(key.reshape(R * self.h, -1), value.reshape(R * self.h, -1))
        weights = _softmax_(query.reshape(R * self.h, 1, -1).bmm(keys))  # (R·h, 1, t)
        return self.output(weights.bmm(values).view(R, d_model))

    def _append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """All keys (R·h, d_k, t) and values (R·h, t, d_k), the new ones last."""
        if self.length == self.values.shape[1]:
            self.keys = torch.cat([self.keys, torch.empty_like(self.keys)], dim=2)
            self.values = torch.cat([self.values, torch.empty_like(self.values)], dim=1)
        self.keys.select(2, self.length).copy_(key)
        self.values.select(1, self.length).copy_(value)
        self.length += 1
        return self.keys.narrow(2, 0, self.length), self.values.narrow(1, 0, self.length)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, in this order."""
        chosen = _each_of(rows, self.h)
        self.keys, self.values = self.keys.index_select(0, chosen), self.values.index_select(0, chosen)


class _CrossAttention:
    """The newest token's attention to its source, whose keys and values never change; the K prefixes share them."""

    def __init__(self, block: MultiHeadAttentionBlock, encoder_output: Tensor, source_mask: Tensor) -> None:
        self.project = _affine(block.w_q, query_scale=_scale(block))
        self.output = _affine(block.w_o)
        self.h = block.h
        B, S, _ = encoder_output.shape
        projected = _affine(block.w_k, block.w_v)(encoder_output.flatten(0, 1))
        key, value = projected.view(B, S, 2, self.h, -1).unbind(2)  # each (B, S, h, d_k)
        self.keys = key.permute(0, 2, 3, 1).reshape(B * self.h, -1, S)
        self.values = value.transpose(1, 2).reshape(B * self.h, S, -1)
        self.mask = None if source_mask.all() else self._additive(source_mask)

    def _additive(self, source_mask: Tensor) -> Tensor:
        """0 where a key may be attended to, -inf where not: (B·h, 1, S)."""
        source_mask = source_mask.expand(-1, self.h, -1, -1).flatten(0, 1)
        is_empty = ~source_mask.any(dim=-1, keepdim=True)  # a source of padding alone gives zeros, as in `attention`
        self.values.masked_fill_(is_empty, 0)
        return masks.to_additive(source_mask | is_empty, self.values.dtype)

    def __call__(self, x: Tensor) -> Tensor:
        (R, d_model), (B_h, d_k, _) = x.shape, self.keys.shape
        B = B_h // self.h
        query = self.project(x).view(B, R // B, self.h, d_k).transpose(1, 2).reshape(B_h, R // B, d_k)
        scores = query.bmm(self.keys) if self.mask is None else torch.baddbmm(self.mask, query, self.keys)
        heads = _softmax_(scores).bmm(self.values)  # (B·h, K, d_k)
        return self.output(heads.view(B, self.h, R // B, d_k).transpose(1, 2).reshape(R, d_model))

    def select(self, sources: Tensor) -> None:
        """Go on with these sources."""
        chosen = _each_of(sources, self.h)
        self.keys, self.values = self.keys.index_select(0, chosen), self.values.index_select(0, chosen)
        self.mask = None if self.mask is None else self.mask.index_select(0, chosen)


def _each_of(indices: Tensor, count: int) -> Tensor:
    """The places of what comes `count` in a row: of (2, 0) and 3, they are (6, 7, 8, 0, 1, 2)."""
    return (indices.unsqueeze(1) * count + torch.arange(count, device=indices.device)).flatten()


# ---- The parts of the model, prepared once ----


def _scale(block: MultiHeadAttentionBlock) -> float:
    """1/√d_k."""
    return math.sqrt(block.h / block.w_q.weight.shape[0])


def _affine(*layers: Linear, query_scale: float = 1.0) -> Callable[[Tensor], Tensor]:
    """x -> x Wᵀ + b of all `layers` side by side, as one product; the first one's output times query_scale."""
    weights, biases = [], []
    for layer, scale in zip(layers, (query_scale, *(1.0,) * len(layers)), strict=False):
        bias = layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias
        weights.append(widen(layer.weight) * scale if scale != 1 else widen(layer.weight))
        biases.append(widen(bias) * scale)
    weight = weights[0] if len(weights) == 1 else torch.cat(weights)
    # a single row times a matrix takes as long as reading the matrix, which goes fastest along its longer side
    matrix = weight.T.contiguous() if weight.shape[0] >= weight.shape[1] else weight.T
    return partial(torch.addmm, torch.cat(biases), mat2=matrix)


def _softmax_(scores: Tensor) -> Tensor:
    """`functional.softmax` of the last dimension, in place."""
    scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return scores.div_(scores.sum(-1, keepdim=True))


def _normalization(norm: LayerNormalization) -> Callable[[Tensor], Tensor]:
    """`functional.layer_norm` in fewer operations: 1 / √(|c|²/n + ε) = √n / √(|c|² + nε), c = x - μ of n features."""
    n = len(norm.alpha)
    gain, bias = widen(norm.alpha) * math.sqrt(n), widen(norm.bias)
    floor = torch.full_like(gain[:1], math.sqrt(n * norm.eps))

    def normalize(x: Tensor) -> Tensor:
        centred = torch.sub(x, x.sum(-1, keepdim=True), alpha=1 / n)
        length = torch.linalg.vector_norm(centred, dim=-1, keepdim=True).hypot_(floor)
        return torch.addcmul(bias, centred.div_(length), gain)

    return normalize


def _residual(connection: ResidualConnection, sublayer: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`model.ResidualConnection` around a sublayer, without dropout."""
    norm = _normalization(connection.norm)
    if connection.norm_first:
        return lambda x: x + sublayer(norm(x))
    return lambda x: norm(x + sublayer(x))
