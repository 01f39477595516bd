"""The newest token of each text alone, in as few tensor operations as possible: the numbers are the model's.

    ids (R,) ─ embedding (+ position) ─ num_layers × (attention to kept keys and values, feed-forward) ─ logits (R, V)

The prompts go through the model itself, whose keys and values are taken over. A step is small, and what it costs is the
number of its tensor operations, then the reading of its matrices (`affine`). What becomes fewer (`reading`):

    query, key and value maps become one where they are small, gate and up map too
    the features of queries and keys stand in another order, a pair that is turned together side by side: scores do not
        depend on the order, and a turn becomes one product of complex numbers
    normalizations, activations and the softmax are torch's

Nothing is kept from one text to the next, so nothing can be out of date: the large matrices are read where the model
has them.

Shapes: R texts, h heads, G heads of keys and values, D features of a head, t tokens so far, C tokens that fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from scratch_transformer import nn
from scratch_transformer.generation.affine import Affine
from scratch_transformer.generation.modes import one_thread
from scratch_transformer.generation.newest_attention import Attention, turns
from scratch_transformer.generation.reading import Part, normalization, reading
from scratch_transformer.language_model import Block, FeedForward, LanguageModel

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": partial(F.silu, inplace=True), "relu": torch.relu_, "sigmoid": torch.sigmoid_,
    "gelu": F.gelu, "gelu_tanh": partial(F.gelu, approximate="tanh"),
}  # fmt: skip

PARTS = {
    Block, FeedForward, LanguageModel, nn.CausalSelfAttention, nn.Dropout, nn.Embedding, nn.GatedFeedForward,
    nn.LayerNorm, nn.Linear, nn.ModuleList, nn.RMSNorm, nn.RotaryEmbedding,
}  # fmt: skip


class Newest:
    """`decoders.Cached` for a model that `is_suitable`, in fewer operations."""

    def __init__(self, model: LanguageModel, mask: Tensor, capacity: int) -> None:
        self.model, self.length = model, 0
        self.norm = normalization(model.norm)
        self.lengths = None if mask.all() else mask.sum(-1)  # tokens, without padding, of each text
        self.mask = mask
        self.capacity = capacity
        self.turns = None if model.rotary is None else turns(model, capacity)

    @staticmethod
    def is_suitable(model: LanguageModel) -> bool:
        """Whether it is in single or double precision, and of this package's own parts, at which nobody looks."""
        is_own = all(type(m) in PARTS and not (m._forward_hooks or m._forward_pre_hooks) for m in model.modules())
        return is_own and model.embedding.weight.dtype in (torch.float32, torch.float64)

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
        blocks, is_turned = enumerate(self.model.blocks), self.turns is not None
        self.layers = [_Layer(block, cache.layer(i), is_turned) for i, block in blocks]  # type: ignore[arg-type]
        self.length = ids.shape[1]
        self.largest = len(ids) * max(matrix.numel() for matrix in self.model.blocks.parameters())
        own, embedding = self.model.head, self.model.embedding
        self.head = (Affine(embedding.weight, None) if own is None else Affine.of(own)).for_rows(len(ids))
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
        turns = None if self.turns is None else self.turns[position]
        self.length += 1
        self.lengths = None if self.lengths is None else self.lengths + 1
        with one_thread(self.largest):
            for layer in self.layers:
                x = layer(x, turns, self.length)
            x = self.norm(x)
        return self.head(x)


class _Layer:
    """`language_model.Block`, one token of each text: x (R, d_model) -> the same."""

    def __init__(self, block: Block, kept: Tensor, is_turned: bool) -> None:
        own, R = block.feed_forward, kept.shape[1]
        self.attention = Attention(block.attention, block.attention_norm, kept, is_turned)
        self.output, self.down = (Affine.of(each).for_rows(R) for each in (block.attention.o_proj, own.down_proj))
        self.activation = ACTIVATIONS[own.activation]
        self.is_gated = isinstance(own, nn.GatedFeedForward)
        layers = (own.gate_proj, own.up_proj) if isinstance(own, nn.GatedFeedForward) else (own.up_proj,)
        parts = [Part(layer) for layer in layers]
        self.up = reading(block.feed_forward_norm, parts, R)

    def __call__(self, x: Tensor, turns: Tensor | None, length: int) -> Tensor:
        x = self.output.added(x, self.attention(x, turns, length))
        up = self.up(x)
        if self.is_gated:
            gate, up = up.chunk(2, dim=-1)
            return self.down.added(x, self.activation(gate).mul_(up))
        return self.down.added(x, self.activation(up))
