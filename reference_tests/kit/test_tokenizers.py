"""Byte pairs in the forms that learners keep merges in: pairs of bytes in a row, pairs of ids -> the id of both."""

import pytest

from reference_tests.kit.learners.checked import check_text

IN_ORDER = """
import re

class ByteLevelBPE:
    def __init__(self, merges: list[tuple[bytes, bytes]], special_tokens=()):
        tokens = [bytes([b]) for b in range(256)] + [a + b for a, b in merges]
        self.merges = merges
        self.special = {token: len(tokens) + i for i, token in enumerate(special_tokens)}
        self.id_of = {token: i for i, token in enumerate(tokens)}
        self.token_of = tokens + [token.encode() for token in self.special]
        self.pattern = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\\W\\d_]+| ?\\d+| ?(?:[^\\s\\w]|_)+|\\s+(?!\\S)|\\s+")

    def _word(self, word):
        parts = [bytes([b]) for b in word]
        for a, b in self.merges:
            i = 0
            while i < len(parts) - 1:
                if parts[i] == a and parts[i + 1] == b:
                    parts[i : i + 2] = [a + b]
                i += 1
        return [self.id_of[part] for part in parts]

    def encode(self, text):
        cut = "|".join(re.escape(token) for token in sorted(self.special, key=len, reverse=True))
        ids = []
        for piece in re.split(f"({cut})", text) if cut else [text]:
            if piece in self.special:
                ids.append(self.special[piece])
            else:
                for word in self.pattern.findall(piece):
                    ids += self._word(word.encode())
        return ids

    def decode(self, ids):
        return b"".join(self.token_of[i] for i in ids).decode("utf-8", errors="replace")
"""
WITHOUT_WORDS = """
class Tok:
    def __init__(self, merges):
        self.merges = merges
        self.bytes = {i: bytes([i]) for i in range(256)}
        for (a, b), i in merges.items():
            self.bytes[i] = self.bytes[a] + self.bytes[b]

    def encode(self, text):
        ids = list(text.encode())
        while len(ids) > 1:
            pair = min(set(zip(ids, ids[1:])), key=lambda pair: self.merges.get(pair, math.inf))
            if pair not in self.merges:
                break
            ids = merged(ids, pair, self.merges[pair])
        return ids

    def decode(self, ids):
        return b"".join(self.bytes[i] for i in ids).decode("utf-8", "replace")

def merged(ids, pair, new):
    out, i = [], 0
    while i < len(ids):
        is_pair = tuple(ids[i : i + 2]) == pair
        out.append(new if is_pair else ids[i])
        i += 2 if is_pair else 1
    return out
"""
LEARNING = WITHOUT_WORDS.replace(
    """    def __init__(self, merges):
        self.merges = merges
        self.bytes = {i: bytes([i]) for i in range(256)}
        for (a, b), i in merges.items():
            self.bytes[i] = self.bytes[a] + self.bytes[b]
""",
    """    def __init__(self):
        self.merges, self.vocab = {}, {i: bytes([i]) for i in range(256)}

    def train(self, text, vocab_size):
        raise NotImplementedError
""",
).replace("self.bytes[i] for i", "self.vocab[i] for i")
RULE = IN_ORDER[IN_ORDER.index("        self.pattern") : IN_ORDER.index("\n    def _word")]
START, END = "    def encode(self, text):\n", "    def decode"
ENCODE = IN_ORDER[IN_ORDER.index(START) : IN_ORDER.index(END)]
OUTSIDE = (
    IN_ORDER.replace(RULE, "").replace(
        ENCODE,
        """    def encode(self, text):
        pieces = cut_up(text, self.special)
        return [i for one in pieces for i in ([self.special[one]] if one in self.special else self._word(one.encode()))]

""",
    )
    + f"""
PATTERN = {RULE.partition(" = ")[2]}

def cut_up(text, special):
    cut = "|".join(re.escape(token) for token in sorted(special, key=len, reverse=True))
    pieces = re.split(f"({{cut}})", text) if cut else [text]
    return [word for one in pieces for word in ([one] if one in special else PATTERN.findall(one))]
"""
)
OTHER_TABLES = """
class Tok:
    def __init__(self):
        self.vocab2id, self.id2vocab, self.merge_list, self.merge_ranks = {}, {}, [], {}
        self.merges = []

    def train(self, text, vocab_size):
        raise NotImplementedError

    def encode(self, text):
        parts = [bytes([b]) for b in text.encode()]
        while len(parts) > 1:
            pair = min(zip(parts, parts[1:]), key=lambda pair: self.merge_ranks.get(pair, math.inf))
            if pair not in self.merge_list:
                break
            parts = merged(parts, pair, pair[0] + pair[1])
        return [self.vocab2id[part] for part in parts]

    def decode(self, ids):
        return b"".join(self.id2vocab[i] for i in ids).decode("utf-8", "replace")
""" + WITHOUT_WORDS[WITHOUT_WORDS.index("\ndef merged") :]
HELD = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    vocab: dict[int, bytes]
    merges: dict[tuple[int, int], int]


