"""The reference's embeddings and projection around a model of vectors, so that it can be called with ids."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.canonical.embedding import Embedding
from scratch_transformer.kit.canonical.stacks import Projected
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.resolve.candidate import tensors
from scratch_transformer.kit.resolve.names.inputs import input_of

NOTE = "It works on vectors, not on ids: the reference's embeddings and projection were put around it."


class Around(nn.Module):
    """src, tgt ids -> logits, by a learner's model of vectors in between."""

    def __init__(self, inner: nn.Module, settings: Mapping[str, Any]) -> None:
        super().__init__()
        d_model, target = settings["d_model"], settings["tgt_vocab_size"]
        self.src_embed = Embedding(settings["src_vocab_size"], d_model, RIGHT)
        self.tgt_embed = Embedding(target, d_model, RIGHT)
        self.inner = inner
        self.projection = Projected(d_model, target, RIGHT)
        self.forward = _Forward(self, inner.forward)  # type: ignore[assignment]


class _Forward:
    """The forward of Around: it takes what the learner's does."""

    def __init__(self, module: Around, inner: Any) -> None:
        self.module, self.inner = module, inner
        self.__signature__ = inspect.signature(inner)

    def __call__(self, **given: Any) -> Tensor:
        embeds = {"src": self.module.src_embed, "tgt": self.module.tgt_embed}
        for name, value in given.items():
            side = input_of(name, ("src", "tgt"))
            if side is not None and isinstance(value, Tensor) and value.dtype == torch.long:
                given[name] = embeds[side](value)
        projected: Tensor = self.module.projection(next(tensors(self.inner(**given))))
        return projected


def of_vectors(made: Any, kind: Kind, settings: Mapping[str, Any]) -> bool:
    """Whether nothing in a translation model has the size of a vocabulary."""
    if kind.name != "Transformer" or not isinstance(made, nn.Module) or type(made).forward is nn.Module.forward:
        return False
    sizes = {size for values in made.parameters() for size in values.shape}
    return bool(sizes) and not sizes & {settings["src_vocab_size"], settings["tgt_vocab_size"]}
