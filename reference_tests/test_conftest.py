"""The tests' own ground: options, seeds that no order changes, torch's switches, benchmark timers."""

import json
import shutil
from pathlib import Path

import pytest
import torch

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).parents[1] / "conftest.py"

A_GPU = """
on_cuda = lambda config: True
device_name = lambda config: 'a GPU'
ticks = []

def synchronised_time():
    import time
    ticks.append(1)
    return time.perf_counter()

timer_of = lambda device: synchronised_time
"""

DRAWS = """
import random, numpy, pytest, torch

def numbers():
    return f"{random.random()} {numpy.random.rand()} {torch.rand(()).item()}"

@pytest.fixture
def drawn():
    return numbers()

@pytest.mark.parametrize("name", ["one", "two"])
def test_draw(drawn, name):
    print(f"{name}: {drawn} {numbers()}")
"""


@pytest.fixture
def project(pytester):
    """A project of its own with this project's conftest.py."""
    shutil.copy(CONFTEST, pytester.path)
    pytester.makeini("[pytest]\nmarkers =\n cuda: needs a CUDA device\n long: takes many seconds")
    return pytester


def draws(result):
    """What DRAWS printed: {"one": "0.17 0.98 ...", ...}."""
    lines = [line.lstrip(".").split(": ") for line in result.outlines if ": 0." in line]
    result.assert_outcomes(passed=len(lines))
    return dict(lines)


# ---- Seeds ----


def test_a_test_draws_the_same_numbers_alone_and_among_others(project):
    project.makepyfile(test_draws=DRAWS)
    together = draws(project.runpytest_inprocess("-s", "-q"))
    alone = draws(project.runpytest_inprocess("-s", "-q", "-k", "two"))
    assert len(together) == 2
    assert alone == {"two": together["two"]}


def test_no_two_tests_fixtures_or_generators_draw_the_same_numbers(project):
    project.makepyfile(test_draws=DRAWS)
    numbers = " ".join(draws(project.runpytest_inprocess("-s", "-q")).values()).split()
    assert len(numbers) == len(set(numbers)) == 2 * 2 * 3


# ---- Options ----

LONG = """
import pytest

def test_short():
    pass

@pytest.mark.parametrize("case", ["first", "second"])
@pytest.mark.long
def test_of_cases(case):
    assert case == "first"

@pytest.mark.parametrize("case", ["first", pytest.param("second", marks=pytest.mark.long)])
def test_of_marked_cases(case):
    assert case == "first"

@pytest.mark.long
def test_long():
    assert False
"""


def test_long_tests_are_left_out_but_for_first_cases_and_it_is_said(project):
    project.makepyfile(test_some=LONG)
    project.runpytest_inprocess().assert_outcomes(passed=3, failed=3)
    result = project.runpytest_inprocess("--without-long")
    result.assert_outcomes(passed=3, deselected=3)
    result.stdout.fnmatch_lines(["*without long tests*"])


def test_of_a_long_file_the_first_test_stays_that_is_not_marked_itself(project):
    project.makepyfile(
        test_some="""
        import pytest
        pytestmark = pytest.mark.long
        @pytest.mark.parametrize("case", [1, 2])
        @pytest.mark.long
        def test_even_longer(case): assert False
        @pytest.mark.parametrize("case", [1, 2])
        def test_first(case): assert case == 1
        def test_second(): assert False
        @pytest.mark.long
        def test_third(): assert False
        """
    )
    project.runpytest_inprocess().assert_outcomes(passed=1, failed=5)
    project.runpytest_inprocess("--without-long").assert_outcomes(passed=1, deselected=5)


def test_device_and_dtype_reach_the_test(project):
    project.makepyfile(
        """
        import torch
        def test_given(device, dtype): assert (device, dtype) == (torch.device("cpu"), torch.bfloat16)
        """
    )
    project.runpytest_inprocess("--dtype", "bfloat16").assert_outcomes(passed=1)


