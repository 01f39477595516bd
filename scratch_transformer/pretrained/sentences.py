"""Sentences to embeddings, embeddings to similarities."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from scratch_transformer.pretrained.files import Pretrained, load
from scratch_transformer.pretrained.sentence_encoder import unit_length

if TYPE_CHECKING:
    from tokenizers import Encoding

# Shapes: N sentences in all, B in a batch, T tokens, E hidden_size.


class TruncationWarning(UserWarning):
    """A sentence was longer than the model reads, and its end was left out."""


def embed(sentences: Iterable[str], model: Pretrained | None = None, batch_size: int = 32) -> Tensor:
    """The embeddings (N, E) of N sentences, each of length 1, on the encoder's device.

    model: from `load`, which is called when it is absent. batch_size: how many sentences run together, padded to the
    longest of them; it changes nothing beyond rounding. A sentence with more tokens than the model reads is cut, with
    a `TruncationWarning` that says so.

    Raises:
        TypeError: `sentences` is one string, or holds something other than strings.
        ValueError: `batch_size` is not positive.
        ModuleNotFoundError, FileNotFoundError: see `load`.
    """
    texts = _checked(sentences)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    model = model or load()
    weight = model.encoder.norm.weight  # where the encoder is, and in which type
    embeddings = [weight.new_empty(0, len(weight))]
    with torch.no_grad():
        for start in range(0, len(texts), batch_size):
            encodings = model.tokenizer.encode_batch(texts[start : start + batch_size])
            _report_truncation(encodings, start)
            ids = torch.tensor([encoding.ids for encoding in encodings])  # (B, T)
            valid = torch.tensor([encoding.attention_mask for encoding in encodings]).bool()  # (B, T)
            embeddings.append(model.encoder(ids.to(weight.device), valid.to(weight.device)))
    return torch.cat(embeddings)


def cosine(a: Tensor, b: Tensor | None = None) -> Tensor:
    """The cosine of the angle between every row of `a` and every row of `b` (of `a` itself when absent).

        cos(aᵢ, bⱼ) = aᵢ · bⱼ / (‖aᵢ‖ ‖bⱼ‖)

    a: (N, E). b: (M, E). The result: (N, M). A zero vector has similarity 0 with everything.

    Raises:
        ValueError: `a` or `b` is not a matrix, or their widths differ.
    """
    b = a if b is None else b
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"a and b must be (N, E) and (M, E), got {tuple(a.shape)} and {tuple(b.shape)}")
    return unit_length(a) @ unit_length(b).T


def _checked(sentences: Iterable[str]) -> list[str]:
    """A list of the sentences; a bare string would be taken for its letters."""
    texts = [sentences] if isinstance(sentences, str) else list(sentences)
    if isinstance(sentences, str) or not all(isinstance(text, str) for text in texts):
        kinds = "one string" if isinstance(sentences, str) else sorted({type(text).__name__ for text in texts})
        raise TypeError(f"sentences must be a list of strings, got {kinds}")
    return texts


def _report_truncation(encodings: Sequence[Encoding], first: int) -> None:
    """Warns of every sentence of the batch, numbered from `first`, that the tokenizer has cut."""
    for number, encoding in enumerate(encodings, start=first + 1):
        if encoding.overflowing:
            rest = sum(part.special_tokens_mask.count(0) for part in encoding.overflowing)
            read = encoding.special_tokens_mask.count(0)
            warnings.warn(
                f"sentence {number} has {read + rest} tokens; the model reads the first {read}",
                TruncationWarning,
                stacklevel=3,
            )
