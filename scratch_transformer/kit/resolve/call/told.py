"""What decoding functions are given besides a model: the ids of a source, a config."""

from __future__ import annotations

from typing import Any

from scratch_transformer.kit.resolve.build.config import Config, Unknown
from scratch_transformer.kit.resolve.names.settings import settings_of

SOURCE, SOURCE_LENGTH = 7, 12
"""Every id of the source that a decoder is given, and how many there are: no target of the toy model is like that, and
a decoder may write as many words as it has read."""
LONG, LAYERS, WORDS = 64, 2, 9
"""The longest sequence that the toy model says it takes, how many layers it has, and of how many words it knows."""


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
