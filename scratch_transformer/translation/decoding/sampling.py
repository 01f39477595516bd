"""Drawing the next token: temperature, top-k and top-p."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer import functional


def truncated(logits: Tensor, temperature: float, top_k: int | None, top_p: float | None) -> tuple[Tensor, Tensor]:
    """The probabilities to draw from, in falling order, and the tokens they belong to: both (R, V).

    softmax(logits / temperature), of which only the top_k likeliest tokens stay (Fan et al. 2018), and then only the
    smallest set that has at least the probability top_p (Holtzman et al. 2020, section 3.1); renormalised.
    """
    ordered, tokens = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = functional.softmax(ordered / temperature, dim=-1)
    if top_k is not None:
        probabilities[:, top_k:] = 0
        probabilities = probabilities / probabilities.sum(-1, keepdim=True)
    if top_p is not None:
        before = probabilities.cumsum(-1) - probabilities  # the probability of all likelier tokens
        probabilities = probabilities.masked_fill(before >= top_p, 0)
        probabilities = probabilities / probabilities.sum(-1, keepdim=True)
    return probabilities, tokens


def draw(probabilities: Tensor, tokens: Tensor, uniform: Tensor) -> Tensor:
    """For each row the first token at which the cumulated probability exceeds `uniform` (R,), drawn from [0, 1)."""
    cumulated = probabilities.cumsum(-1)
    # rounding may leave the sum below the number drawn: then the last token that may be drawn
    uniform = torch.minimum(uniform, cumulated[:, -1] * (1 - torch.finfo(cumulated.dtype).eps))
    index = torch.searchsorted(cumulated, uniform.unsqueeze(1), right=True)
    last = (probabilities > 0).sum(-1, keepdim=True) - 1
    return tokens.gather(1, torch.minimum(index, last)).squeeze(1)


def check(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Raises ValueError for values that leave nothing to draw from."""
    if not 0 < temperature < float("inf"):
        raise ValueError(f"sampling: temperature must be a finite number above 0, but is {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"sampling: top_k must be at least 1, but is {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"sampling: top_p must be above 0 and at most 1, but is {top_p}")
