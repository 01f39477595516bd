"""Decoders that are given one state: the encoder's output, its lengths, and what each layer has kept so far."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_of_torch, source_of
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.names.words import plain

STATE = re.compile(r"(dec(oder)?)?states?$")
PARTS = re.compile(r"states?\[0\]|= ?states?$", re.MULTILINE)
KEPT = re.compile(r"states?\[2\]\[")
MOST_LAYERS = 64
NOTE = "It was given its state as [memory, lengths, [None, …]], in training mode, where it hides the future."


def of_state(made: nn.Module, kind: Kind) -> Callable[..., Any] | None:
    """x, memory, lengths of the memory -> the output, of a decoder of (x, state); None for anything else.

    It hides the future in training only: in evaluation mode it gets one token at a time.
    """
    names = [p.name for p in parameters_of(made.forward) if p.default is p.empty]
    if "memory" not in kind.inputs or len(names) != 2 or not STATE.fullmatch(plain(names[1])) or not _keeps(made):
        return None

    def forward(x: Tensor, memory: Tensor, memory_mask_valid_lens: Tensor | None = None) -> Any:
        before = made.training
        made.train()
        try:
            return made(x, [memory, memory_mask_valid_lens, [None] * MOST_LAYERS])
        finally:
            made.train(before)

    forward.note = NOTE  # type: ignore[attr-defined]
    return forward


def _keeps(made: nn.Module) -> bool:
    """Whether a module, or one of its parts, reads the memory and what it kept from a state."""
    classes: set[Any] = {type(part) for part in made.modules()}
    texts = [source_of(cls) for cls in classes if not is_of_torch(cls)]
    return any(KEPT.search(text) and PARTS.search(text) for text in texts)
