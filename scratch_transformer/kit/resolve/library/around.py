"""The reference's embeddings and projection around a model of vectors, so that it can be called with ids."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.canonical.embedding import Embedding
from scratch_transformer.kit.canonical.stacks import Projected
from scratch_transformer.kit.judge.detectors.inventory import idle_tables
from scratch_transformer.kit.kind import Finding, Kind
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.resolve import structure
from scratch_transformer.kit.resolve.candidate import tensors
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.settings import SOURCE, TARGET
from scratch_transformer.kit.resolve.names.words import words
from scratch_transformer.kit.resolve.weights.layout import walk

NOTE = "It works on vectors, not on ids: the reference's embeddings{} were put around it."


WRITING, STACKS = ("Transformer", "DecoderOnly", "LlamaModel"), ("TokenEncoder", "TokenDecoder")
SIDES = {"src": "src_vocab_size", "tgt": "tgt_vocab_size", "ids": "vocab_size"}


class Around(nn.Module):
    """Ids -> logits, by a learner's model of vectors in between; -> vectors, if it is none that writes."""

    def __init__(self, inner: nn.Module, settings: Mapping[str, Any], writes: bool = True) -> None:
        super().__init__()
        d_model = settings["d_model"]
        self.inner, self.note = inner, NOTE.format(" and projection" if writes else "")
        self.idle = idle_tables(inner)
        for name in self.idle:  # or they would be taken for those around it
            delattr(inner, name)
        for side in sides_of(settings):
            name = "embed" if side == "ids" else f"{side}_embed"
            self.add_module(name, Embedding(settings[SIDES[side]], d_model, RIGHT))
        if writes:
            self.projection = Projected(d_model, settings[SIDES[side]], RIGHT)
        self.forward = _Forward(self)


class _Forward:
    """The forward of Around: it takes what the learner's does."""

    def __init__(self, module: Around) -> None:
        self.module = module
        self.__signature__ = inspect.signature(module.inner.forward)

    def __call__(self, **given: Any) -> Tensor:
        embeds = {side: part for side, part in self.module.named_children() if "embed" in side}
        for name, value in given.items():
            side = f"{_side_of(name)}_embed" if len(embeds) > 1 else "embed"
            if side in embeds and isinstance(value, Tensor) and value.dtype == torch.long and value.dim() == 2:
                given[name] = embeds[side](value)
        output = next(tensors(self.module.inner(**given)))  # as a module is called, so that it is seen to run
        writes = "projection" in dict(self.module.named_children())
        return self.module.projection(output) if writes else output


def within(made: Any) -> Any:
    """The learner's own."""
    return made.inner if isinstance(made, Around) else made


def as_before(again: Any, made: Any, settings: Mapping[str, Any]) -> Any:
    """What was built again, with around it what is around the first."""
    return Around(again, settings, hasattr(made, "projection")) if isinstance(made, Around) else again


def _side_of(name: str) -> str | None:
    """src or tgt: by the whole name, or by a word in it: src_emb."""
    said = {"src": SOURCE, "tgt": TARGET}
    return input_of(name, tuple(said)) or next((side for side in said if said[side] & set(words(name))), None)


def sides_of(settings: Mapping[str, Any]) -> list[str]:
    """The sequences of ids that a model with these settings takes; the last one is written."""
    return [side for side, size in SIDES.items() if size in settings]


def as_its_class_says(finding: Finding) -> Finding:
    """A finding on what is put around, with the names that the learner's own class has for its parts."""
    said = {n: getattr(finding, n).replace("self.inner.", "self.") for n in ("evidence", "form", "name", "fix")}
    return replace(finding, **said)


def of_vectors(made: Any, kind: Kind, settings: Mapping[str, Any]) -> bool:
    """Whether nothing has the size of a vocabulary, nor embeds words; of a stack, if it has positions inside."""
    is_known = kind.name in WRITING or (kind.name in STACKS and structure.has_positions(type(made)))
    if not is_known or not isinstance(made, nn.Module) or type(made).forward is nn.Module.forward:
        return False
    idle = idle_tables(made)
    found = {path: part for path, part in walk(made) if isinstance(part, nn.Embedding) and path not in idle}
    tables = {path.lower(): part.num_embeddings for path, part in found.items()}
    if any(re.search(r"to?k(en)?|word|voc", path) for path in tables):
        return False
    places = {settings.get("max_len"), settings.get("max_len", 0) + 1}
    if any(not re.search(r"pos|seg|typ|lang", path) and rows not in places for path, rows in tables.items()):
        return False  # of a few words more than it was told of
    sizes = {size for values in made.parameters() for size in values.shape}
    if idle and not tables:
        return True
    return bool(sizes) and not sizes & {settings[SIDES[side]] for side in sides_of(kind.defaults)}


def writes(made: nn.Module, kind: Kind, settings: Mapping[str, Any]) -> bool:
    """Whether words are to be made of its vectors: not where a matrix of its own gives their scores."""
    idle = idle_tables(made)
    shapes = [values.shape for name, values in made.named_parameters() if name.partition(".")[0] not in idle]
    sizes = {size for shape in shapes for size in shape}
    return kind.name in WRITING and not (idle and sizes & {settings[SIDES[side]] for side in sides_of(kind.defaults)})
