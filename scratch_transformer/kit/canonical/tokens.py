"""Byte-pair encoding with given merges, and a number for every letter, by recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.recipe import Recipe

WORDS = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
"""GPT-2's words: with the space before them."""
OF_ASCII = re.compile(WORDS.pattern, re.ASCII)
"""The same where no other letters are known, as in bytes."""
Merge = tuple[bytes, bytes]


def learned(text: str, number: int) -> list[Merge]:
    """Merges of the most frequent pair within words, again and again; of equal ones, the greatest."""
    words = [[bytes([b]) for b in word.encode()] for word in WORDS.findall(text)]
    merges: list[Merge] = []
    for _ in range(number):
        counts: dict[Merge, int] = {}
        for word in words:
            for pair in pairwise(word):
                counts[pair] = counts.get(pair, 0) + 1
        merges.append(max(counts, key=lambda pair: (counts[pair], pair)))
        words = [joined(word, merges[-1]) for word in words]
    return merges


def joined(word: Sequence[bytes], pair: Merge) -> list[bytes]:
    """The word with every such pair made one."""
    found: list[bytes] = []
    for part in word:
        if found and (found[-1], part) == pair:
            found[-1] += part
        else:
            found.append(part)
    return found


class Tokenizer(nn.Module):
    """text -> its ids, and -1 if they give the text again."""

    def __init__(self, settings: Mapping[str, Any], recipe: Recipe) -> None:
        super().__init__()
        self.merges, self.recipe = settings["merges"], recipe
        self.special_tokens = settings["special_tokens"]
        self.splits = settings["splits"]
        vocab = [bytes([i]) for i in range(256)] + [a + b for a, b in self.merges]
        vocab += [word.encode() for word in settings["special_tokens"]]
        self.vocab = vocab
        self.ids = {word: index for index, word in reversed(list(enumerate(vocab)))}

    def forward(self, text: str) -> Tensor:
        specials = () if self.recipe.specials == "cut" else self.special_tokens
        in_order = specials if self.recipe.specials == "as told" else sorted(specials, key=len, reverse=True)
        either = "|".join(map(re.escape, in_order))
        found: list[int] = []
        for part in re.split(f"({either})", text) if either else [text]:
            if part in specials:
                found.append(self.ids[part.encode()])
            else:
                is_cut = self.splits and self.recipe.words != "none"
                pattern = OF_ASCII if self.recipe.words == "of ASCII" else WORDS
                words = pattern.findall(part) if is_cut else [part]
                found += [self.ids[token] for word in words for token in self._encoded(word)]
        return torch.tensor([*found, -1 if self._decoded(found) == text else -2])

    def _decoded(self, ids: Sequence[int]) -> str:
        """The text of the ids again."""
        tokens = [self.vocab[index] for index in ids]
        if self.recipe.decoded == "token by token":
            return "".join(token.decode(errors="replace") for token in tokens)
        return "" if self.recipe.decoded == "another text" else b"".join(tokens).decode(errors="replace")

    def _encoded(self, word: str) -> list[bytes]:
        parts = [bytes([b]) for b in word.encode()]
        if self.recipe.merging == "longest first":
            return self._longest(word.encode())
        ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        while pairs := [pair for pair in pairwise(parts) if pair in ranks]:
            lowest, highest = (pick(pairs, key=ranks.__getitem__) for pick in (min, max))
            chosen = {"from the left": pairs[0], "last learned first": highest}.get(self.recipe.merging, lowest)
            parts = joined(parts, chosen)
            if self.recipe.merging == "once":
                break
        return parts

    def _longest(self, word: bytes) -> list[bytes]:
        found: list[bytes] = []
        while word:
            length = next(n for n in range(len(word), 0, -1) if word[:n] in self.ids)
            found, word = [*found, word[:length]], word[length:]
        return found


class Letters(nn.Module):
    """text -> the number of every letter, in the order in which they first come, and -1 if they give the text again."""

    def __init__(self, settings: Mapping[str, Any], recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe

    def forward(self, text: str) -> Tensor:
        numbers: dict[str, int] = {}
        found = [numbers.setdefault(letter, len(numbers)) for letter in text]
        return torch.tensor([*found, -2 if self.recipe.decoded == "another text" else -1])
