"""A translation with its score."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """What a search found for one source.

    ids: its tokens, without bos and eos.
    log_probability: log P(ids, eos | source), in nats; of ids alone if it is not finished.
    score: log_probability divided by the length penalty; what it is ranked by.
    is_finished: whether it ended with eos, and not at the longest length allowed.
    """

    ids: list[int]
    log_probability: float
    score: float
    is_finished: bool


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / (5 + 1))^α, |Y| tokens with eos: a sum of log-probabilities is divided by it.

    Sums favour short translations; α = 0 leaves them as they are, α = 1 nearly takes the mean.
    Source: Wu et al. 2016, equation 14; Vaswani et al. 2017, section 6.1: α = 0.6 with a beam of 4.
    """
    return float(((5 + length) / 6) ** alpha)


def ranked(hypotheses: list[Hypothesis], count: int) -> list[Hypothesis]:
    """The best `count` that differ, finished ones first."""
    different = {tuple(h.ids) + (h.is_finished,): h for h in reversed(hypotheses)}  # of equal ones, the first
    return sorted(different.values(), key=lambda h: (h.is_finished, h.score), reverse=True)[:count]
