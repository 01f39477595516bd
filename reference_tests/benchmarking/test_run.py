"""A run from end to end on tiny cases, and what it must not try."""

import json

import pytest

from scratch_transformer.benchmarking import machine, memory, ratios, results, run
from scratch_transformer.benchmarking.attention_case import AttentionCase
from scratch_transformer.benchmarking.machine import Limits


@pytest.fixture(scope="module")
def finished():
    patch = pytest.MonkeyPatch()
    patch.setattr(run, "limits", lambda device, dtypes: Limits(dict.fromkeys([*dtypes, "float32"], 1e12), 1e10))
    patch.setattr(memory, "peak", lambda case, rival, device: 1024)
    told = []
    document = run.run("tiny", "cpu", ["variants", "attention"], told.append)
    patch.undo()
    return document, told


@pytest.mark.long
def test_a_run_is_ready_for_json(finished):
    document, _ = finished
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["schema"] == results.SCHEMA
    assert ratios.broken(document) == []


def test_every_case_and_rival_has_a_row(finished):
    document, told = finished
    cases = run.plan("tiny", "cpu", ["variants", "attention"])
    assert [(row["case"], row["backend"]) for row in document["rows"]] == [
        (case.name, rival.name) for case in cases for rival in case.rivals("cpu")
    ]
    assert len(told) == run.steps("tiny", "cpu", ["variants", "attention"])


def test_a_row_has_everything(finished):
    document, _ = finished
    timed = [row for row in document["rows"] if row["status"] == "timed"]
    assert timed
    for row in timed:
        assert row["timer"] == "perf_counter"
        assert {"shape", "dtype", "backend", "tokens/s", "GB/s", "percent_of_gemm", "peak_memory", "error"} <= set(row)
        assert row["seconds"]["p20"] <= row["seconds"]["median"] <= row["seconds"]["p80"]
        assert row["TFLOP/s"] == pytest.approx(row["flops"] / row["seconds"]["median"] / 1e12)
        assert row["percent_of_gemm"] == pytest.approx(100 * row["TFLOP/s"])
        assert row["durations"]
    assert max(len(row["durations"]) for row in timed) == 3
    for row in document["rows"]:
        assert row["status"] == "timed" or row["reason"]


def test_memory_is_weighed_at_every_length(finished):
    document, _ = finished
    assert {row["shape"]["T"] for row in document["memory"]} == {64, 128}
    assert "ours auto" in {row["backend"] for row in document["memory"]}


def test_a_quick_run_ends_in_time(monkeypatch):
    monkeypatch.setattr(run, "limits", lambda device, dtypes: Limits({"float32": 1.0}, 1.0))
    monkeypatch.setitem(run.grid.ENOUGH, "tiny", -1.0)
    document = run.run("tiny", "cpu", ["layers"])
    assert {(row["status"], row["reason"]) for row in document["rows"]} == {("left out", run.NO_TIME)}


def test_nobody_is_let_near_the_machines_memory(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda device: 2**20)
    monkeypatch.setattr(memory, "peak", lambda case, rival, device: 1)
    found = {result.rival.name: result for result in run.weigh(AttentionCase(1, 8, 4096, 64), "cpu", "quick")}
    assert (found["torch math"].status, found["torch math"].reason) == ("left out", "would take about 2.50 GiB")
    assert found["torch flash"].status == "timed"


@pytest.mark.parametrize(("direction", "out"), [("forward", False), ("backward", True)])
def test_in_a_race_too_who_holds_the_matrix_is_left_out_by_its_size(monkeypatch, direction, out):
    """A float32 matrix of every head is 4 GiB here, and 80 GiB are there: five fit into half of it, and eight not."""
    monkeypatch.setattr(memory, "available", lambda device: 60 * 2**30)
    without = run.left_out(AttentionCase(8, 32, 2048, 64, "bfloat16", direction), "cuda", "quick")
    assert ({"ours naive", "torch math"} <= set(without)) == out
    assert "torch flash" not in without


