"""A small model's step in NumPy, for one prefix of one source on a CPU: the numbers are those of `IncrementalDecoder`.

What such a step costs is less its numbers than the beginning of every operation. NumPy begins one in a third of the
time that torch takes, and multiplies a row by a matrix that a cache holds in half the time. The matrices are read where
`MergedDecoder` has them.

Shapes: h heads, t tokens so far, C tokens that fit, S source length, V tokens of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scratch_transformer.generation.affine import Affine
from scratch_transformer.generation.modes import ALONE
from scratch_transformer.model import Transformer
from scratch_transformer.translation.decoding.cached_attention import FIRST_CAPACITY, CrossAttentionToOne, is_short
from scratch_transformer.translation.decoding.incremental import IncrementalDecoder
from scratch_transformer.translation.decoding.merged import MergedDecoder, MergedLayer
from scratch_transformer.translation.decoding.modes import check_room, numpy_can_be_alone
from scratch_transformer.translation.decoding.prefixes import Decoder
from scratch_transformer.translation.decoding.sublayers import Normalization, Residual

Array = np.ndarray[Any, np.dtype[Any]]


def cached(
    model: Transformer, source_ids: Tensor, source_pad_id: int, K: int = 1, merged: MergedDecoder | None = None
) -> Decoder:
    """A decoder that keeps keys and values, the faster one: `IncrementalDecoder`, with its arguments, or this."""
    merged = MergedDecoder(model) if merged is None else merged
    if len(source_ids) * K == 1 and _suits(merged, source_ids, source_pad_id):
        return SmallDecoder(merged, source_ids)
    return IncrementalDecoder(model, source_ids, source_pad_id, K, merged)


def _suits(merged: MergedDecoder, source_ids: Tensor, source_pad_id: int) -> bool:
    """Whether `SmallDecoder` can decode one source, and is the faster."""
    return (
        numpy_can_be_alone()
        and source_ids.device.type == "cpu"
        and not merged.eight_bits
        and all(layer.largest <= ALONE and is_short(source_ids.shape[1], layer) for layer in merged.layers)
        and source_pad_id not in source_ids
    )


class SmallDecoder:
    """The only prefix of one source, one token longer with every `step`.

    Args:
        merged: of the model, not in eight bits.
        source_ids: (1, S), without padding.
    """

    def __init__(self, merged: MergedDecoder, source_ids: Tensor) -> None:
        self.embedding, self.scale, self.positions = merged.embedding.numpy(), merged.scale, merged.positions.numpy()
        encoder_output = merged.encoder(source_ids, None)
        self.layers = [_Layer(layer, CrossAttentionToOne(layer, encoder_output, 1)) for layer in merged.layers]
        self.norm = None if merged.norm is None else _Norm(merged.norm)
        self.project, self.length = merged.project.for_rows(1), 0

    def step(self, ids: Tensor) -> Tensor:
        """Append an id (1,): the logits (1, V) of the token that comes next.

        Raises ValueError when the prefix is longer than the model has positions for.
        """
        check_room(self.length, len(self.positions))
        x = self.embedding[int(ids)] * self.scale
        x += self.positions[self.length]
        self.length += 1
        for layer in self.layers:
            x = layer(x)
        return self.project(torch.from_numpy(x if self.norm is None else self.norm(x)).unsqueeze(0))

    def reorder(self, rows: Tensor) -> None:
        """The one prefix remains."""

    def keep(self, sources: Tensor) -> None:
        """Go on with the source, or with none."""


class _Layer:
    """`model.DecoderBlock`, the newest token: x (d_model,) -> the same."""

    def __init__(self, layer: MergedLayer, cross: CrossAttentionToOne) -> None:
        self.h, self.t = layer.h, 0
        self.residuals = [_Residual(residual) for residual in layer.residuals]
        self.project, self.output = _Map(layer.self_project), _Map(layer.self_output)  # type: ignore[arg-type]
        self.scores, self.attended = _Map(cross.scores), _Map(cross.output)
        self.linear_1, self.linear_2 = _Map(layer.linear_1), _Map(layer.linear_2)  # type: ignore[arg-type]
        self._keep(np.empty((FIRST_CAPACITY, len(layer.self_project.weight)), self.project.matrix.dtype))

    def _keep(self, tokens: Array) -> None:
        """tokens (C, h · 3 · d_k): of each token what it is projected to, query, key and value of each head."""
        self.tokens = tokens
        by_head = tokens.reshape(len(tokens), self.h, 3, -1)
        self.queries = by_head[:, :, 0, None]  # (C, h, 1, d_k)
        self.keys, self.values = by_head[:, :, 1].transpose(1, 2, 0), by_head[:, :, 2].transpose(1, 0, 2)

    def __call__(self, x: Array) -> Array:
        x = self.residuals[0](x, self.attend)
        x = self.residuals[1](x, self.attend_to_source)
        return self.residuals[2](x, self.feed_forward)

    def attend(self, u: Array) -> Array:
        t = self.t
        if t == len(self.tokens):
            self._keep(np.concatenate([self.tokens, np.empty_like(self.tokens)]))
        self.project(u, out=self.tokens[t])
        self.t = t + 1
        weights = _softmax(self.queries[t] @ self.keys[:, :, : t + 1])  # (h, 1, t + 1)
        return self.output((weights @ self.values[:, : t + 1]).ravel())

    def attend_to_source(self, u: Array) -> Array:
        weights = _softmax(self.scores(u).reshape(self.h, -1))  # (h, S)
        return self.attended(weights.ravel())

    def feed_forward(self, u: Array) -> Array:
        inner = self.linear_1(u)
        return self.linear_2(np.maximum(inner, 0, out=inner))


class _Map:
    """`Affine`."""

    def __init__(self, affine: Affine) -> None:
        self.matrix = affine.weight.numpy().T
        self.bias = None if affine.bias is None else affine.bias.numpy()

    def __call__(self, y: Array, out: Array | None = None) -> Array:
        product: Array = np.dot(y, self.matrix, out=out)
        if self.bias is not None:
            product += self.bias
        return product


class _Norm:
    """`Normalization`."""

    def __init__(self, norm: Normalization) -> None:
        self.gain, self.bias, self.eps = norm.gain.numpy(), norm.bias.numpy(), norm.eps
        self.average = np.full_like(self.gain, 1 / len(self.gain))

    def __call__(self, x: Array) -> Array:
        x = x - x.dot(self.average)
        x *= 1 / math.sqrt(float(x.dot(x)) / len(x) + self.eps)
        x *= self.gain
        x += self.bias
        return x


class _Residual:
    """`Residual`, around a sublayer f that is called with u alone."""

    def __init__(self, residual: Residual) -> None:
        self.norm_first, self.norm = residual.norm_first, _Norm(residual.norm)

    def __call__(self, x: Array, sublayer: Callable[[Array], Array]) -> Array:
        return x + sublayer(self.norm(x)) if self.norm_first else self.norm(x + sublayer(x))


def _softmax(scores: Array) -> Array:
    """Over the last dimension, in place."""
    scores -= np.maximum.reduce(scores, -1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.add.reduce(scores, -1, keepdims=True)
    return scores
