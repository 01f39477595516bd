"""Prompts in, tokens out: the likeliest next token or a drawn one, again and again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.generation import sampling
from scratch_transformer.generation.decoders import Cached, Decoder, WholeTexts
from scratch_transformer.generation.modes import evaluating
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
    sampling.check(temperature or 1.0, top_k, top_p, min_p, repetition_penalty)
    ids, mask = _padded(prompts, next(model.parameters()).device)
    longest, room = ids.shape[1] + max_new_tokens, model.config.max_length
    if max_new_tokens < 0 or longest > room:
        raise ValueError(
            f"generate: {ids.shape[1]} tokens of a prompt and max_new_tokens={max_new_tokens} are more than the "
            f"model's max_length={room}"
        )
    return iter(())
