"""Prompts in, tokens out: the likeliest next token or a drawn one, again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.generation import sampling
from scratch_transformer.generation.decoders import Cached, Decoder, WholeTexts
from scratch_transformer.generation.modes import evaluating
from scratch_transformer.generation.newest import Newest
from scratch_transformer.language_model import LanguageModel


def generate(
    model: LanguageModel, prompts: Sequence[Sequence[int]] | Tensor, max_new_tokens: int, **options: Any
) -> list[list[int]]:
    """The tokens that follow each prompt, up to and with the first of `stop` that comes, at most max_new_tokens.

    prompts: ids of any lengths, at least one in each; a text does not depend on those beside it. The options, and the
    errors, are those of `stream`.
    """
    found: list[list[int]] = [[] for _ in prompts]
    for tokens in stream(model, prompts, max_new_tokens, **options):
        for text, token in zip(found, tokens, strict=True):
            if token is not None:
                text.append(token)
    return found


def stream(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]] | Tensor,
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    stop: Collection[int] = (),
    generator: torch.Generator | None = None,
    cache: bool = True,
) -> Iterator[list[int | None]]:
    """One step after the other: the next token of each text, None where it has ended.

    Until the iterator is done, or closed, the model is in evaluation mode.

    Args:
        prompts, max_new_tokens: as in `generate`.
        temperature: 0: the likeliest token. Else tokens are drawn: below 1 safer, above 1 bolder.
        top_k, top_p, min_p: of what: `sampling.truncated`.
        repetition_penalty: of what the prompt or the text has already: `sampling.penalized`.
        stop: ids that end a text.
        generator: of the CPU, torch's default one unless given: the same seed draws the same.
        cache: keep keys and values; False: the same from the whole texts at every step, slowly.

    Raises:
        ValueError: a prompt is empty, prompt and new tokens are more than the model's max_length, an option leaves
            nothing to draw from, or the model computes no finite numbers.
        IndexError: an id of a prompt is not below vocab_size.
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"stream: temperature must be a finite number, 0 (the likeliest) or more, is {temperature}")
    sampling.check(temperature or 1.0, top_k, top_p, min_p, repetition_penalty)
    ids, mask = _padded(prompts, next(model.parameters()).device)
    _check_length(model, ids.shape[1], max_new_tokens)
    capacity = max(1, ids.shape[1] + max_new_tokens)
    choice = _Choice(temperature, (top_k, top_p, min_p), repetition_penalty, generator)
    decoder = _decoder(model) if cache else WholeTexts
    return _steps(model, ids, mask, decoder, capacity, max_new_tokens, choice, frozenset(stop))


def _steps(
    model: LanguageModel, ids: Tensor, mask: Tensor, decoder: Callable[..., Decoder], capacity: int, count: int,
    choice: _Choice, stop: frozenset[int],
) -> Iterator[list[int | None]]:  # fmt: skip
    """`stream`, with everything checked."""
    rows = list(range(len(ids)))  # the text that each row of the decoder belongs to
    ended = [False] * len(rows)
    with evaluating(model):
        state: Decoder = decoder(model, mask, capacity)
        choice.begin(ids, mask, model.config.vocab_size)
        for _ in range(count if rows else 0):
            with torch.inference_mode():  # not while the caller has the tokens
                newest = choice.next(state.step(ids), rows)
                tokens: list[int | None] = [None] * len(ended)
                for row, token in zip(rows, newest.tolist(), strict=True):
                    tokens[row] = None if ended[row] else token
                    ended[row] = ended[row] or token in stop
                going = [r for r, row in enumerate(rows) if not ended[row]]
                ids = newest.unsqueeze(1)
                if going and 2 * len(going) <= len(rows):  # ended texts cost time, and so does leaving them out
                    kept = torch.tensor(going, device=ids.device)
                    state.keep(kept)
                    choice.keep(kept)
                    ids, rows = ids[kept], [rows[r] for r in going]
            yield tokens
            if not going:
                return


def _decoder(model: LanguageModel) -> Callable[..., Decoder]:
    return Newest if Newest.is_suitable(model) else Cached


class _Choice:
    """The next token of each row, from its logits; `seen` are the tokens that a penalty is for, (R, V)."""

    def __init__(
        self, temperature: float, truncation: tuple[int | None, float | None, float | None], penalty: float,
        generator: torch.Generator | None,
    ) -> None:  # fmt: skip
        self.temperature, self.truncation, self.penalty = temperature, truncation, penalty
        self.generator = generator
        self.seen: Tensor | None = None

    def begin(self, ids: Tensor, mask: Tensor, vocab_size: int) -> None:
        self.count = len(ids)
        if self.penalty != 1:
            seen = torch.zeros(len(ids), vocab_size, dtype=torch.long, device=ids.device)
            self.seen = seen.scatter_add_(1, ids, mask.long()) > 0

    def next(self, logits: Tensor, rows: list[int]) -> Tensor:
        if not math.isfinite(logits.sum()) and not logits.isfinite().all():
            raise ValueError("generate: the model computes no finite numbers: its weights are of no use")
        if self.seen is not None:
            logits = sampling.penalized(logits, self.seen, self.penalty)
        if self.temperature == 0:
            newest = logits.argmax(-1)
        else:
            # for all texts: what is drawn for one must not depend on which others have ended
            uniform = torch.rand(self.count, generator=self.generator)[rows].to(logits)
            newest = sampling.draw(*sampling.truncated(logits, self.temperature, *self.truncation), uniform)
        if self.seen is not None:
            self.seen.scatter_(1, newest.unsqueeze(1), True)
        return newest

    def keep(self, rows: Tensor) -> None:
        self.seen = None if self.seen is None else self.seen[rows]


def _padded(prompts: Sequence[Sequence[int]] | Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Prompts as ids (B, L), 0 on the left of the shorter ones, and the mask of what is none of these zeros."""
    lengths = [len(prompt) for prompt in prompts]
    if not all(lengths):
        raise ValueError(f"generate: prompt {lengths.index(0)} is empty; expected at least one token in each")
    longest = max(lengths, default=0)
    ids = torch.zeros(len(lengths), longest, dtype=torch.long)
    for row, prompt in zip(ids, prompts, strict=True):
        row[longest - len(prompt) :] = torch.as_tensor(prompt)
    mask = torch.arange(longest) >= longest - torch.tensor(lengths, dtype=torch.long).unsqueeze(1)
    return ids.to(device), mask.to(device)


def _check_length(model: LanguageModel, prompt: int, new: int) -> None:
    if new < 0 or prompt + new > model.config.max_length:
        raise ValueError(
            f"generate: a prompt of {prompt} tokens and max_new_tokens={new} need positions from 0 to "
            f"max_length={model.config.max_length} of the model"
        )
