"""Drawing the next token: temperature, top-k, top-p, min-p, and a penalty for what has been said."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer import functional

LIKELIEST = 1024
"""Tokens of a large vocabulary that are searched for the nucleus first: to sort all can take longer than the model."""

COLDEST = 1e-6
"""A temperature that nothing distinguishes from a lower one, at which logits would be infinite."""


def penalized(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Logits (R, V) of which those of `seen` tokens, boolean (R, V), are lowered: x / penalty, or x · penalty if x < 0.

    penalty 1 changes nothing, below 1 they rise. Source: Keskar et al. 2019, section 4.1, for positive logits alone.
    """
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def truncated(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float | None, min_p: float | None = None
) -> tuple[Tensor, Tensor]:
    """The probabilities to draw from, and the tokens they belong to: both (R, K), of logits (R, V).

    softmax(logits / temperature), of which only the top_k likeliest tokens stay (Fan et al. 2018), then only the
    smallest set that has at least the probability top_p (Holtzman et al. 2020, section 3.1), then only those with at
    least min_p times the probability of the likeliest (Nguyen et al. 2024); renormalised.
    """
    tokens = torch.arange(logits.shape[-1], device=logits.device).expand_as(logits)
    if top_k is not None:
        logits, tokens = logits.topk(min(top_k, logits.shape[-1]))
    probabilities = functional.softmax(logits / max(temperature, COLDEST), dim=-1)
    if top_p is not None:
        probabilities, tokens = _nucleus(probabilities, tokens, top_p)
    if min_p is not None:
        probabilities = probabilities.masked_fill(probabilities < min_p * probabilities.amax(-1, keepdim=True), 0)
    return probabilities / probabilities.sum(-1, keepdim=True), tokens


def _nucleus(probabilities: Tensor, tokens: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """The likeliest tokens that have the probability top_p together, the likeliest first; of others it is zero."""
    K = probabilities.shape[-1]
    ordered, index = probabilities.topk(min(LIKELIEST, K))
    if K > LIKELIEST and bool((ordered.sum(-1) < top_p).any()):
        ordered, index = probabilities.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered  # the probability of all likelier tokens
    return ordered.masked_fill(before >= top_p, 0), tokens.gather(1, index)


def draw(probabilities: Tensor, tokens: Tensor, uniform: Tensor) -> Tensor:
    """For each row the first token at which the cumulated probability exceeds `uniform` (R,), drawn from [0, 1)."""
    cumulated = probabilities.cumsum(-1)
    # rounding may leave the sum below the number drawn: then the last token that may be drawn
    uniform = torch.minimum(uniform, cumulated[:, -1] * (1 - torch.finfo(cumulated.dtype).eps))
    index = torch.searchsorted(cumulated, uniform.unsqueeze(1), right=True)
    impossible = probabilities.gather(1, index) == 0  # sums that a GPU adds up in parallel need not rise
    if impossible.any():
        index = torch.where(impossible, probabilities.argmax(-1, keepdim=True), index)
    return tokens.gather(1, index).squeeze(1)


def check(
    temperature: float, top_k: int | None, top_p: float | None, min_p: float | None = None, penalty: float = 1.0
) -> None:
    """Raises ValueError for values that leave nothing to draw from."""
    if not 0 < temperature < float("inf"):
        raise ValueError(f"sampling: temperature must be a finite number above 0, but is {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"sampling: top_k must be at least 1, but is {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"sampling: top_p must be above 0 and at most 1, but is {top_p}")
    if min_p is not None and not 0 <= min_p <= 1:
        raise ValueError(f"sampling: min_p must be at least 0 and at most 1, but is {min_p}")
    if not 0 < penalty < float("inf"):
        raise ValueError(f"sampling: repetition_penalty must be a finite number above 0, but is {penalty}")
