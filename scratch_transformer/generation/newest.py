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

import torch
from torch import Tensor

from scratch_transformer import nn
from scratch_transformer.generation.affine import Affine, Part, behind
from scratch_transformer.generation.newest_attention import Attention, normalization, turns
from scratch_transformer.language_model import Block, FeedForward, LanguageModel
from scratch_transformer.nn.feed_forward import ACTIVATIONS

LARGEST = 1 << 28
"""Parameters in all blocks, of which a merged copy is made: larger matrices take longer to read than operations do."""

PARTS = {
    Block, FeedForward, LanguageModel, nn.CausalSelfAttention, nn.Dropout, nn.Embedding, nn.GatedFeedForward,
    nn.LayerNorm, nn.Linear, nn.ModuleList, nn.RMSNorm, nn.RotaryEmbedding,
}  # fmt: skip


class Newest:
    """`decoders.Cached` for a model that `is_suitable`, in fewer operations."""

    def __init__(self, model: LanguageModel, mask: Tensor, capacity: int) -> None:
        self.model, self.length, c = model, 0, model.config
        self.is_layer_norm = c.norm == "layer"
        self.norm = normalization(model.norm)
        self.lengths = None if mask.all() else mask.sum(-1)  # tokens, without padding, of each text
        self.mask = mask
        self.capacity = capacity
        self.turns = None if model.rotary is None else turns(model, capacity)

    @staticmethod
    def is_suitable(model: LanguageModel) -> bool:
        """Whether it is small, in single or double precision, of pairs of features, and of this package's own parts."""
        count = sum(parameter.numel() for parameter in model.blocks.parameters())
        is_own = all(type(m) in PARTS and not (m._forward_hooks or m._forward_pre_hooks) for m in model.modules())
        is_wide = model.embedding.weight.dtype in (torch.float32, torch.float64)
        return count <= LARGEST and is_own and is_wide and model.config.head_dim % 2 == 0

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
        own, embedding = self.model.head, self.model.embedding
        head = Affine(embedding.weight, None) if own is None else Affine.of(own)
        self.head = head.behind(self.norm).for_rows(len(ids))
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
        return self.head(self.norm.direction(x))


class _Layer:
    """`language_model.Block`, one token of each text: x (R, d_model) -> the same."""

    def __init__(self, block: Block, kept: Tensor) -> None:
        self.attention_norm, self.norm = map(normalization, (block.attention_norm, block.feed_forward_norm))
        self.attention = Attention(block.attention, self.attention_norm, kept)
        output, down = Affine.of(block.attention.o_proj), Affine.of(block.feed_forward.down_proj)
        has_mean = isinstance(block.attention_norm, nn.RMSNorm)
        R = kept.shape[1]
        self.output, self.down = ((each if has_mean else each.centred()).for_rows(R) for each in (output, down))
        self.activation = ACTIVATIONS[block.feed_forward.activation]
        self.gated = isinstance(block.feed_forward, nn.GatedFeedForward)
        parts = [Part(block.feed_forward.up_proj)]
        if isinstance(block.feed_forward, nn.GatedFeedForward):
            is_silu = block.feed_forward.activation == "silu"
            parts.insert(0, Part(block.feed_forward.gate_proj, 0.5 if is_silu else 1.0))
            self.activation = _silu_of_twice if is_silu else self.activation
        elif block.feed_forward.activation == "gelu_tanh":
            self.activation = _gelu_tanh
        self.up = behind(self.norm, parts).for_rows(R)

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


def _gelu_tanh(x: Tensor) -> Tensor:
    """`functional.gelu(x, "tanh")`."""
    inner = torch.addcmul(x, x * x, x, value=0.044715).mul_(math.sqrt(2 / math.pi))
    return torch.addcmul(x, x, inner.tanh_()).mul_(0.5)
