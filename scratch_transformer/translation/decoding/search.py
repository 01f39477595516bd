"""One token after the other: the likeliest, or a drawn one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer.generation import sampling
from scratch_transformer.model import Transformer
from scratch_transformer.translation.decoding.hypothesis import Hypothesis, length_penalty, ranked
from scratch_transformer.translation.decoding.modes import check_finite, check_length, deciding
from scratch_transformer.translation.decoding.prefixes import Decoder
from scratch_transformer.translation.decoding.scoring import token_log_probabilities
from scratch_transformer.translation.decoding.small import cached


def greedy(
    model: Transformer,
    source_ids: Tensor,
    source_pad_id: int,
    bos_id: int,
    eos_id: int,
    max_length: int,
    decoder: Callable[..., Decoder] = cached,
) -> list[list[int]]:
    """The likeliest token at every step: ids without bos, up to and without eos.

    Args:
        source_ids: (B, S), each row ended by eos and padded with source_pad_id on either side.
        max_length: tokens at which a translation is cut, eos included; at most the model's seq_len.
        decoder: `cached`, or PrefixDecoder: the same, slowly.

    Raises:
        ValueError: max_length, or the length of the sources, is more than the model has positions for.
    """
    found = _generate(model, source_ids, source_pad_id, bos_id, eos_id, max_length, decoder, _likeliest)
    return [[i for i in ids if i != eos_id] for ids in found]


def greedy_search(
    model: Transformer,
    source_ids: Tensor,
    source_pad_id: int,
    bos_id: int,
    eos_id: int,
    max_length: int,
    alpha: float = 0.0,
    decoder: Callable[..., Decoder] = cached,
) -> list[list[Hypothesis]]:
    """`greedy` as a list of one hypothesis for each source, with the score that α gives (`length_penalty`)."""
    found = _generate(model, source_ids, source_pad_id, bos_id, eos_id, max_length, decoder, _likeliest)
    return [[h] for h in _scored(model, source_ids, source_pad_id, bos_id, eos_id, found, alpha)]


def sample(
    model: Transformer,
    source_ids: Tensor,
    source_pad_id: int,
    bos_id: int,
    eos_id: int,
    max_length: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    count: int = 1,
    alpha: float = 0.0,
    generator: torch.Generator | None = None,
    decoder: Callable[..., Decoder] = cached,
) -> list[list[Hypothesis]]:
    """Draw `count` translations of each source token by token (`sampling.truncated`), the best score first.

    Equal ones are listed once. Scores are the model's own, whatever the temperature. generator: of the CPU, torch's
    default one unless given. The other arguments and errors are those of `greedy`; ValueError too for a temperature,
    top_k, top_p or count that leaves nothing to draw.
    """
    sampling.check(temperature, top_k, top_p)
    if count < 1:
        raise ValueError(f"sampling: count must be at least 1, but is {count}")
    sources = source_ids.repeat_interleave(count, dim=0)
    # all at once: what is drawn for a row must not depend on which other rows have ended
    uniform = torch.rand(len(sources), max_length, generator=generator).to(source_ids.device)

    def drawn(logits: Tensor, rows: list[int], t: int) -> Tensor:
        check_finite(logits)
        return sampling.draw(*sampling.truncated(logits, temperature, top_k, top_p), uniform[rows, t].to(logits.dtype))

    found = _generate(model, sources, source_pad_id, bos_id, eos_id, max_length, decoder, drawn)
    scored = _scored(model, sources, source_pad_id, bos_id, eos_id, found, alpha)
    return [ranked(scored[i : i + count], count) for i in range(0, len(scored), count)]


def _likeliest(logits: Tensor, rows: list[int], t: int) -> Tensor:
    return logits.argmax(-1)


def _generate(
    model: Transformer,
    source_ids: Tensor,
    source_pad_id: int,
    bos_id: int,
    eos_id: int,
    max_length: int,
    decoder: Callable[..., Decoder],
    choose: Callable[[Tensor, list[int], int], Tensor],
) -> list[list[int]]:
    """For each source the ids chosen, eos included if it came."""
    check_length(model, max_length)
    found: list[list[int]] = [[] for _ in source_ids]
    if not found:
        return found
    with deciding(model):
        state = decoder(model, source_ids, source_pad_id)
        ids = source_ids.new_full((len(source_ids),), bos_id)
        rows = list(range(len(source_ids)))  # the source that each row of the decoder belongs to
        for t in range(max_length):
            ids = choose(state.step(ids), rows, t)
            for row, i in zip(rows, ids.tolist(), strict=True):
                if found[row][-1:] != [eos_id]:
                    found[row].append(i)
            unfinished = [r for r, row in enumerate(rows) if found[row][-1] != eos_id]
            if not unfinished:
                break
            if 2 * len(unfinished) <= len(rows):  # ended rows cost time, and so does leaving them out
                kept = torch.tensor(unfinished, device=ids.device)
                state.keep(kept)
                ids, rows = ids[kept], [rows[r] for r in unfinished]
    return found


def _scored(
    model: Transformer,
    source_ids: Tensor,
    source_pad_id: int,
    bos_id: int,
    eos_id: int,
    found: list[list[int]],
    alpha: float,
) -> list[Hypothesis]:
    """What `_generate` found, with the model's log-probabilities."""
    log_p, _ = token_log_probabilities(model, source_ids, source_pad_id, found, bos_id)
    check_finite(torch.tensor([sum(row) for row in log_p]))
    return [
        Hypothesis(
            ids=[i for i in ids if i != eos_id],
            log_probability=(total := sum(row)),
            score=total / length_penalty(len(ids), alpha),
            is_finished=ids[-1] == eos_id,
        )
        for ids, row in zip(found, log_p, strict=True)
    ]
