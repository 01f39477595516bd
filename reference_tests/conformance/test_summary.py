"""Many checks in a few numbers, on results that are made up."""

import pytest

from reference_tests.conformance.checks import INF, definition, other, precision, skipped
from scratch_transformer.conformance.summary import (
    by_component,
    geometric_mean,
    has_passed,
    reproduction,
    summarise,
    verdict,
)
from scratch_transformer.conformance.summary import skipped as reasons
from scratch_transformer.conformance.verify import Task, check

WHERE = {"scratch_transformer": "1.2", "torch": "3.4", "device": "cpu"}


def test_the_worst_of_every_kind():
    summary = summarise(
        "Linear",
        [
            definition(3e-16, 1e-15, index=0),
            definition(0.0, 0.0, index=1),
            definition(4e-13, 5e-14, index=0, kind="oracle"),
            skipped(index=1),
            precision([1.5, 0.5], [2.5], index=0),
            precision([1.0], [], index=1, dtype="float32"),
            other("error", 0),
            other("error", 1),
            other("invariant", 0),
        ],
    )
    assert (summary.cases, summary.bitwise, summary.definitions, summary.oracle_cases) == (2, 1, 2, 1)
    assert (summary.output_error, summary.gradient_error) == (3e-16, 1e-15)
    assert (summary.oracle_output_error, summary.oracle_gradient_error) == (4e-13, 5e-14)
    assert (summary.output_ratio, summary.gradient_ratio) == (1.5, 2.5)
    assert summary.mean_ratio == pytest.approx((1.5 * 0.5 * 2.5 * 1.0) ** (1 / 4))
    assert (summary.errors, summary.invariants, summary.failed) == (2, 1, 0)
    assert summary.passed


def test_what_was_not_compared_has_no_number():
    summary = summarise("Linear", [other("error")])
    assert (summary.cases, summary.definitions, summary.oracle_cases) == (0, 0, 0)
    assert summary.output_error is summary.oracle_output_error is summary.output_ratio is summary.mean_ratio is None


def test_one_failure_fails_the_component():
    summary = summarise("Linear", [definition(), definition(1e-11, index=1), other(passed=False)])
    assert summary.failed == 2
    assert not summary.passed


def test_the_geometric_mean_of_nothing_and_of_infinity():
    assert geometric_mean([]) is None
    assert geometric_mean([precision([2.0], [INF]).precision]) == INF


def test_checks_are_grouped_in_their_order():
    checks = [definition(component="GELU"), definition(), other(component="GELU")]
    assert {name: len(group) for name, group in by_component(checks).items()} == {"GELU": 2, "Linear": 1}
    assert list(by_component(checks)) == ["GELU", "Linear"]


def test_reasons_are_counted_the_most_frequent_first():
    checks = [skipped(reason="rare"), definition(), *[skipped(reason="often", index=i) for i in range(3)]]
    assert list(reasons(checks).items()) == [("often", 3), ("rare", 1)]


# ---- The verdict ----


def test_all_passed():
    checks = [definition(), precision(), definition(component="GELU"), skipped(), other()]
    assert has_passed(checks)
    assert verdict(checks, WHERE) == (
        "PASS: scratch_transformer 1.2 agrees with torch 3.4 on cpu in float64, float16: "
        "2 components, 4 checks passed, 1 skipped."
    )


def test_one_failed():
    checks = [definition(), other(component="GELU", passed=False)]
    assert not has_passed(checks)
    assert verdict(checks, WHERE) == (
        "FAIL: scratch_transformer 1.2 differs from torch 3.4 on cpu: 1 of 2 checks failed, in GELU."
    )


@pytest.mark.parametrize("checks", [[], [skipped("precision"), other()], [other()]], ids=["none", "skipped", "errors"])
def test_nothing_compared_is_not_a_pass(checks):
    assert not has_passed(checks)
    assert verdict(checks, WHERE) == "FAIL: nothing of scratch_transformer 1.2 could be compared with torch 3.4 on cpu."


def test_the_reproduction_is_code_that_repeats_the_check(capsys):
    task = Task("ReLU", "definition", 0)
    shell, code, end = reproduction(check(task)).split('"')
    assert (shell, end) == ("python -c ", "")
    exec(code, {})
    assert capsys.readouterr().out.strip() == str(check(task))
