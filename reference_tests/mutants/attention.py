"""A1 … A11: mistakes in the attention core, as the kit's catalogue has them."""

from typing import Any

import torch

from reference_tests.mutants.core import SDPA, core
from reference_tests.mutants.mutant import Mutant, variant
from scratch_transformer.kit.mistakes import MISTAKES

DEFINITION, SUM, BLOCKED, EMPTY = (
    "definition",
    "rows sum to one",
    "masked keys are invisible",
    "rows without keys are zero",
)
APART = "heads and samples stay apart"


def mutant(id: str, name: str, *caught_by: str, **more: Any) -> Mutant:
    entry = id.partition("-")[0]
    return Mutant(id, f"{MISTAKES[entry].does} {name}", SDPA, core(variant(entry, name)), caught_by, **more)


def wrong_scale(id: str, name: str, *caught_by: str) -> Mutant:
    return mutant(id, name, DEFINITION, "weights follow the scores", *caught_by)


CORE = (
    wrong_scale("A1-unscaled", "not scaled"),
    wrong_scale("A1-d_k", "divided by d_k"),
    wrong_scale("A1-d_model", "divided by √d_model", APART),
    wrong_scale("A1-heads", "divided by √heads", APART),
    wrong_scale("A1-multiplied", "multiplied by √d_k"),
    mutant("A2", "over the queries", DEFINITION, SUM, "a shift of all keys is invisible"),
    mutant("A3", "", DEFINITION, SUM, BLOCKED),
    mutant("A4", "", DEFINITION, SUM, BLOCKED),
    mutant("A5", "sees the future only", DEFINITION, "the future is invisible", "the present is visible"),
    mutant("A6", "hides the diagonal", DEFINITION, "the present is visible"),
    Mutant(
        "A8",
        "float16 ends at 65504: masking with -1e9 is an error there.",
        SDPA,
        core({"fill": "-1e9"}),
        caught_by=("precision", EMPTY),
        dtype=torch.float16,
        crashes=True,
    ),
    mutant("A10", "-10000", BLOCKED, EMPTY),
    mutant("A11-uniform", "the mean over all values", EMPTY),
    mutant("A11-nan", "NaN", EMPTY),
)
