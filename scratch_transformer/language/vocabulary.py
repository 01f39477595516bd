"""Text to ids and back: pieces of words over bytes, so that every text comes back as it was and nothing is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import read_bytes, write_bytes

if TYPE_CHECKING:
    import tokenizers

END = "<|endoftext|>"
"""GPT-2's name of the token that stands between two documents, before the first and behind the last."""
ENDS = (END, "<|end_of_text|>", "</s>", "<eos>")
"""Names of such a token in vocabularies that others made."""


class Vocabulary:
    """Byte-pair encoding over bytes. Source: Sennrich et al. 2016; over bytes: Radford et al. 2019, section 2.2."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self.library = library
        library.encode_special_tokens = True  # a text that says <|endoftext|> doesn't end there
        library.no_truncation()
        library.no_padding()
        self.vocab_size: int = library.get_vocab_size(with_added_tokens=True)
        ids = (library.token_to_id(name) for name in ENDS)
        found = next((i for i in ids if i is not None), None)
        if found is None:
            raise InputError(f"the vocabulary has no token for the end of a text: expected one of {', '.join(ENDS)}")
        self.eos_id: int = found
        self.bos_id = self.eos_id

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens."""
        ids: list[int] = self.library.encode(text, add_special_tokens=False).ids
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of every text, on all cores."""
        return [encoding.ids for encoding in self.library.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, up to the first eos_id."""
        kept = []
        for i in ids:
            if int(i) == self.eos_id:
                break
            kept.append(int(i))
        text: str = self.library.decode(kept, skip_special_tokens=False)
        return text

    def save(self, path: Path) -> None:
        """Write the vocabulary in the format of the library."""
        write_bytes(path, self.library.to_str(pretty=True).encode())

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what `save` wrote, or what others made in the library's format.

        Raises:
            InputError: there is no such file, it holds something else, or no token for the end of a text.
        """
        import tokenizers

        try:
            library = tokenizers.Tokenizer.from_str(read_bytes(path).decode())
        except InputError:
            raise
        except Exception as error:  # the library raises Exception itself
            reason = next(iter(str(error).splitlines()), "nothing")
            raise InputError(f"{path}: expected a tokenizer, got {reason}") from None
        try:
            return cls(library)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def train(vocab_size: int, texts: Iterable[str]) -> Vocabulary:
    """Learn at most `vocab_size` tokens: END, the 256 bytes, and the most frequent pairs of what there is already."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[END], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    library.train_from_iterator(texts, trainer)
    return Vocabulary(library)
