"""Stacks of layers, and whole models from ids to logits, by recipe."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from scratch_transformer import functional, masks
from scratch_transformer.kit.canonical.activation import Activation
from scratch_transformer.kit.canonical.attention import Projection
from scratch_transformer.kit.canonical.blocks import DecoderLayer, DecoderOnlyLayer, EncoderLayer
from scratch_transformer.kit.canonical.core import Mask
from scratch_transformer.kit.canonical.embedding import Embedding, Positions
from scratch_transformer.kit.canonical.normalization import Norm
from scratch_transformer.kit.recipe import Recipe

Settings = dict[str, Any]


class Stack(nn.Module):
    """Layers one after the other, and a final norm if the recipe has one."""

    layer: type[nn.Module]

    def __init__(self, settings: Settings, recipe: Recipe) -> None:
        super().__init__()
        self.recipe, number = recipe, 1 if recipe.depth == "first layer" else settings["num_layers"]
        if recipe.layers == "shared":
            self.layers = nn.ModuleList([self.layer(settings, recipe)] * number)
        else:
            self.layers = nn.ModuleList([self.layer(settings, recipe) for _ in range(number)])
        self.norm = Norm(settings["d_model"], 1e-5, recipe) if recipe.final_norm else None

    def through(self, x: Tensor, *others: Any) -> Tensor:
        start = x
        for layer in self.layers if self.recipe.feeding != "nothing" else ():
            x = layer(start if self.recipe.feeding == "first input" else x, *others)
        return x if self.norm is None else self.norm(x)


class Encoder(Stack):
    layer = EncoderLayer

    def forward(self, x: Tensor, mask: Mask = None) -> Tensor:
        return self.through(x, mask)


class Decoder(Stack):
    layer = DecoderLayer

    def forward(self, x: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None) -> Tensor:
        if self.recipe.roles == "exchanged in every layer":
            for layer in self.layers:
                x = layer(memory, x, mask, memory_mask)
            return x if self.norm is None else self.norm(x)
        return self.through(x, memory, mask, memory_mask)


class DecoderOnlyStack(Stack):
    layer = DecoderOnlyLayer

    def forward(self, x: Tensor) -> Tensor:
        return self.through(x)


class Projected(nn.Module):
    """x (B, T, d_model) -> logits (B, T, vocab_size), or their softmax or log_softmax."""

    def __init__(self, d_model: int, vocab_size: int, recipe: Recipe) -> None:
        super().__init__()
        linear = Projection(d_model, vocab_size, recipe)
        self.weight, self.bias, self.recipe = linear.weight, linear.bias, recipe

    def forward(self, x: Tensor) -> Tensor:
        divisor = math.sqrt(x.shape[-1]) if self.recipe.logits == "over sqrt(d_model)" else 1.0
        return finished((x @ self.weight.T + self.bias) / divisor, self.recipe.output)


class Head(Projected):
    """The same, behind a layer of its own if the recipe says so: norm(activation(x W + b)), as in BERT."""

    def __init__(self, d_model: int, vocab_size: int, recipe: Recipe) -> None:
        super().__init__(d_model, vocab_size, recipe)
        if recipe.head_layer:
            self.inner, self.norm = Projection(d_model, d_model, recipe), Norm(d_model, 1e-5, recipe)
            self.activation = Activation(recipe)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.norm(self.activation(self.inner(x))) if self.recipe.head_layer else x)


def finished(logits: Tensor, output: str) -> Tensor:
    if output == "logits":
        return logits
    axis = 1 if output.endswith("over the tokens") else -1
    log = output.startswith("log-probabilities")
    return functional.log_softmax(logits, axis) if log else functional.softmax(logits, axis)


class Embedded(nn.Module):
    """Ids (B, T) to embeddings with positions (B, T, d_model), normalized if the recipe says so."""

    def __init__(self, settings: Settings, recipe: Recipe) -> None:
        super().__init__()
        d_model = settings["d_model"]
        self.embed = Embedding(settings["vocab_size"], d_model, recipe)
        self.pos = Positions(d_model, settings["max_len"], recipe)
        self.embed_norm = Norm(d_model, 1e-5, recipe) if recipe.embedding_norm else None

    def embedded(self, ids: Tensor) -> Tensor:
        x = self.pos(self.embed(ids))
        return x if self.embed_norm is None else self.embed_norm(x)

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedded(ids)


class TokenEncoder(Embedded):
    """Source ids to the encoder's output: embedding, positions and layers in one."""

    def __init__(self, settings: Settings, recipe: Recipe) -> None:
        super().__init__(settings, recipe)
        self.stack = Encoder(settings, recipe)

    def forward(self, ids: Tensor, mask: Mask = None) -> Tensor:
        output: Tensor = self.stack(self.embedded(ids), mask)
        return output


