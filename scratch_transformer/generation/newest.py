"""The newest token of each text alone, in as few tensor operations as possible: the numbers are the model's.

    ids (R,) ─ embedding (+ position) ─ num_layers × (attention to kept keys and values, feed-forward) ─ logits (R, V)

The prompts go through the model itself, whose keys and values are taken over. What is merged besides (`affine`):

    query, key and value maps become one, gate and up map too; 1/√D is in the query's
    the features of queries and keys stand in another order, a pair that is turned together side by side: scores do not
        depend on the order, and a turn becomes one product of complex numbers
    silu(g) = g σ(g) = ½g (1 + tanh ½g), and the ½ is in the gate's map
    a layer norm is a root-mean-square norm of what has no mean: the first x has none, nor has what is added to it

Shapes: R texts, h heads, G heads of keys and values, D features of a head, t tokens so far, C tokens that fit.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from scratch_transformer import nn
from scratch_transformer.generation.affine import Affine, Normalization
from scratch_transformer.language_model import Block, LanguageModel
from scratch_transformer.nn.feed_forward import ACTIVATIONS

LARGEST = 1 << 28
"""Parameters in all blocks, of which a merged copy is made: larger matrices take longer to read than operations do."""


class Newest:
    """`decoders.Cached` for a model that `is_suitable`, in fewer operations."""

    def __init__(self, model: LanguageModel, mask: Tensor, capacity: int) -> None:
        self.model, self.length, c = model, 0, model.config
        self.is_layer_norm = c.norm == "layer"
        self.norm = _normalization(model.norm)
        self.lengths = None if mask.all() else mask.sum(-1)  # tokens, without padding, of each text
        self.mask = mask
        self.capacity = capacity
        self.turns = None if model.rotary is None else _turns(model, capacity)

    @staticmethod
    def is_suitable(model: LanguageModel) -> bool:
        """Whether it computes in single or double precision, and is small."""
        count = sum(parameter.numel() for parameter in model.blocks.parameters())
        return count <= LARGEST and model.embedding.weight.dtype in (torch.float32, torch.float64)

    def step(self, ids: Tensor) -> Tensor:
        """Append ids (R, L), at first the prompts, then one token to each: the logits (R, V) of what comes next."""
        return self._next(ids.squeeze(1)) if self.length else self._first(ids)

    def keep(self, rows: Tensor) -> None:
        """Go on with these texts: indices (R',)."""
        self.lengths = None if self.lengths is None else self.lengths[rows]
        for layer in self.layers:
            layer.attention.keep(rows)

    def _first(self, ids: Tensor) -> Tensor:
        is_padded = self.lengths is not None
        cache = nn.KeyValueCache(self.model.config.num_layers, self.capacity)
        states = self.model.states(ids, cache, self.mask if is_padded else None)
        self.layers = [_Layer(block, cache.layer(i)) for i, block in enumerate(self.model.blocks)]  # type: ignore
        self.length = ids.shape[1]
        if is_padded:
            blocked = torch.zeros(len(ids), self.capacity, dtype=states.dtype, device=ids.device)
            blocked[:, : self.length].masked_fill_(~self.mask, float("-inf"))
            for layer in self.layers:
                layer.attention.block(blocked)
        return self.model.project(states[:, -1])

    def _next(self, ids: Tensor) -> Tensor:
        x = self.model.embedding.weight.index_select(0, ids)
        position = self.length if self.lengths is None else self.lengths  # of the new token: () or (R,)
        if self.model.positions is not None:
            x = x + self.model.positions.weight[position]
        if self.is_layer_norm:
            x = self.norm.centred(x)
        turns = None if self.turns is None else self.turns[position]
        self.length += 1
        self.lengths = None if self.lengths is None else self.lengths + 1
        for layer in self.layers:
            x = layer(x, turns, self.length)
        return self.model.project(self.norm(x))


class _Layer:
    """`language_model.Block`, one token of each text: x (R, d_model) -> the same."""

    def __init__(self, block: Block, kept: Tensor) -> None:
        self.attention_norm, self.norm = map(_normalization, (block.attention_norm, block.feed_forward_norm))
        writing = Affine.centred if isinstance(block.attention_norm, nn.LayerNorm) else lambda affine: affine
        self.attention = _Attention(block.attention, self.attention_norm, kept)
        self.output, self.down = (
            writing(Affine.of(layer)) for layer in (block.attention.o_proj, block.feed_forward.down_proj)
        )
        self.gated = isinstance(block.feed_forward, nn.GatedFeedForward)
        self.activation = ACTIVATIONS[block.feed_forward.activation]
        self.up = Affine.of(block.feed_forward.up_proj).behind(self.norm)
        if isinstance(block.feed_forward, nn.GatedFeedForward):
            gate = Affine.of(block.feed_forward.gate_proj).behind(self.norm)
            if self.activation is ACTIVATIONS["silu"]:
                gate, self.activation = gate.times(0.5), _silu_of_twice
            self.up = Affine.beside([gate, self.up])
        elif self.activation is ACTIVATIONS["gelu_tanh"]:
            self.down, self.activation = Affine(self.down.weight * 0.5, self.down.bias), _twice_gelu_tanh

    def __call__(self, x: Tensor, turns: Tensor | None, length: int) -> Tensor:
        x = self.output.added(x, self.attention(self.attention_norm.direction(x), turns, length))
        up = self.up(self.norm.direction(x))
        if self.gated:
            gate, up = up.chunk(2, dim=-1)
            return self.down.added(x, self.activation(gate).mul_(up))
        return self.down.added(x, self.activation(up))


def _silu_of_twice(x: Tensor) -> Tensor:
    """`functional.silu(2 x)`."""
    return torch.addcmul(x, x, x.tanh())


def _twice_gelu_tanh(x: Tensor) -> Tensor:
    """2 `functional.gelu(x, "tanh")`."""
    inner = torch.addcmul(x, x * x, x, value=0.044715).mul_(math.sqrt(2 / math.pi))
    return torch.addcmul(x, x, inner.tanh_())


class _Attention:
    """`nn.CausalSelfAttention` without its last map, of the newest token of each text: (R, d_model) -> (R, h·D)."""

    def __init__(self, attention: nn.CausalSelfAttention, norm: Normalization, kept: Tensor) -> None:
        a = attention
        self.h, self.G, self.D = a.num_heads, a.num_kv_heads, a.head_dim
        scale = 1 / math.sqrt(self.D)
        query, key, value = (Affine.of(layer).behind(norm) for layer in (a.q_proj, a.k_proj, a.v_proj))
        self.gain: Tensor | None = None  # of the norms of queries and keys: (h + G, D)
        if a.q_norm is not None and a.k_norm is not None:
            norms = [(a.q_norm, self.h, scale), (a.k_norm, self.G, 1.0)]
            gains = [_pairs(_normalization(each).gain * factor).expand(heads, -1) for each, heads, factor in norms]
            self.gain, self.head_norm = torch.cat(gains), _normalization(a.q_norm)
        else:
            query = query.times(scale)
        self.project = Affine.beside([_paired(query, self.D), _paired(key, self.D), value])
        self.blocked: Tensor | None = None
        kept[0] = _pairs(kept[0])
        self._keep(kept)

    def block(self, blocked: Tensor) -> None:
        """Padding: -inf, and 0 for tokens, (R, C)."""
        self.blocked = blocked.repeat_interleave(self.G, 0).unsqueeze(1)  # (R·G, 1, C)

    def _keep(self, kept: Tensor) -> None:
        """kept (2, R, G, C, D): keys and values of each token."""
        self.kept = kept.transpose(0, 1)  # (R, 2, G, C, D)
        keys, self.values = kept.flatten(1, 2)  # (R·G, C, D)
        self.keys = keys.transpose(1, 2)

    def keep(self, rows: Tensor) -> None:
        if self.blocked is not None:
            self.blocked = self.blocked.unflatten(0, (-1, self.G))[rows].flatten(0, 1)
        self._keep(self.kept.index_select(0, rows).transpose(0, 1).contiguous())

    def __call__(self, u: Tensor, turns: Tensor | None, length: int) -> Tensor:
        R, h, G, D = len(u), self.h, self.G, self.D
        new = self.project(u)  # queries of h heads, keys and values of G each
        if self.gain is not None:
            turning = new.view(R, h + 2 * G, D).narrow(1, 0, h + G)
            turning.copy_(self.head_norm.direction(turning).mul_(self.gain))
        if turns is not None:  # that of a value is 1
            torch.view_as_complex(new.view(R, h + 2 * G, D // 2, 2)).mul_(turns)
        self.kept.select(3, length - 1).copy_(new.narrow(1, h * D, 2 * G * D).view(R, 2, G, D))
        query, keys = new.narrow(1, 0, h * D).reshape(R * G, h // G, D), self.keys.narrow(2, 0, length)
        if self.blocked is None:
            scores = query.bmm(keys)
        else:
            scores = torch.baddbmm(self.blocked.narrow(2, 0, length), query, keys)
        weights = scores.sub_(scores.logsumexp(-1, keepdim=True)).exp_()  # the softmax: (R·G, h/G, t)
        return weights.bmm(self.values.narrow(1, 0, length)).view(R, h * D)


def _turns(model: LanguageModel, capacity: int) -> Tensor:
    """e^iθ of every position, for h queries, G keys and, 1, G values: complex (C, h + 2 G, D/2)."""
    c, weight = model.config, model.embedding.weight
    cos, sin = model.rotary.turns(torch.arange(capacity, device=weight.device), weight.dtype)  # type: ignore
    turns = torch.complex(cos, sin).unsqueeze(1)
    values = torch.ones_like(turns).expand(-1, c.num_kv_heads, -1)
    return torch.cat([turns.expand(-1, c.num_heads + c.num_kv_heads, -1), values], dim=1)


def _normalization(norm: Any) -> Normalization:
    """Of an nn.RMSNorm, or of an nn.LayerNorm where rows have no mean."""
    return Normalization(norm.weight, getattr(norm, "bias", None), norm.eps)


def _paired(affine: Affine, D: int) -> Affine:
    """Of each head the features in the order of `_pairs`."""
    order = _pairs(torch.arange(len(affine.weight), device=affine.weight.device).view(-1, D)).flatten()
    return Affine(affine.weight[order], None if affine.bias is None else affine.bias[order])


def _pairs(x: Tensor) -> Tensor:
    """Features (…, D) in the order 0, D/2, 1, D/2 + 1, …: what rotary turns pair, side by side."""
    return x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
