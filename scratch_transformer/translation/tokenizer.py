"""Text to ids and back: words, characters, or pieces of words learned by byte-pair encoding.

All three keep every character of a sentence, so `decode(encode(text))` is `text`, with its spaces made single and its
letters composed (NFC), as long as its tokens are in the vocabulary.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scratch_transformer.translation.errors import InputError

if TYPE_CHECKING:
    import tokenizers

SPECIAL = ("<pad>", "<unk>", "<bos>", "<eos>")
"""Padding, an unknown token, the beginning and the end: the ids 0, 1, 2 and 3."""


class Tokenizer:
    """A vocabulary. `encode` adds no special token: a source is `encode(text) + [eos_id]`, a target starts with bos_id.

    Source: Sennrich et al. 2016 (BPE), as in Vaswani et al. 2017, section 5.1.
    """

    pad_id, unk_id, bos_id, eos_id = range(4)

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self.library = library
        library.encode_special_tokens = True  # a text that says <eos> doesn't end there
        self.vocab_size: int = library.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens (but unk_id, for what the vocabulary lacks)."""
        ids: list[int] = self.library.encode(normalized(text), add_special_tokens=False).ids
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of every text, on all cores."""
        encodings = self.library.encode_batch_fast([normalized(t) for t in texts], add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, which end before the first eos_id; padding and bos_id are left out, unk_id is "<unk>"."""
        pieces = []
        for i in ids:
            if i == self.eos_id:
                break
            if i not in (self.pad_id, self.bos_id):
                pieces.append(self._piece(i))
        text: str = self.library.decoder.decode(pieces) if pieces else ""
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
        """Read what `save` wrote.

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
        if [library.id_to_token(i) for i in range(len(SPECIAL))] != list(SPECIAL):
            raise InputError(
                f"{path}: is no tokenizer of this program: expected {' '.join(SPECIAL)} as the first tokens"
            )
        return cls(library)

    def _piece(self, i: int) -> str:
        piece: str | None = self.library.id_to_token(int(i))
        if piece is None:
            raise ValueError(f"id {int(i)} is not in the vocabulary: expected 0 to {self.vocab_size - 1}")
        return piece


def normalized(text: str) -> str:
    """Composed letters and single spaces: one way to write a text."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def train(kind: str, vocab_size: int, texts: Iterable[str]) -> Tokenizer:
    """Learn a vocabulary of at most `vocab_size` tokens, the special ones included.

    kind: "word", "char" or "bpe", pieces of words; punctuation stands apart. The most frequent tokens are kept.
    """
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

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
    return Tokenizer(library)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
