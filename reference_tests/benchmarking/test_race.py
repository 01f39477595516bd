"""What becomes of rivals: who is wrong is not timed, who cannot says why, and nobody ends the others' race."""

import warnings

import pytest
import torch

from reference_tests.benchmarking.made_up import Sums
from scratch_transformer.benchmarking import memory, race
from scratch_transformer.benchmarking.case import Case
from scratch_transformer.benchmarking.timing import Effort

BRIEF = Effort(3, 1)


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch):
    def peak(case, rival, device):
        if rival.name == "torch heavy":
            raise memory.NotMeasured("too little memory")
        return len(rival.name)

    monkeypatch.setattr(memory, "peak", peak)


def results(**answers):
    case = Sums(1, 1, 1, 1, answers={name.replace("_", " "): answer for name, answer in answers.items()})
    return {result.rival.name: result for result in race.race(case, "cpu", BRIEF, {"torch slow": "takes long"})}


def test_everybody_gets_a_result_in_order():
    found = results(ours_tiled=4.0, torch_flash=4.00001, torch_slow=4.0, torch_math=5.0, torch_flex="has no sums")
    assert list(found) == ["ours", "ours tiled", "torch flash", "torch slow", "torch math", "torch flex"]
    statuses = {name: result.status for name, result in found.items()}
    assert statuses["torch flex"] == "unsupported" and found["torch flex"].reason == "has no sums"
    assert statuses["torch slow"] == "left out" and found["torch slow"].reason == "takes long"
    assert statuses["torch math"] == "wrong" and "relative error 1.0e+00" in found["torch math"].reason
    assert not any(found[name].durations for name in ("torch flex", "torch slow", "torch math"))
    for name in ("ours", "ours tiled", "torch flash"):
        assert statuses[name] == "timed"
        assert len(found[name].durations) == 3
        assert found[name].peak_memory == len(name)
    assert found["torch flash"].error == pytest.approx(1e-5, rel=0.1)


def test_a_builtin_that_raises_is_unsupported_and_ours_has_failed():
    found = results(torch_flash=RuntimeError("no kernel\nat all"), ours_tiled=RuntimeError("a bug"))
    assert (found["torch flash"].status, found["torch flash"].reason) == ("unsupported", "no kernel")
    assert (found["ours tiled"].status, found["ours tiled"].reason) == ("failed", "RuntimeError: a bug")


def test_whoever_finds_too_little_memory_is_left_out_and_nobody_is_wrong():
    full = torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 16 GiB")
    found = results(ours_naive=full, torch_math=full, torch_flash=4.0)
    for name in ("ours naive", "torch math"):
        assert (found[name].status, found[name].reason) == ("left out", "CUDA out of memory.")
    assert found["torch flash"].status == "timed"


def test_inputs_and_graphs_make_room_before_memory_is_weighed(monkeypatch):
    lineups = []
    original = race.line_up
    monkeypatch.setattr(race, "line_up", lambda *args: lineups.append(original(*args)) or lineups[0])
    held = []
    monkeypatch.setattr(memory, "peak", lambda *args: held.append(len(lineups[0].ready)) or 0)
    results(torch_flash=4.0)
    assert held == [0, 0]


def test_ours_may_have_three_times_the_error_of_pytorchs_own_and_a_rounding():
    """All are within what float32 is allowed at most."""
    found = results(ours_tiled=4.00006, ours_naive=4.0002, torch_flash=4.00002, torch_math=4.00001)
    assert found["ours tiled"].status == "timed"
    assert found["ours naive"].status == "wrong"
    assert found["ours naive"].reason.endswith("PyTorch's is 2.0e-05, and ours may be 6.0e-05")
    assert results(ours_naive=4.0002)["ours naive"].status == "timed"


def test_torch_gives_its_reasons_as_warnings():
    def refuse():
        warnings.warn("not for dropout (Triggered internally at sdp.cpp:1)", stacklevel=1)
        raise RuntimeError("no kernel")

    prepared = race.Prepared(refuse)
    with pytest.raises(race.Unsupported, match=r"^not for dropout no kernel$"):
        race._first_call(race.Rival("torch flash", False), prepared)


def test_nan_is_wrong():
    assert results(ours_tiled=float("nan"))["ours tiled"].status == "wrong"


def test_memory_that_could_not_be_measured_costs_nobody_the_race():
    found = results(torch_heavy=4.0)
    assert (found["torch heavy"].status, found["torch heavy"].peak_memory) == ("timed", None)


def test_only_a_race_with_compiled_rivals_forgets_compiled_code(monkeypatch):
    resets = []
    monkeypatch.setattr(race.torch.compiler, "reset", lambda: resets.append(1))
    compiling = race.Rival("torch slow", False, compiles=True)
    monkeypatch.setattr(Sums, "rivals", lambda self, device: [race.Rival("ours", True), compiling])
    case: Case = Sums(1, 1, 1, 1)
    race.line_up(case, "cpu", {"torch slow": "takes long"})
    assert not resets
    race.line_up(case, "cpu")
    assert resets == [1]
