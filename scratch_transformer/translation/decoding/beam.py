"""Beam search: the K likeliest prefixes of every source, extended together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer import functional
from scratch_transformer.model import Transformer
from scratch_transformer.translation.decoding.hypothesis import Hypothesis, length_penalty, ranked
from scratch_transformer.translation.decoding.modes import check_length, deciding
from scratch_transformer.translation.decoding.prefixes import Decoder
from scratch_transformer.translation.decoding.search import greedy_search
from scratch_transformer.translation.decoding.small import cached

IMPOSSIBLE = float("-inf")


def beam_search(
    model: Transformer,
    source_ids: Tensor,
    source_pad_id: int,
    bos_id: int,
    eos_id: int,
    max_length: int,
    *,
    beam: int = 4,
    alpha: float = 0.6,
    decoder: Callable[..., Decoder] = cached,
) -> list[list[Hypothesis]]:
    """Up to `beam` translations of each source, the best score first.

    A step extends K = `beam` prefixes by every token and goes on with the K likeliest; those that end with eos are
    kept aside with their score, log P / lp(length) (`length_penalty`). A source is done when K translations are kept
    and no prefix can reach the worst of them any more, whatever follows. What greedy search finds takes part, so the
    first score is never below greedy's.

    Args:
        source_ids, source_pad_id, bos_id, eos_id, max_length, decoder: as in `greedy`.
        beam: K.
        alpha: α of the length penalty; 0: log-probabilities as they are.

    Raises:
        ValueError: as in `greedy`, or for beam < 1 or alpha < 0.

    Source: Wu et al. 2016, section 7; Vaswani et al. 2017, section 6.1.
    """
    check_length(model, max_length)
    if beam < 1 or not 0 <= alpha < float("inf"):
        raise ValueError(f"beam_search: expected beam of at least 1 and a finite alpha ≥ 0, but got {beam=}, {alpha=}")
    greedy = greedy_search(model, source_ids, source_pad_id, bos_id, eos_id, max_length, alpha, decoder)
    if not greedy:
        return []
    with deciding(model):
        state = decoder(model, source_ids, source_pad_id, beam)
        beams = _Beams(source_ids, beam, bos_id, eos_id, [length_penalty(n, alpha) for n in range(max_length + 1)])
        while beams.sources and beams.prefixes.shape[-1] <= max_length:
            log_p = functional.log_softmax(state.step(beams.prefixes[:, :, -1].flatten()), dim=-1)
            state.reorder(beams.extend(log_p))
            if (going := beams.leave_out_the_done()) is not None:
                state.keep(going)
    beams.end()
    return [ranked(found + first, beam) for found, first in zip(beams.found, greedy, strict=True)]


class _Beams:
    """The prefixes of the n sources that are not done, and what was found for all.

    sources: which ones these are. prefixes: ids (n, K, t), bos first. log_p: of the prefixes, (n, K).
    found: for every source its best K finished translations, the best first.
    """

    def __init__(self, source_ids: Tensor, K: int, bos_id: int, eos_id: int, penalties: list[float]) -> None:
        B = len(source_ids)
        self.K, self.eos_id, self.penalties = K, eos_id, penalties
        self.sources = list(range(B))
        self.prefixes = source_ids.new_full((B, K, 1), bos_id)
        self.log_p = torch.zeros(B, K, device=source_ids.device)
        self.log_p[:, 1:] = IMPOSSIBLE  # the K prefixes are the same at first: they count as one
        self.found: list[list[Hypothesis]] = [[] for _ in range(B)]

    def extend(self, log_p: Tensor) -> Tensor:
        """Every prefix by its likeliest tokens, log_p (n·K, V): the row (n·K,) that each new prefix continues."""
        n, K, V = *self.log_p.shape, log_p.shape[-1]
        candidates = (self.log_p.to(log_p.dtype).unsqueeze(-1) + log_p.view(n, K, V)).flatten(1)
        best, index = candidates.topk(min(2 * K, K * V))  # at most K of them end: K others remain
        origin, token = index // V, index % V
        ends = token == self.eos_id
        self._keep_finished(best, origin, ends)
        self.log_p, rank = best.masked_fill(ends, IMPOSSIBLE).topk(K)
        origin, token = origin.gather(1, rank), token.gather(1, rank)
        rows = (torch.arange(n, device=rank.device).unsqueeze(1) * K + origin).flatten()
        self.prefixes = torch.cat([self.prefixes.flatten(0, 1)[rows].view(n, K, -1), token.unsqueeze(-1)], dim=-1)
        return rows

    def _keep_finished(self, best: Tensor, origin: Tensor, ends: Tensor) -> None:
        for i, j in (ends & (best > IMPOSSIBLE)).nonzero().tolist():
            ids = self.prefixes[i, origin[i, j], 1:].tolist()
            found = self.found[self.sources[i]]
            found.append(self._hypothesis(ids, float(best[i, j]), is_finished=True))
            found.sort(key=lambda h: h.score, reverse=True)
            del found[self.K :]

    def leave_out_the_done(self) -> Tensor | None:
        """The indices of those that go on, or None if all of them do."""
        # a sum of log-probabilities can only fall, and is divided by no more than the last penalty
        reachable = (self.log_p.amax(1) / self.penalties[-1]).tolist()
        going = [i for i, source in enumerate(self.sources) if not self._is_done(self.found[source], reachable[i])]
        if len(going) == len(self.sources):
            return None
        kept = torch.tensor(going, dtype=torch.long, device=self.prefixes.device)
        self.sources = [self.sources[i] for i in going]
        self.prefixes, self.log_p = self.prefixes[kept], self.log_p[kept]
        return kept

    def _is_done(self, found: list[Hypothesis], reachable: float) -> bool:
        return len(found) == self.K and found[-1].score >= reachable

    def end(self) -> None:
        """At the longest length allowed, what has not ended is found as it is."""
        for source, prefixes, log_p in zip(self.sources, self.prefixes.tolist(), self.log_p.tolist(), strict=True):
            self.found[source] += [
                self._hypothesis(ids[1:], total, is_finished=False)
                for ids, total in zip(prefixes, log_p, strict=True)
                if total > IMPOSSIBLE
            ]

    def _hypothesis(self, ids: list[int], log_probability: float, is_finished: bool) -> Hypothesis:
        penalty = self.penalties[len(ids) + is_finished]
        return Hypothesis(ids, log_probability, log_probability / penalty, is_finished)