class Tok:
    def __init__(self, params: Params):
        self.params = params

    def encode(self, text):
        ids = list(text.encode("utf-8"))
        for pair, new in self.params.merges.items():
            ids = merged(ids, pair, new)
        return ids

    def decode(self, ids):
        return b"".join(self.params.vocab[i] for i in ids).decode("utf-8")
""" + WITHOUT_WORDS[WITHOUT_WORDS.index("\ndef merged") :]
HELD_JOINED = 'b"".join(self.params.vocab[i] for i in ids).decode("utf-8")'
BY_RANK = "min(zip(parts, parts[1:]), key=lambda pair: self.merge_ranks.get(pair, math.inf))"
JOINED = 'b"".join(self.vocab[i] for i in ids).decode("utf-8", "replace")'
LETTERS = r"[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+"
LOWEST = "min(set(zip(ids, ids[1:])), key=lambda pair: self.merges.get(pair, math.inf))"


@pytest.mark.parametrize(
    ("text", "name", "old", "new", "ids"),
    [
        (IN_ORDER, "ByteLevelBPE", "", "", []),
        (IN_ORDER, "ByteLevelBPE", "self.pattern.findall(piece)", "[piece]", ["W3"]),
        (IN_ORDER, "ByteLevelBPE", "if cut else [text]", "if False else [text]", ["W2"]),
        (WITHOUT_WORDS, "Tok", "", "", []),
        (WITHOUT_WORDS, "Tok", LOWEST, "next((p for p in zip(ids, ids[1:]) if p in self.merges), None)", ["W1"]),
        (WITHOUT_WORDS, "Tok", LOWEST, "max(zip(ids, ids[1:]), key=lambda p: self.merges.get(p, -1))", ["W1"]),
        (IN_ORDER, "ByteLevelBPE", "sorted(self.special, key=len, reverse=True)", "self.special", ["W2"]),
        (OUTSIDE, "ByteLevelBPE", "", "", []),
        (OTHER_TABLES, "Tok", "", "", []),
        (OTHER_TABLES, "Tok", BY_RANK, BY_RANK.replace("min(", "max(").replace("math.inf", "-1"), ["W1"]),
        (HELD, "Tok", "", "", []),
        (HELD, "Tok", HELD_JOINED, '"".join(self.params.vocab[i].decode("utf-8", "replace") for i in ids)', ["W4"]),
        (LEARNING, "Tok", "", "", []),
        (IN_ORDER, "ByteLevelBPE", LETTERS, "[a-zA-Z]+| ?\\d+| ?[^\\sa-zA-Z0-9]+", ["W5"]),
        (LEARNING, "Tok", JOINED, '"".join(self.vocab[i].decode("utf-8", "replace") for i in ids)', ["W4"]),
    ],
)
def test_merges_in_any_form(text, name, old, new, ids, tmp_path):
    assert old in text
    result = check_text(text.replace(old, new), tmp_path)[name]
    assert (result.kind, result.ids) == ("Tokenizer", ids), result
    assert result.verdict == ("mistake" if ids else "matches the builtin")
