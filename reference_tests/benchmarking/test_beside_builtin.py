"""Ours beside the builtin alone: which cases, what is said of them, and that pieces of a day are kept together."""

import math

import pytest

from benchmarks import beside_builtin
from reference_tests.benchmarking.made_up import needs_groups
from scratch_transformer.attention.tiled import workers
from scratch_transformer.benchmarking import grid, measurement

TINY = [(1, 2, 8, 4), (1, 1, 5, 8)]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(grid, "FULL_CPU", TINY)
    monkeypatch.setattr(beside_builtin, "MANY_KEYS", [(4, 2, 9, 4)])
    monkeypatch.setattr(workers._crowd, "over", -math.inf)


def test_pieces_are_kept_together_and_their_means_are_told(tmp_path, capsys):
    needs_groups()
    for group in ("both", "few"):
        beside_builtin.main(["float32", group, "--seconds", "0.01", "--keep", str(tmp_path)])
    said = capsys.readouterr().out
    values = measurement.latest(beside_builtin.SUBJECT, tmp_path)["values"]
    assert {group: set(found) for group, found in values.items()} == {
        "float32, both": {"full", "causal"},
        "float32, few": {"1 query", "4 queries", "8 queries", "16 queries", "32 queries"},
    }
    both = beside_builtin.medians(values["float32, both"])
    assert {family: len(found) for family, found in both.items()} == {"full": 2, "causal": 2}
    mean = math.sqrt(math.prod(both["full"]))
    assert f"full: geometric mean {mean:.2f}, lowest {min(both['full']):.2f}\n" in said
    assert list(values["float32, few"]["4 queries"]) == ["attention-B1-H4-G2-T4-S9-D4-float32-forward"]


@pytest.mark.long
def test_beside_a_busy_process_is_another_document(tmp_path):
    beside_builtin.main(["float32", "forward", "--busy", "1", "--seconds", "0.01", "--keep", str(tmp_path)])
    assert measurement.latest(beside_builtin.SUBJECT, tmp_path) is None
    assert measurement.latest(beside_builtin.BESIDE[True], tmp_path)["values"].keys() == {"float32, forward"}


def test_other_processes_end_with_the_measurement():
    with beside_builtin.busy(2) as others:
        assert [other.poll() for other in others] == [None, None]
    assert all(other.poll() is not None for other in others)
