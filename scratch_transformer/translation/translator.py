"""Sentences in, translations out: what `scratch-transformer translate` and `evaluate` do with a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.translation.checkpoint import Run
from scratch_transformer.translation.decoding import Hypothesis, beam_search, cached, greedy_search, sample
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.tokenizer import SPECIAL, Tokenizer

TOKENS_PER_BATCH = 4096
"""Source tokens, padding included, that are translated together."""
NOTHING_KNOWN = {SPECIAL[Tokenizer.unk_id], "▁"}
"""The tokens of a sentence of which the vocabulary has no more than the spaces."""


@dataclass(frozen=True)
class Search:
    """How to look for translations.

    beam: prefixes kept; 1 is greedy. alpha: of the length penalty. n_best: translations of each sentence.
    sampling: None, or temperature, top_k and top_p of `decoding.sample`. seed: of the sampling.
    max_length: tokens at which a translation is cut; None: what the model has positions for. eight_bits: of the
    decoder's weights (`decoding.MergedDecoder`), on a CPU.
    """

    beam: int = 1
    alpha: float = 0.6
    n_best: int = 1
    sampling: dict[str, Any] | None = None
    seed: int = 0
    max_length: int | None = None
    eight_bits: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 100:
            raise InputError(f"the length penalty is {self.alpha}: expected a number from 0 to 100")


def encode(run: Run, text: str, name: str) -> list[int]:
    """The source ids of a sentence, ended by eos. `name` says in errors which sentence it is.

    Raises:
        InputError: the sentence is empty, longer than the model can read, of unknown tokens alone, or no text.
    """
    if any("\ud800" <= character <= "\udfff" for character in text):  # so Python shows bytes that are not UTF-8
        raise InputError(f"{name} is not text in UTF-8: {text!r}")
    tokenizer, longest = run.source_tokenizer, run.model.src_pos.seq_len
    ids = tokenizer.encode(text)
    if not ids:
        raise InputError(f"{name} is empty: expected a sentence")
    if len(ids) >= longest:
        raise InputError(f"{name} has {len(ids) + 1} tokens with its end, but the model reads at most {longest}")
    if set(tokenizer.tokens(ids)) <= NOTHING_KNOWN:
        raise InputError(f"{name}: the model knows nothing of {text!r}")
    return [*ids, tokenizer.eos_id]


def unknown_words(run: Run, text: str) -> list[str]:
    """The words of a sentence with parts that the model does not know."""
    tokenizer = run.source_tokenizer
    return [word for word in text.split() if tokenizer.unk_id in tokenizer.encode(word)]


def translate(
    run: Run, sources: Sequence[Sequence[int]], search: Search, progress: Callable[[int], None] = lambda done: None,
    generator: torch.Generator | None = None,
) -> list[list[Hypothesis]]:  # fmt: skip
    """The best `search.n_best` translations of each source (ids, ended by eos); progress: told of each batch's size.

    They differ as texts: other tokens for the same text are no other translation. generator: of the sampling, where it
    goes on from one call to the next; None: a new one, of `search.seed`.
    """
    found: list[list[Hypothesis]] = [[] for _ in sources]
    decode = _decoder(run, search, generator or torch.Generator().manual_seed(search.seed))
    for indices, ids in batches(sources, run.source_tokenizer.pad_id, next(run.model.parameters()).device):
        for i, hypotheses in zip(indices, decode(ids), strict=True):
            best: dict[str, Hypothesis] = {}
            for hypothesis in hypotheses:
                best.setdefault(run.target_tokenizer.decode(hypothesis.ids), hypothesis)
            found[i] = list(best.values())[: search.n_best]
        progress(len(indices))
    return found


def _decoder(run: Run, search: Search, generator: torch.Generator) -> Callable[[Tensor], list[list[Hypothesis]]]:
    target, max_length = run.target_tokenizer, search.max_length or run.model.tgt_pos.seq_len
    ends = (run.source_tokenizer.pad_id, target.bos_id, target.eos_id, max_length)
    decoder = partial(cached, merged=run.merged(search.eight_bits))

    def decode(ids: Tensor) -> list[list[Hypothesis]]:
        if search.sampling is not None:
            draws = {**search.sampling, "count": search.n_best, "alpha": search.alpha}
            return sample(run.model, ids, *ends, **draws, generator=generator, decoder=decoder)
        if search.beam > 1:
            return beam_search(run.model, ids, *ends, beam=search.beam, alpha=search.alpha, decoder=decoder)
        return greedy_search(run.model, ids, *ends, alpha=search.alpha, decoder=decoder)

    return decode


def batches(sources: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Iterator[tuple[list[int], Tensor]]:
    """Sources of similar length together, padded: the indices and the ids (B, S) of each batch, the longest first."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]), reverse=True)
    while order:
        width = len(sources[order[0]])
        size = max(1, TOKENS_PER_BATCH // width)
        indices, order = order[:size], order[size:]
        rows = [[*sources[i], *[pad_id] * (width - len(sources[i]))] for i in indices]
        yield indices, torch.tensor(rows, device=device)
