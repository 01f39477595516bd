"""The proof as a list of tasks: planned, done one by one, and never stopped by what goes wrong in one of them."""

import itertools
import pickle

import pytest

from reference_tests.conformance import wrong
from scratch_transformer.conformance import COMPONENTS
from scratch_transformer.conformance import verify as module
from scratch_transformer.conformance.verify import DTYPES, Check, Task, check, plan, verify


@pytest.fixture
def in_place_of_ours(monkeypatch):
    """Puts another implementation into the table."""
    return lambda name, ours: monkeypatch.setitem(COMPONENTS, name, wrong.component(name, ours))


def index(name, description):
    return COMPONENTS[name].cases.index(wrong.case(name, description))


# ---- The plan ----


def test_the_whole_plan_has_everything_once():
    tasks = plan()
    assert len(set(tasks)) == len(tasks)
    expected = sum(5 * len(c.cases) + len(c.errors) + len(c.invariants) for c in COMPONENTS.values())
    assert len(tasks) == expected
    assert list(dict.fromkeys(task.component for task in tasks)) == list(COMPONENTS)


def test_a_plan_in_one_low_precision():
    kinds = {(task.kind, task.dtype) for task in plan(["Linear"], ["bfloat16"])}
    assert kinds == {("precision", "bfloat16"), ("error", "float32")}


def test_a_plan_in_float64_only():
    kinds = {(task.kind, task.dtype) for task in plan(["Linear"], ["float64"])}
    assert kinds == {("definition", "float64"), ("oracle", "float64"), ("error", "float32"), ("invariant", "float64")}


def test_a_plan_is_in_the_order_of_the_table():
    assert plan(["GELU", "Linear"], ["float16", "float64"]) == plan(["Linear", "GELU"], ["float64", "float16"])


@pytest.mark.parametrize("arguments", [(["Linaer"],), (["Linear"], ["float8"])], ids=str)
def test_unknown_names_are_refused(arguments):
    with pytest.raises(ValueError, match="must be among"):
        plan(*arguments)


def test_tasks_for_another_device_check_errors_on_the_cpu():
    devices = {(task.kind, task.device) for task in plan(["Linear"], device="cuda")}
    assert ("error", "cpu") in devices
    assert ("definition", "cuda") in devices


# ---- One task ----


@pytest.mark.parametrize("kind, dtype", [("definition", "float64"), ("oracle", "float64"), ("precision", "float16")])
def test_a_case_that_passes(kind, dtype):
    result = check(Task("LayerNorm", kind, 0, dtype))
    assert (result.status, result.note) == ("passed", "")
    assert result.description == COMPONENTS["LayerNorm"].cases[0].description
    assert (result.precision if kind == "precision" else result.equality).passed


def test_an_error_case_and_an_invariant_that_pass():
    assert check(Task("LayerNorm", "error", 0, "float32")).status == "passed"
    result = check(Task("LayerNorm", "invariant", 0))
    assert result.status == "passed"
    assert result.violation < 1e-11


@pytest.mark.parametrize(
    "name, mistake, description, kind, dtype, note",
    [
        ("Linear", wrong.ForgetsTheBias, "with bias", "definition", "float64", "allowed is 1e-12"),
        ("Linear", wrong.ForgetsTheBias, "with bias", "oracle", "float64", "allowed is 1e-10"),
        ("ReLU", wrong.InTheWrongDtype, "a batch", "precision", "float16", "inf × the builtin's own error"),
        ("BatchNorm1d", wrong.NeverUpdates, "training", "definition", "float64", "AssertionError: ours produced"),
    ],
)
def test_a_case_that_fails(in_place_of_ours, name, mistake, description, kind, dtype, note):
    in_place_of_ours(name, mistake)
    result = check(Task(name, kind, index(name, description), dtype))
    assert result.status == "failed"
    assert note in result.note


def test_an_error_case_that_fails(in_place_of_ours):
    in_place_of_ours("Linear", wrong.AcceptsEverything)
    result = check(Task("Linear", "error", 0, "float32"))
    assert result.status == "failed"
    assert result.note == "ours must raise RuntimeError, but nothing is raised"


