"""How every test and benchmark starts: options --device and --dtype, its own seed, torch's exact slow paths."""

import contextlib
import gc
import os
import random
import zlib

import numpy
import pytest
import torch

from scratch_transformer.benchmarking.timing import timer_of

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

with contextlib.suppress(ModuleNotFoundError):  # the kernels' tests do without: a GPU's machine may lack it
    from hypothesis import settings

    # Seconds per example say nothing on a shared machine. On CI the examples are the same in every run.
    settings.register_profile("local", deadline=None, max_examples=30, print_blob=True)
    settings.register_profile("ci", settings.get_profile("local"), derandomize=True, database=None)
    settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_addoption(parser):
    group = parser.getgroup("scratch_transformer")
    group.addoption("--device", default="cpu", help="where the tests' tensors are: cpu (default), cuda, cuda:1, ...")
    group.addoption("--dtype", default="float64", choices=DTYPES, help="the tests' floating-point type")
    group.addoption("--without-long", action="store_true", help="leave out what is marked as long, but for first cases")


def pytest_configure(config):
    if torch.cuda.is_available():  # a GPU's machine has its own torch and Triton, and their warnings end no test
        config.addinivalue_line("filterwarnings", "default")
    device, dtype = config.getoption("--device"), DTYPES[config.getoption("--dtype")]
    try:
        torch.zeros(1, device=device, dtype=dtype)
    except (RuntimeError, AssertionError, TypeError) as error:  # torch has one of its own for each reason
        reason = str(error).splitlines()[0]
        raise pytest.UsageError(f"--device {device} --dtype {config.getoption('--dtype')}: {reason}") from error


def pytest_report_header(config):
    return (
        f"torch {torch.__version__}, device {device_name(config)}, dtype {config.getoption('--dtype')}, "
        f"{torch.get_num_threads()} thread(s)" + (", without long tests" if config.getoption("--without-long") else "")
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("--without-long"):
        leave_long(config, items)
    for item in items:
        if item.get_closest_marker("cuda") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and torch sees none"))
        if on_cuda(config) and "benchmark" in getattr(item, "fixturenames", ()):
            use_synchronising_timer(item, timer_of(config.getoption("--device")))


def leave_long(config, items):
    """Leaves out what is marked as long; of a test with several cases the first stays, of a file its first test.

    What is marked twice, itself and with its file, is left out with all its cases: the first of the others stays.
    """
    begun, kept, left = set(), [], []
    for item in items:
        marked = {node.nodeid for node, _ in item.iter_markers_with_node("long")}
        test = item.nodeid.partition("[")[0]
        whole = test if item.nodeid in marked else next(iter(marked), None)  # what the mark is said of
        is_left = bool(marked) and (len(marked) > 1 or whole == item.nodeid or whole in begun)
        (left if is_left else kept).append(item)
        begun |= {whole, test}
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def pytest_collection_finish():
    """What is there before the first test stays: to look through it for what can go takes half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Torch's global switches as the tests need them, also after a test that changed them and failed."""
    torch.backends.mha.set_fastpath_enabled(False)  # it differs from the slow path at padded positions
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    seed(f"{item.nodeid} setup")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    seed(item.nodeid)  # not the fixtures' seed: a test must not draw their numbers again


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """A test that leaves torch switched is an error itself, instead of all that come after it."""
    yield
    if (left := switches()) != USUAL:
        torch.set_grad_enabled(USUAL["gradients"])
        torch.set_default_dtype(USUAL["default dtype"])
        torch.set_default_device(None)
        pytest.fail(f"it leaves torch with {left}, and not {USUAL}")


def pytest_terminal_summary(terminalreporter):
    """What a test has to say although it passed."""
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "note":
                terminalreporter.write_line(f"NOTE {report.nodeid}: {text}")


def switches():
    modes = torch._C._len_torch_function_stack()  # a default device is one, "cpu" too
    return {"gradients": torch.is_grad_enabled(), "default dtype": torch.get_default_dtype(), "modes": modes}


USUAL = switches()


def seed(name):
    """Seeds every generator from `name` alone, so neither the order nor the number of workers matters.

    torch.manual_seed would note the stack of frames for every sort of device that is not there, thousands of times.
    """
    number = zlib.crc32(name.encode())
    random.seed(number)
    numpy.random.seed(number)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)


@pytest.fixture(scope="session")
def device(pytestconfig):
    return torch.device(pytestconfig.getoption("--device"))


@pytest.fixture(scope="session")
def dtype(pytestconfig):
    return DTYPES[pytestconfig.getoption("--dtype")]


# ---- Benchmarks ----


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config, machine_info):
    machine_info["torch"] = torch.__version__
    machine_info["device"] = device_name(config)
    machine_info["threads"] = torch.get_num_threads()


def use_synchronising_timer(item, timer):
    """Times what the GPU did, not how fast work was queued.

    pytest-benchmark reads the closest mark only, so the timer is merged into it and put first.
    """
    mark = item.get_closest_marker("benchmark")
    options = {**(mark.kwargs if mark else {}), "timer": timer}
    item.add_marker(pytest.mark.benchmark(**options), append=False)


def on_cuda(config):
    return torch.device(config.getoption("--device")).type == "cuda"


def device_name(config):
    name = config.getoption("--device")
    return f"{name} ({torch.cuda.get_device_name(name)})" if on_cuda(config) else name
