"""What decoding functions are given besides a model: the ids of a source, what an encoder made of it, a config."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.resolve.build.config import Config, Unknown
from scratch_transformer.kit.resolve.names.settings import settings_of

SOURCE, SOURCE_LENGTH = 7, 12
"""Every id of the source that a decoder is given, and how many there are: no target of the toy model is like that, and
a decoder may write as many words as it has read."""
LONG, LAYERS, WORDS = 64, 2, 9
"""The longest sequence that the toy model says it takes, how many layers it has, and of how many words it knows."""

MEMORY = re.compile(
    r"^(src|source)?(mem(ory)?|enc(oder|oded)?(out(puts?)?|hidden(states?)?|states?|mem(ory)?|src|source))$"
)
"""The name of what an encoder has made of the source."""


def memory() -> Tensor:
    """Such, of one sentence: the toy model's next word is none of its affair."""
    return torch.zeros(1, 3, 4)


class Known:
    """What a decoding function reads of a model's config: its longest sequence, its words."""

    def __init__(self, longest: int) -> None:
        self.values = {"max_len": longest, "vocab_size": WORDS, "num_layers": LAYERS}

    def fixes(self, name: str) -> bool:
        return any(setting in self.values for setting in settings_of(name))

    def __call__(self, name: str) -> Any:
        setting = next((one for one in settings_of(name) if one in self.values), None)
        if setting is None:
            raise Unknown(name)
        return self.values[setting]


def config(longest: int = LONG) -> Config:
    """In place of a model's config."""
    return Config(Known(longest))
