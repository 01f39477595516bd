"""Which cases are run."""

import pytest

from scratch_transformer.benchmarking import grid, run
from scratch_transformer.benchmarking.machine import Limits


def attention(extent, device):
    return grid.cases("attention", extent, device)


def test_the_processors_grid_is_whole():
    found = attention("full", "cpu")
    shapes = {(case.B, case.H, case.T, case.D) for case in found}
    assert shapes == set(grid.FULL_CPU)
    assert len(found) == len(set(found)) == 6 * 3 * 2 * 2
    assert {case.dtype for case in found} == {"bfloat16", "float32", "float16"}
    assert {case.direction for case in found} == {"forward", "both"}


def test_a_gpu_gets_as_many_positions_whatever_the_length():
    found = attention("full", "cuda")
    assert {(case.B * case.T, case.H * case.D) for case in found} == {(16384, 2048)}
    assert {case.T for case in found} == {512, 1024, 2048, 4096, 8192, 16384}
    assert {case.D for case in found} == {64, 128}
    assert {case.direction for case in found} == {"forward", "backward"}


def test_a_quick_run_on_a_gpu_has_time_to_compile():
    assert grid.enough("quick", "cpu") == 160
    assert 400 < grid.enough("quick", "cuda:0") < 500


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("subject", ["attention", "variants"])
def test_quick_is_a_part_of_full(subject, device):
    assert set(grid.cases(subject, "quick", device)) < set(grid.cases(subject, "full", device))


def test_tiny_cases_go_in_every_direction_and_are_tiny():
    found = [case for subject in grid.SUBJECTS for case in grid.cases(subject, "tiny", "cpu")]
    assert {case.facts["direction"] for case in found} == {
        "forward",
        "backward",
        "both",
        "evaluation",
        "training",
        "step",
    }
    assert max(case.flops for case in found) < 1e7


def test_variants_have_everything_that_is_not_plain():
    found = grid.cases("variants", "quick", "cpu")
    assert {case.variant for case in found} == {"none", "dropout", "mask", "padding", "window"}
    assert {case.groups for case in found} == {8, 2}
    assert {case.T for case in found} == {1, 1024}


def test_an_unknown_subject_is_refused():
    with pytest.raises(ValueError, match="subject must be one of attention, .*, got 'speed'"):
        grid.cases("speed", "quick", "cpu")


def test_only_a_full_run_waits_for_compilers():
    case = attention("quick", "cpu")[0]
    assert set(run.left_out(case, "cpu", "quick")) == {"torch flex"}
    assert run.left_out(case, "cpu", "full") == {}


def test_who_would_take_too_long_is_left_out_with_the_reason():
    case = attention("full", "cpu")[4]
    slow, fast = (Limits({case.dtype: case.flops / seconds}, 1.0) for seconds in (77, 0.1))
    assert run.left_out(case, "cpu", "full", fast) == {}
    (reason,) = run.left_out(case, "cpu", "full", slow).items()
    assert reason == ("torch math", "products in bfloat16 are so slow here that it would take 77 s or longer")
