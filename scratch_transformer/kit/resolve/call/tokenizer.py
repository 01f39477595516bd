"""A tokenizer that decoding functions are given in place of the numbers of the first and the last token."""

from __future__ import annotations

from typing import Any

FIRST = ("sos", "bos", "start", "begin", "cls", "<s>", "go")
LAST = ("eos", "end", "stop", "sep", "</s>")


class Tokenizer:
    """Any usual way to ask for the two: token_to_id("[SOS]"), vocab["<eos>"], eos_token_id."""

    def __init__(self, bos: int, eos: int, size: int = 64) -> None:
        self.bos, self.eos, self.size = bos, eos, size

    def token_to_id(self, token: Any, *others: Any) -> int:
        """Of the first or the last token; 0 for others."""
        word = str(token).lower()
        if any(part in word for part in LAST):
            return self.eos
        return self.bos if any(part in word for part in FIRST) else 0

    __getitem__ = __call__ = convert_tokens_to_ids = get = lookup = token_to_id

    def get_vocab_size(self) -> int:
        """How many tokens there are."""
        return self.size

    def __len__(self) -> int:
        return self.size

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        word = name.lower()
        known = any(part in word for part in (*FIRST, *LAST, "pad", "unk"))
        return self.token_to_id(name) if known else self


def is_tokenizer(name: str) -> bool:
    """Whether a parameter of this name takes a tokenizer or a vocabulary."""
    word = name.lower()
    return "tokenizer" in word or word.endswith(("vocab", "vocabulary", "_lang", "_field"))