def test_what_is_done_is_kept_after_every_case(monkeypatch):
    """A crash in the middle loses one case."""
    monkeypatch.setattr(run, "limits", lambda device, dtypes: Limits({"float32": 1.0}, 1.0))
    kept, cases = [], run.plan("tiny", "cpu", ["layers"])

    def race(case, *rest):
        if case == cases[2]:
            raise KeyboardInterrupt
        return [run.Result(case, case.rivals("cpu")[0], "failed", "made up")]

    monkeypatch.setattr(run, "race", race)
    with pytest.raises(KeyboardInterrupt):
        run.run("tiny", "cpu", ["layers"], keep=lambda document: kept.append(json.dumps(document)))
    assert [row["case"] for row in json.loads(kept[-1])["rows"]] == [case.name for case in cases[:2]]


@pytest.fixture
def races(monkeypatch):
    """Nothing is measured. Collects what was raced or weighed, of which each takes a second."""
    clock, found = [0.0], []

    def measured(case, *rest):
        clock[0] += 1.0
        found.append(case.name)
        return [run.Result(case, case.rivals("cpu")[0], "failed", "made up")]

    monkeypatch.setattr(run, "limits", lambda device, dtypes: Limits(dict.fromkeys(dtypes, 2.0), 7.0))
    monkeypatch.setattr(run, "race", measured)
    monkeypatch.setattr(run, "weigh", measured)
    monkeypatch.setattr(run.time, "monotonic", lambda: clock[0])
    return found


def test_a_run_in_pieces_is_a_whole_run(races, monkeypatch):
    """Each ends with the first case after its time; the next goes on from the file of the last, with its limits."""
    subjects = ["attention", "layers"]
    whole, told = run.run("tiny", "cpu", subjects), []
    assert whole["left"] == 0
    cases = races.copy()
    races.clear()
    pieces = [run.run("tiny", "cpu", subjects, seconds=2.5)]
    monkeypatch.setattr(run, "limits", None)  # measured once
    while pieces[-1]["left"]:
        assert len(pieces[-1]["memory"]) + len(pieces[-1]["rows"]) == 3 * len(pieces)
        assert pieces[-1]["left"] == len(cases) - 3 * len(pieces)
        begun = json.loads(json.dumps(pieces[-1]))
        pieces.append(run.run("tiny", "cpu", subjects, told.append, begun=begun, seconds=2.5))
    assert races == cases
    assert len(pieces) == -(-len(cases) // 3)
    for part in ("memory", "rows"):
        assert pieces[-1][part] == whole[part]
    assert len(told) == len(cases) - 3 + len(pieces) - 1


def test_nothing_is_measured_again(races):
    document = run.run("tiny", "cpu", ["layers"])
    races.clear()
    assert run.run("tiny", "cpu", ["layers"], begun=document) is document
    assert races == []


def test_who_disturbed_an_earlier_piece_is_remembered(races):
    """By how long each piece took: 10 seconds beside a busy processor, and a second for each case that is left."""
    document = run.run("tiny", "cpu", ["layers"])
    document["rows"], document["watched"] = document["rows"][:1], {"seconds": 10.0, "used": 1e6}
    races.clear()
    run.run("tiny", "cpu", ["layers"], begun=document)
    assert document["watched"]["seconds"] == 10.0 + len(races)
    assert document["watched"]["used"] >= 1e6 - 1
    assert document["environment"]["used by others"] == pytest.approx(1e6 / (10.0 + len(races)), rel=1e-3)


def test_a_process_that_dies_is_recorded(monkeypatch):
    def peak(case, rival, device):
        raise memory.NotMeasured("too little memory")

    monkeypatch.setattr(memory, "peak", peak)
    found = run.weigh(AttentionCase(1, 1, 16, 4), "cpu", "quick")
    assert {result.reason for result in found} == {"too little memory", run.COMPILED}


def test_a_gpus_rows_name_the_synchronised_timer():
    case = AttentionCase(1, 1, 16, 4)
    result = run.Result(case, case.rivals("cuda")[0], "timed", "", 0.0, [1.0], 0)
    assert results.row(result, "cuda:0", Limits({"float32": 1.0}, 1.0))["timer"] == "synchronised_time"


def test_machines_are_measured_for_the_dtypes_that_are_run(monkeypatch):
    asked = []
    monkeypatch.setattr(run, "limits", lambda device, dtypes: asked.append(dtypes) or Limits({"float32": 1.0}, 1.0))
    monkeypatch.setattr(run, "race", lambda *args: [])
    monkeypatch.setattr(machine, "environment", lambda device: {})
    run.run("tiny", "cpu", ["layers"])
    assert asked == [["float32"]]
