"""Byte-pair encoding, and numbers of letters."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.kit.canonical.tokens import Letters, Tokenizer, learned
from scratch_transformer.kit.kind import Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.recipe import Recipe

TEXT = "the theory of the other three: then there is another. low lower lowest, new newer newest, wider widest " * 2
OF_BYTES = ((b"\xc3", b"\xa9"), (b"f", b"\xc3\xa9"))
"""Merges of one letter, and of that with the one before it, which are of one word."""
END = "<|endoftext|>"
SPECIAL = (END, f"{END}{END}")


def probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    words = Probe(
        "words", {"text": "there is the lowest theory: another newer other, low  and wide thenewest\n"}, shows="words"
    )
    others = Probe("bytes", {"text": "the naïve café – 日本 🙂"}, shows="letters of several bytes")
    if not settings["special_tokens"]:
        return words, others
    special = f"the new{END}low there{END}{END}other"
    return words, others, Probe("special tokens", {"text": special}, shows="special tokens")


def builtin(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    """tokenizers' byte-level BPE with the same merges; where that is not installed, the reference."""
    try:
        from tokenizers import AddedToken, decoders, models, pre_tokenizers
        from tokenizers import Tokenizer as Theirs
    except ImportError:
        return Tokenizer(settings, recipe)(**inputs)
    letters = _letters()

    def word(token: bytes) -> str:
        return "".join(letters[b] for b in token)

    vocab = {word(bytes([b])): b for b in range(256)} | {
        word(a + b): 256 + i for i, (a, b) in enumerate(settings["merges"])
    }
    merges = [(word(a), word(b)) for a, b in settings["merges"]]
    theirs = Theirs(models.BPE(vocab, merges))
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=settings["splits"])
    theirs.decoder = decoders.ByteLevel()
    theirs.add_special_tokens([AddedToken(token) for token in settings["special_tokens"]])
    ids = theirs.encode(inputs["text"]).ids
    return torch.tensor([*ids, -1 if theirs.decode(ids, skip_special_tokens=False) == inputs["text"] else -2])


def _letters() -> dict[int, str]:
    """GPT-2's letter for every byte: itself where it can be printed, else one after those."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


TOKENIZER = Kind(
    name="Tokenizer",
    what="Cuts a text into pieces that are in its vocabulary, and numbers them.",
    synonyms=("tokenizer", "bpetokenizer", "bpe", "bytepairencoding", "mytokenizer", "bytepairtokenizer", "bpeencoder"),
    source="Sennrich et al. 2016, algorithm 1; Radford et al. 2019, section 2.2",
    inputs=("text",),
    defaults={"merges": (*learned(TEXT, 40), (b"e", b" "), *OF_BYTES), "special_tokens": SPECIAL, "splits": True},
    build=lambda settings, recipe: Tokenizer(settings, recipe),
    probes=probes,
    mistakes=("W1", "W2", "W3", "W4", "W5"),
    oracle=builtin,
    builtin="tokenizers' byte-level BPE",
)


LETTERS = "the lowest theory is of the newest"
MARKS = "wide, wider: is it the newest!\nthe lower  one - or 'other'?"
CORPUS = f"{TEXT}{MARKS}"
"""With all letters of both."""


def probes_of_letters(settings: Settings, seed: int) -> tuple[Probe, ...]:
    letters, marks = (
        Probe("letters", {"text": LETTERS}, shows="letters"),
        Probe("marks", {"text": MARKS}, shows="marks"),
    )
    return (letters, marks) if settings["corpus"] else (letters,)


LETTER_TOKENIZER = Kind(
    name="LetterTokenizer",
    what="Gives every letter of a text a number of its own.",
    synonyms=("numbersofletters",),
    source="Karpathy 2015, The Unreasonable Effectiveness of Recurrent Neural Networks",
    inputs=("text",),
    defaults={"corpus": CORPUS},
    build=lambda settings, recipe: Letters(settings, recipe),
    probes=probes_of_letters,
    mistakes=("W4:",),
)
