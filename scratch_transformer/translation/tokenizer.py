"""Text to ids and back: words, characters, or pieces of words learned by byte-pair encoding; or a ready vocabulary.

The learned ones keep every character of a sentence, so `decode(encode(text))` is `text`, with its spaces made single
and its letters composed (NFC), as long as its tokens are in the vocabulary; with the 256 bytes as tokens, they are.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scratch_transformer.translation.errors import InputError

if TYPE_CHECKING:
    import tokenizers

SPECIAL = ("<pad>", "<unk>", "<bos>", "<eos>")
"""Padding, an unknown token, the beginning and the end: the ids 0, 1, 2 and 3."""
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The tokens of bytes, as the library writes them."""


class Tokenizer:
    """A vocabulary. `encode` adds no special token: a source is `encode(text) + [eos_id]`, a target starts with bos_id.

    One that others made has other special tokens, if any: its tokens come after the four of this program, and `shift`
    is 4.

    Source: Sennrich et al. 2016 (BPE), as in Vaswani et al. 2017, section 5.1.
    """

    pad_id, unk_id, bos_id, eos_id = range(4)

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self.library = library
        library.encode_special_tokens = True  # a text that says <eos> doesn't end there
        library.no_truncation()
        library.no_padding()
        is_ours = [library.id_to_token(i) for i in range(len(SPECIAL))] == list(SPECIAL)
        self.shift = 0 if is_ours else len(SPECIAL)
        self.vocab_size: int = library.get_vocab_size(with_added_tokens=True) + self.shift
        unknown = None if is_ours else json.loads(library.to_str())["model"].get("unk_token")
        self._unknown = None if unknown is None else library.token_to_id(unknown)
        self.dtype: type[np.integer[Any]] = np.uint16 if self.vocab_size <= 1 << 16 else np.int32  # that ids fit into

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens (but unk_id, for what the vocabulary lacks)."""
        return self._ours(self.library.encode(normalized(text), add_special_tokens=False).ids)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of every text, on all cores."""
        encodings = self.library.encode_batch_fast([normalized(t) for t in texts], add_special_tokens=False)
        return [self._ours(encoding.ids) for encoding in encodings]

    def _ours(self, ids: list[int]) -> list[int]:
        if not self.shift:
            return ids
        return [self.unk_id if i == self._unknown else i + self.shift for i in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, which end before the first eos_id; padding and bos_id are left out, unk_id is "<unk>"."""
        pieces = []
        for i in ids:
            if i == self.eos_id:
                break
            if i not in (self.pad_id, self.bos_id):
                pieces.append(self._piece(i))
        decoder = self.library.decoder
        text: str = " ".join(pieces) if decoder is None or not pieces else decoder.decode(pieces)
        return text.strip()

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The piece of text that every id stands for; "▁" is a space."""
        return [self._piece(i) for i in ids]

    def save(self, path: Path) -> None:
        """Write the vocabulary in the format of the library."""
        from scratch_transformer.translation.files import write_bytes

        write_bytes(path, self.library.to_str(pretty=True).encode())

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read what `save` wrote, or what others made in the library's format.

        Raises:
            InputError: there is no such file, or it holds something else.
        """
        import tokenizers

        from scratch_transformer.translation.files import read_bytes

        try:
            library = tokenizers.Tokenizer.from_str(read_bytes(path).decode())
        except InputError:
            raise
        except Exception as error:  # the library raises Exception itself
            raise InputError(f"{path}: expected a tokenizer, got {_first_line(error)}") from None
        if not library.get_vocab_size():
            raise InputError(f"{path}: has no token: expected a tokenizer that was trained")
        return cls(library)

    def _piece(self, i: int) -> str:
        i = int(i)
        piece: str | None = SPECIAL[i] if 0 <= i < len(SPECIAL) else None
        if i >= len(SPECIAL):
            piece = self.library.id_to_token(i - self.shift)
        if piece is None:
            raise ValueError(f"id {i} is not in the vocabulary: expected 0 to {self.vocab_size - 1}")
        return piece


def normalized(text: str) -> str:
    """Composed letters and single spaces: one way to write a text."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def train(kind: str, vocab_size: int, texts: Iterable[str], byte_fallback: bool = False) -> Tokenizer:
    """Learn a vocabulary of at most `vocab_size` tokens, the special ones included.

    kind: "word", "char" or "bpe", pieces of words; punctuation stands apart. The most frequent tokens are kept.
    byte_fallback: of "bpe". 256 of the tokens are the bytes, which a character is made of that has no token.
    """
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    vocab_size -= len(BYTES) if byte_fallback else 0
    options: dict[str, Any] = {"vocab_size": vocab_size, "special_tokens": list(SPECIAL), "show_progress": False}
    words = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    if kind == "bpe":
        library = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
        trainer: Any = trainers.BpeTrainer(limit_alphabet=max(1, vocab_size - len(SPECIAL)), **options)
        library.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.Punctuation("isolated")])
    else:
        library = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
        trainer = trainers.WordLevelTrainer(**options)
        characters = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
        parts = {"word": pre_tokenizers.Punctuation("isolated"), "char": characters}[kind]
        library.pre_tokenizer = pre_tokenizers.Sequence([words, parts])
    library.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    library.train_from_iterator(map(normalized, texts), trainer)
    return Tokenizer(_with_bytes(library) if byte_fallback else library)


def _with_bytes(library: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The same with the bytes as its last tokens: they are never learned, for they are in no text."""
    import tokenizers

    document = json.loads(library.to_str())
    vocabulary, decoder = document["model"]["vocab"], document["decoder"]
    vocabulary |= {byte: len(vocabulary) + i for i, byte in enumerate(BYTES)}
    document["model"]["byte_fallback"] = True
    document["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, decoder]}
    return tokenizers.Tokenizer.from_str(json.dumps(document))


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
