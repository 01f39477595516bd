"""A tokenizer that decoding functions are given: a word is the digit of its id, a text is such digits."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.judge.frames import is_taken_out_of_now

FIRST = ("sos", "bos", "start", "begin", "init", "cls", "<s>", "go")
LAST = ("eos", "eot", "end", "stop", "sep", "</s>")
A_WORD, AN_ID, A_MAP = (
    r"(word|token|tok|string|str|character|char|ch|sym|symbol|letter)s?",
    r"(index|ind|idx|ix|id)s?",
    r"(map|dict)",
)
TO_WORDS = re.compile(
    r"itos|^i(nde)?x(2|to)|^id(s)?_?(2|to)|ind_?to|(2|to)_?(word|token|str|char)|decode|lookup_tokens"
    rf"|^{AN_ID}_?{A_WORD}_?{A_MAP}"
)
TO_IDS = re.compile(r"stoi|encode|tokenize|(2|to)_?(id|i$|idx|index)|lookup_indices|numericali[sz]e")
TABLE = re.compile(
    r"stoi|^(word|token|tok|w|str|s|char|c|sym|symbol|letter)s?_?(2|to)_?(id|i$|idx|ix|ind)|word_?index"
    rf"|^{A_WORD}_?{AN_ID}_?{A_MAP}"
)
"""Of ids, by words."""
SIZES = re.compile(r"(vocab|vocabulary|piece)_?size|^(n|num)_?(vocab|words|tokens)$|^vocab_?len|^(size|length)$")
"""Attributes that are its size; get_vocab_size and get_piece_size are methods."""
KNOWS = re.compile(
    rf"itos|{TO_WORDS.pattern}|{TO_IDS.pattern}|{TABLE.pattern}|{SIZES.pattern}|pad|unk|(b|e)os|cls|sep|^[<\[]\w+[>\]]$"
)
"""What a vocabulary is asked for: also any word of its own, as <NULL>."""
COMPARED = re.compile(r"""[=!]=\s*[\w.]+(?:\[|\.\w+\()\s*(['"])(.+?)\1\s*[\])]""")
"""next_word == vocab["."]."""


class Encoded(dict[str, Any]):
    """What a tokenizer makes of a text: `.ids`, `.input_ids`, ["input_ids"], or the list of its ids itself."""

    def __init__(self, ids: list[int], as_tensor: bool) -> None:
        rows: Any = torch.tensor([ids]) if as_tensor else ids
        ones: Any = torch.ones_like(rows) if as_tensor else [1] * len(ids)
        super().__init__(input_ids=rows, attention_mask=ones)
        self.ids, self.input_ids, self.attention_mask = ids, rows, ones

    def to(self, *args: Any, **options: Any) -> Encoded:
        """On the device where it is."""
        return self


class Ids(list[int]):
    """The ids of a text, as a list that has them as `.ids` too."""

    @property
    def ids(self) -> list[int]:
        return list(self)


class Alone(Ids):
    """The id of one word, wherever it is among those that a tokenizer puts around it: encode("[BOS]")[1]."""

    def __getitem__(self, place: Any) -> Any:
        return self if isinstance(place, slice) else super().__getitem__(0)

    @property
    def ids(self) -> Alone:
        return self


class Tokenizer:
    """Any usual way to ask for ids and words: token_to_id("[SOS]"), vocab["<eos>"], encode(text), decode(ids)."""

    def __init__(self, bos: int, eos: int, size: int = 64, last: Container[str] = ()) -> None:
        """last: words of a vocabulary's own that a text ends with, as `last_words` finds them."""
        self.bos, self.eos, self.size, self.last = bos, eos, size, last

    def token_to_id(self, token: Any, *others: Any) -> Any:
        """Of the first or the last token, or of a digit; 0 for others. A list's, one by one."""
        if isinstance(token, (list, tuple)):
            return [self.token_to_id(one) for one in token]
        if isinstance(token, (int, Tensor)):
            return int(token)  # a text of which every letter is an id already
        word = str(token).lower()
        if word.isdigit():
            return int(word)
        if token in self.last or any(part in word for part in LAST):
            return self.eos
        return self.bos if any(part in word for part in FIRST) else 0

    def __call__(self, text: Any, *others: Any, **options: Any) -> Any:
        if options or is_text(text):
            return Encoded(ids_of(text), bool(options.get("return_tensors")))
        return self.token_to_id(text, *others)

    __getitem__ = convert_tokens_to_ids = get = token_to_id

    def encode(self, text: Any, *others: Any, **options: Any) -> Any:
        """The ids of a text; of anything else what a vocabulary has for it."""
        if not is_text(text):
            found = self.token_to_id(text)
            if isinstance(found, int) and is_taken_out_of_now("encode"):
                return Alone([found])
            return Number(found) if isinstance(found, int) else found
        return torch.tensor([ids_of(text)]) if options.get("return_tensors") else Ids(ids_of(text))

    def decode(self, ids: Any, *others: Any, **options: Any) -> str:
        """The text of ids, the special ones included."""
        return " ".join(str(int(one)) for one in _flat(ids))

    def get_vocab_size(self) -> int:
        """How many tokens there are."""
        return self.size

    def __len__(self) -> int:
        return self.size

    def __contains__(self, token: Any) -> bool:
        return True

    def keys(self) -> list[str]:
        """All words."""
        return [str(number) for number in range(self.size)]

    def items(self) -> list[tuple[str, int]]:
        """All words with their ids."""
        return [(str(number), number) for number in range(self.size)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        word = name.lower()
        if SIZES.search(word):
            return self.get_vocab_size if word.startswith("get") else Number(self.size)
        if TO_WORDS.search(word):
            return Words(self.size)
        if TABLE.search(word):
            return self
        if TO_IDS.search(word):
            return self.encode
        known = any(part in word for part in (*FIRST, *LAST, "pad", "unk"))
        return Number(self.token_to_id(name)) if known else self


class Number(int):
    """A size or an id that some vocabularies have as an attribute, and others give when asked: sp.pad_id()."""

    def __call__(self) -> int:
        return int(self)

    def __contains__(self, one: object) -> bool:
        return one == int(self)  # of most, the ids of a text are a list, of whatever text


class Words:
    """The table of words: one for an id, several for a list of ids."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __call__(self, ids: Any, *others: Any, **options: Any) -> Any:
        single = isinstance(ids, int) or (isinstance(ids, Tensor) and ids.dim() == 0)
        return str(int(ids)) if single else [str(int(one)) for one in _flat(ids)]

    __getitem__ = get = __call__


def _flat(ids: Any) -> Iterator[Any]:
    if isinstance(ids, (list, tuple)):
        for one in ids:
            yield from _flat(one)
    else:
        yield from ids.flatten() if isinstance(ids, Tensor) else [ids]


def is_text(text: Any) -> bool:
    """Whether it is a text of digits."""
    return isinstance(text, str) and bool(text.strip()) and not text.replace(" ", "").strip("0123456789")


def ids_of(text: Any) -> list[int]:
    """The ids that the digits of a text are, in order; of a list, those of all its texts."""
    return [int(one) for one in re.findall(r"\d", text if isinstance(text, str) else " ".join(map(str, text)))]


def last_words(text: str) -> frozenset[str]:
    """The words of a vocabulary that code compares ids with: it ends where such a word comes."""
    words = {found[2] for found in COMPARED.finditer(text)}
    return frozenset(w for w in words if not any(part in w.lower() for part in (*FIRST, "pad", "unk", "mask")))


def is_tokenizer(name: str) -> bool:
    """Whether a parameter of this name takes a tokenizer or a vocabulary: of its ids alone, too, word2id."""
    word = name.lower()
    is_said = word == "tok" or "tokenizer" in word or "tokeniser" in word
    return is_said or word.endswith(("vocab", "vocabulary", "_lang", "_field")) or bool(TABLE.search(word))


def is_table_of_words(name: str) -> bool:
    """Whether a parameter of this name takes the words, by their ids: id2word, itos."""
    return "decode" not in name.lower() and TO_WORDS.search(name.lower()) is not None