def test_the_default_is_float64_on_the_cpu(project):
    project.makepyfile(
        """
        import torch
        def test_default(device, dtype): assert (device, dtype) == (torch.device("cpu"), torch.float64)
        """
    )
    result = project.runpytest_inprocess()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"torch {torch.__version__}, device cpu, dtype float64, * thread(s)"])


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_a_device_that_is_not_there_is_a_usage_error(project, device):
    result = project.runpytest_inprocess("--device", device)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --device {device} --dtype float64: *"])


# ---- CUDA ----


def test_cuda_tests_run_with_cuda_and_say_so_without(project):
    project.makepyfile("import pytest\n@pytest.mark.cuda\ndef test_gpu(): assert True")
    result = project.runpytest_inprocess("-rs")
    if torch.cuda.is_available():
        result.assert_outcomes(passed=1)
    else:
        result.assert_outcomes(skipped=1)
        result.stdout.fnmatch_lines(["*needs a CUDA device, and torch sees none"])


@pytest.mark.parametrize(("is_there", "outcome"), [(False, {"failed": 1}), (True, {"passed": 1, "warnings": 1})])
def test_where_a_gpu_is_what_other_versions_warn_of_ends_no_test(project, monkeypatch, is_there, outcome):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda number: None)
    project.makeini("[pytest]\nmarkers = cuda: needs a CUDA device\nfilterwarnings = error")
    project.makepyfile("import warnings\ndef test_it(): warnings.warn('deprecated')")
    project.runpytest_inprocess().assert_outcomes(**outcome)


def test_benchmarks_on_cuda_get_the_synchronising_timer_beside_their_own_marks(project, monkeypatch):
    pytest.importorskip("pytest_benchmark", reason="benchmarks need pytest-benchmark")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # its presence disables benchmarks
    with (project.path / "conftest.py").open("a") as conftest:  # no GPU is needed to see which timer is called
        conftest.write(A_GPU)
    project.makepyfile(
        """
        import pytest

        def conftest(request):
            return request.config.pluginmanager.get_plugin(str(request.config.rootpath / "conftest.py"))

        @pytest.mark.benchmark(group="named")
        def test_marked(benchmark, request):
            benchmark.pedantic(abs, (1,), rounds=3)
            assert benchmark.group == "named" and len(conftest(request).ticks) >= 6

        def test_unmarked(benchmark, request):
            conftest(request).ticks.clear()
            benchmark.pedantic(abs, (1,), rounds=3)
            assert len(conftest(request).ticks) >= 6
        """
    )
    file = project.path / "rows.json"
    project.runpytest_inprocess("--benchmark-enable", f"--benchmark-json={file}").assert_outcomes(passed=2)
    rows = json.loads(file.read_text())["benchmarks"]
    assert [row["options"]["timer"] for row in rows] == ["synchronised_time"] * 2


# ---- Torch's switches ----


def test_every_test_starts_with_the_exact_slow_paths(project):
    project.makepyfile(
        """
        import torch, pytest

        @pytest.mark.parametrize("run", [1, 2])
        def test_switches(run):
            assert not torch.backends.mha.get_fastpath_enabled()
            assert not torch.backends.cuda.matmul.allow_tf32
            assert not torch.backends.cudnn.allow_tf32
            torch.backends.mha.set_fastpath_enabled(True)
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        """
    )
    try:
        project.runpytest_inprocess().assert_outcomes(passed=2)
    finally:
        torch.backends.mha.set_fastpath_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def test_only_the_test_that_leaves_torch_switched_is_an_error(project):
    project.makepyfile(
        """
        import torch

        def test_without_gradients():
            torch.set_grad_enabled(False)

        def test_double():
            torch.set_default_dtype(torch.float64)

        def test_the_next():
            assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
        """
    )
    result = project.runpytest_inprocess()
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(["*leaves torch with {'gradients': False*"])