class TokenDecoder(Embedded):
    """Target ids and the encoder's output to logits, or to the last layer's output."""

    def __init__(self, settings: Settings, recipe: Recipe) -> None:
        super().__init__(settings, recipe)
        d_model = settings["d_model"]
        self.stack = Decoder(settings, recipe)
        self.projection = Projected(d_model, settings["vocab_size"], recipe) if recipe.head else None

    def forward(  # type: ignore[override]
        self, ids: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None
    ) -> Tensor:
        x = self.stack(self.embedded(ids), memory, mask, memory_mask)
        return x if self.projection is None else self.projection(x)


def keys_of(mask: Mask) -> Mask:
    """Of the target's mask, its padding (B, 1, 1, T)."""
    return None if mask is None else mask.any(-2, keepdim=True)


def causal_of(mask: Mask, length: int) -> Tensor:
    """The source's mask, and the future blocked too."""
    lower = masks.causal(length)[None, None]
    return lower if mask is None else lower & mask


class Seq2Seq(nn.Module):
    """Source and target ids to logits, or to the last layer's output."""

    def __init__(self, settings: Settings, recipe: Recipe) -> None:
        super().__init__()
        self.recipe, self.pads = recipe, (settings["src_pad"], settings["tgt_pad"])
        d_model, src, tgt = settings["d_model"], settings["src_vocab_size"], settings["tgt_vocab_size"]
        source, target = recipe.within("encoder"), recipe.within("decoder")
        self.src_embed, self.tgt_embed = Embedding(src, d_model, source), Embedding(tgt, d_model, target)
        self.src_pos = Positions(d_model, settings["max_len"], source)
        self.tgt_pos = Positions(d_model, settings["max_len"], target)
        self.src_embed_norm = Norm(d_model, 1e-5, source) if source.embedding_norm else nn.Identity()
        self.tgt_embed_norm = Norm(d_model, 1e-5, target) if target.embedding_norm else nn.Identity()
        self.encoder, self.decoder = Encoder(settings, source), Decoder(settings, target)
        self.projection = Projected(d_model, tgt, recipe) if recipe.head else nn.Identity()

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Mask = None, tgt_mask: Mask = None) -> Tensor:
        if self.recipe.roles.startswith("swapped"):
            if self.recipe.roles == "swapped before masks are made":
                own, other = tgt != self.pads[0], src != self.pads[1]  # each looks for the other's padding
                tgt_mask, src_mask = own[:, None, None, :], other[:, None, None, :]
            src, tgt, src_mask, tgt_mask = tgt, src, keys_of(tgt_mask), causal_of(src_mask, src.shape[1])
        own = src_mask if self.recipe.source_mask == "source" else causal_of(src_mask, src.shape[1])
        memory = self.encoder(self.src_embed_norm(self.src_pos(self.src_embed(src))), own)
        table = self.tgt_embed if self.recipe.target_table == "own" else self.src_embed
        y = self.tgt_embed_norm(self.tgt_pos(table(tgt)))
        return self.projection(self.decoder(y, memory, tgt_mask, src_mask))


class DecoderOnly(Embedded):
    """Ids to the logits of the next ids, like GPT, or to the last layer's output."""

    def __init__(self, settings: Settings, recipe: Recipe) -> None:
        super().__init__(settings, recipe)
        self.stack = DecoderOnlyStack(settings, recipe)
        self.projection = Projected(settings["d_model"], settings["vocab_size"], recipe) if recipe.head else None

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.stack(self.embedded(ids))
        return x if self.projection is None else self.projection(x)
