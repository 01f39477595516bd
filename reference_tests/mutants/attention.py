"""A1 … A11: mistakes in the attention core."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reference_tests.mutants.core import SDPA, core, masked_softmax
from reference_tests.mutants.mutant import Mutant
from scratch_transformer import functional, masks


def unscaled(query: Tensor) -> float:
    return 1.0


def by_d_k(query: Tensor) -> float:
    return 1 / query.shape[-1]


def by_d_model(query: Tensor) -> float:
    return 1 / math.sqrt(heads(query) * query.shape[-1])


def by_heads(query: Tensor) -> float:
    return 1 / math.sqrt(heads(query))


def multiplied(query: Tensor) -> float:
    return math.sqrt(query.shape[-1])


def heads(query: Tensor) -> int:
    return query.shape[-3] if query.dim() > 2 else 1


def over_the_queries(scores: Tensor, mask: Tensor | None) -> Tensor:
    return masked_softmax(scores.transpose(-2, -1), None if mask is None else mask.transpose(-2, -1)).transpose(-2, -1)


def masked_afterwards(scores: Tensor, mask: Tensor | None) -> Tensor:
    boolean = mask is not None and mask.dtype == torch.bool
    return functional.softmax(scores, -1) * mask if boolean else masked_softmax(scores, mask)


def multiplied_by_the_mask(scores: Tensor, mask: Tensor | None) -> Tensor:
    boolean = mask is not None and mask.dtype == torch.bool
    return functional.softmax(scores * mask, -1) if boolean else masked_softmax(scores, mask)


def filled_with(fill: float) -> Callable[[Tensor, Tensor | None], Tensor]:
    def weigh(scores: Tensor, mask: Tensor | None) -> Tensor:
        boolean = mask is not None and mask.dtype == torch.bool
        return functional.softmax(scores.masked_fill(~mask, fill), -1) if boolean else masked_softmax(scores, mask)

    return weigh


def unguarded(scores: Tensor, mask: Tensor | None) -> Tensor:
    return functional.softmax(masks.apply(scores, mask), -1)


def the_future(T: int, S: int, device: Any = None) -> Tensor:
    return torch.ones(T, S, dtype=torch.bool, device=device).triu(1)


def the_past(T: int, S: int, device: Any = None) -> Tensor:
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(-1)


def scale_mutant(variant: str, formula: str, scale_of: Callable[[Tensor], float], *also_caught_by: str) -> Mutant:
    mistake = f"The scores are {formula}, instead of divided by √d_k."
    caught_by = ("definition", "weights follow the scores", *also_caught_by)
    return Mutant(f"A1-{variant}", "wrong scale", mistake, SDPA, core(scale_of=scale_of), caught_by)


CORE = (
    scale_mutant("unscaled", "not divided at all", unscaled),
    scale_mutant("d_k", "divided by d_k", by_d_k),
    scale_mutant("d_model", "divided by √d_model", by_d_model, "heads and samples stay apart"),
    scale_mutant("heads", "divided by √h", by_heads, "heads and samples stay apart"),
    scale_mutant("multiplied", "multiplied by √d_k", multiplied),
    Mutant(
        "A2",
        "softmax over the wrong axis",
        "The weights of a key sum to one over the queries, instead of those of a query over the keys.",
        SDPA,
        core(weigh=over_the_queries),
        caught_by=("definition", "rows sum to one", "a shift of all keys is invisible"),
    ),
    Mutant(
        "A3",
        "mask after softmax",
        "Blocked weights are zeroed after the softmax: rows sum to less than one.",
        SDPA,
        core(weigh=masked_afterwards),
        caught_by=("definition", "rows sum to one", "masked keys are invisible"),
    ),
    Mutant(
        "A4",
        "scores times mask",
        "Blocked scores become 0, instead of -∞, and keep a weight proportional to e⁰.",
        SDPA,
        core(weigh=multiplied_by_the_mask),
        caught_by=("definition", "rows sum to one", "masked keys are invisible"),
    ),
    Mutant(
        "A5",
        "inverted causal mask",
        "A query attends to what comes after it, and to nothing else.",
        SDPA,
        core(causal=the_future),
        caught_by=("definition", "the future is invisible", "the present is visible"),
    ),
    Mutant(
        "A6",
        "causal mask hides the diagonal",
        "A query does not attend to its own position; the first one has nothing to attend to.",
        SDPA,
        core(causal=the_past),
        caught_by=("definition", "the present is visible"),
    ),
    Mutant(
        "A8",
        "-1e9 in float16",
        "float16 ends at 65504: masking with -1e9 is an error there.",
        SDPA,
        core(weigh=filled_with(-1e9)),
        caught_by=("precision", "rows without keys are zero"),
        dtype=torch.float16,
        crashes=True,
    ),
    Mutant(
        "A10",
        "blocked scores are -10000",
        "A finite number in place of -∞: blocked keys leak where all other scores are lower.",
        SDPA,
        core(weigh=filled_with(-1e4)),
        caught_by=("masked keys are invisible", "rows without keys are zero"),
    ),
    Mutant(
        "A11-uniform",
        "row without keys: uniform",
        "Where every key is blocked, -1e9 everywhere gives the mean of all values, padding included, instead of zero.",
        SDPA,
        core(weigh=filled_with(-1e9)),
        caught_by=("rows without keys are zero",),
    ),
    Mutant(
        "A11-nan",
        "row without keys: NaN",
        "Where every key is blocked, the softmax of -∞ everywhere is 0/0, instead of zero.",
        SDPA,
        core(weigh=unguarded),
        caught_by=("rows without keys are zero",),
    ),
)