def test_an_invariant_that_fails(in_place_of_ours):
    in_place_of_ours("Linear", wrong.ForgetsTheBias)
    names = [invariant.name for invariant in COMPONENTS["Linear"].invariants]
    result = check(Task("Linear", "invariant", names.index("bias is the value at zero")))
    assert result.status == "failed"
    assert result.note.startswith("violated by ")


def test_a_crash_is_a_failure_of_this_task(in_place_of_ours):
    in_place_of_ours("Linear", wrong.crashing(ZeroDivisionError("no\nsuch luck")))
    for kind in ("definition", "oracle", "precision", "invariant"):
        result = check(Task("Linear", kind, 0, "float32" if kind == "precision" else "float64"))
        assert (result.status, result.note) == ("failed", "ZeroDivisionError: no")


def test_what_ours_does_not_implement_is_a_failure_and_not_a_gap(in_place_of_ours):
    in_place_of_ours("Linear", wrong.crashing(NotImplementedError("later")))
    assert check(Task("Linear", "definition", 0)).status == "failed"


def test_what_the_oracle_cannot_do_is_skipped_with_its_reason():
    result = check(Task("Embedding", "oracle", index("Embedding", "max_norm")))
    assert result.status == "skipped"
    assert "max_norm=1.5" in result.note


def test_what_the_builtin_cannot_do_is_skipped_with_its_reason(monkeypatch):
    def unsupported(*args, **kwargs):
        raise module.BuiltinUnsupported("builtin unsupported in torch.float16 on cpu: no kernel")

    monkeypatch.setattr(module, "compare_precision", unsupported)
    result = check(Task("Linear", "precision", 0, "float16"))
    assert (result.status, result.note) == ("skipped", "builtin unsupported in torch.float16 on cpu: no kernel")


def test_notes_are_the_same_in_every_run():
    """An address in memory is not."""
    results = [check(Task("Transformer", "oracle", index("Transformer", "a callable activation"))) for _ in range(2)]
    assert results[0] == results[1]
    assert "0x" not in results[0].note


@pytest.mark.parametrize("kind, dtype", [("definition", "float64"), ("oracle", "float64"), ("precision", "float32")])
@pytest.mark.parametrize("name, description", [("Dropout", "training"), ("scaled_dot_product_attention", "dropout")])
def test_dropout_is_not_compared_on_other_devices(kind, dtype, name, description):
    result = check(Task(name, kind, index(name, description), dtype, device="meta"))
    assert result.status == "skipped"
    assert result.note == "dropout: the random numbers differ on this device by design"


# ---- All tasks ----


def test_results_come_in_the_order_of_the_tasks():
    tasks = plan(["Linear"], ["float64"])
    results = list(verify(tasks))
    assert [result.task for result in results] == tasks
    assert {result.status for result in results} == {"passed"}


def test_results_come_one_by_one():
    results = verify(plan())
    assert all(isinstance(result, Check) for result in itertools.islice(results, 3))


def test_worker_processes_find_the_same(monkeypatch):
    tasks = plan(["ReLU"], ["float64", "float16"])
    alone = list(verify(tasks, workers=1))
    monkeypatch.setattr(module, "FEW_TASKS", 0)
    assert list(verify(tasks, workers=2)) == alone


def test_few_tasks_start_no_processes(monkeypatch):
    def never(*args):
        raise AssertionError

    monkeypatch.setattr(module, "_in_processes", never)
    assert list(verify(plan(["ReLU"], ["float16"]), workers=2))


@pytest.mark.parametrize(
    "error", [OSError("no semaphores"), ImportError("no _multiprocessing"), module.BrokenProcessPool()]
)
def test_without_worker_processes_one_goes_on_where_they_stopped(error, monkeypatch):
    def die_after_two(tasks, workers):
        yield from map(check, tasks[:2])
        raise error

    monkeypatch.setattr(module, "FEW_TASKS", 0)
    monkeypatch.setattr(module, "_in_processes", die_after_two)
    tasks = plan(["ReLU"], ["float16"])
    with pytest.warns(RuntimeWarning, match="going on with one process"):
        results = list(verify(tasks, workers=2))
    assert [result.task for result in results] == tasks


def test_tasks_and_results_can_travel():
    for task in plan(["Linear"], DTYPES)[::7]:
        assert pickle.loads(pickle.dumps(task)) == task
        assert pickle.loads(pickle.dumps(check(task))) == check(task)
