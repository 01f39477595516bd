"""`scratch-transformer explain`: every mistake is explained, and its demonstration runs."""

import pytest
from click.testing import CliRunner

from scratch_transformer.commands.explain import explain
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import (
    AS_IN_T5,
    BEHIND_THE_PRESENT,
    BESIDE_A_MASK,
    IN_BOOLEANS,
    LENT,
    NOT_ASKED,
    OUTPUT_ALONE,
    ROWS_TOO,
    SPREADS,
    TARGET_ONLY,
    TURNED_BETWEEN,
    UNREAD_OF_QUERIES,
    UNTOLD,
    WRITTEN_IN,
)
from scratch_transformer.kit.mistakes.blocks import MIXED_NORMS, UNUSED_NORMS
from scratch_transformer.kit.mistakes.construction import (
    ALWAYS_GIVEN,
    ALWAYS_MASKED,
    ASKED_IN_VAIN,
    AVERAGED,
    LOADED,
    NO_DROPOUT,
    NOWHERE_ELSE,
    OF_WRITERS,
    PART_DROPS_ANYWAY,
    POSITIVE_TABLE,
    SECOND_TABLE,
    SHARED_BOTH,
    UNHEARD_FLAG,
    UNTRAINED,
    WIDTH_OF_HEADS,
)
from scratch_transformer.kit.mistakes.demonstrate import demonstrate
from scratch_transformer.kit.mistakes.embedding import ELSEWHERE, IN_A_BATCH, NO_POSITIONS
from scratch_transformer.kit.mistakes.grouped import SEVERAL
from scratch_transformer.kit.mistakes.masks import TOLD_DEVICE
from scratch_transformer.kit.mistakes.normalization import LARGE_EPS, NO_EPS, OF_A_SIZE, OF_PLACES, OF_RMS, ZERO_BY_ZERO
from scratch_transformer.kit.mistakes.paths import OF_LENT_LAYERS
from scratch_transformer.kit.mistakes.rotary import FIRST_ROWS
from scratch_transformer.kit.mistakes.training import OF_THE_SOURCE

OF_OTHER_FORMS = {
    "A1": {AS_IN_T5, WRITTEN_IN},
    "A5": {LENT},
    "A7": {BEHIND_THE_PRESENT},
    "A11": {ROWS_TOO, SPREADS},
    "A15": {OUTPUT_ALONE},
    "A16": {IN_BOOLEANS},
    "A24": {LENT, TARGET_ONLY, UNREAD_OF_QUERIES, UNTOLD},
    "A25": {NOT_ASKED, LENT, BESIDE_A_MASK},
    "A28": {SHARED_BOTH},
    "A30": {TOLD_DEVICE},
    "A39": {TURNED_BETWEEN},
    "B1": {MIXED_NORMS},
    "B15": {UNUSED_NORMS},
    "B22": {LOADED, POSITIVE_TABLE},
    "B25": {OF_LENT_LAYERS},
    "B26": {NO_DROPOUT, ALWAYS_GIVEN, ALWAYS_MASKED, ASKED_IN_VAIN},
    "B27": {OF_WRITERS, UNTRAINED},
    "B29": {WIDTH_OF_HEADS, UNHEARD_FLAG, PART_DROPS_ANYWAY},
    "B30": {SECOND_TABLE},
    "B32": {NOWHERE_ELSE},
    "B33": {AVERAGED},
    "E2": {ELSEWHERE},
    "K1": {SEVERAL},
    "LN3": {LARGE_EPS, NO_EPS, OF_A_SIZE, OF_RMS, ZERO_BY_ZERO},
    "LN4": {OF_PLACES},
    "P4": {IN_A_BATCH},
    "P13": {NO_POSITIONS},
    "R9": {FIRST_ROWS},
    "T5": {OF_THE_SOURCE},
    "P5": {TOLD_DEVICE},
}
"""What a mistake may be, that no change of the reference makes."""


def run(*arguments):
    return CliRunner().invoke(explain, arguments)


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_demonstration_runs_and_prints(mistake):
    assert len(mistake.demo.splitlines()) <= 14
    printed = demonstrate(mistake)
    assert len(printed.splitlines()) >= 1
    assert "Error" not in printed or mistake.id in ("LN8", "E1", "P1", "P6", "A8", "A19")


def test_the_numbers_of_the_demonstrations():
    assert "0.866025" in demonstrate(MISTAKES["LN1"])
    assert "ratio 3.5254" in demonstrate(MISTAKES["LN3"])
    assert "paper 6.98771e-04" in demonstrate(MISTAKES["T7"])
    assert "0.00047323" in demonstrate(MISTAKES["B8"])


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_explained(mistake):
    assert all(text.endswith((".", "?", ")", "`")) for text in (mistake.does, mistake.expected)), mistake.id
    assert mistake.title and mistake.fix and mistake.source
    others = OF_OTHER_FORMS.get(mistake.id, set())
    assert set(mistake.severities) <= set(mistake.changes) | others


def test_one_mistake():
    result = run("ln1")
    assert result.exit_code == 0
    for part in ("LN1: the variance divides by n - 1 (a mistake)", "√((n - 1)/n)", "unbiased=False", "0.866025"):
        assert part in result.output


def test_the_list():
    lines = run().output.splitlines()
    assert len(lines) == len(MISTAKES)
    assert lines[0] == "LN1   the variance divides by n - 1"


def test_an_unknown_mistake():
    result = run("LN1", "Q9")
    assert result.exit_code == 2
    assert "no mistake is called Q9" in result.output
