"""The kit's tests compute as the kit does, in one thread, and with more time where they need it."""

import contextlib
import os
import shutil

import pytest
import torch

from reference_tests.kit.learners.checked import LESS, USUAL, time_to_look
from scratch_transformer.kit import clock


@pytest.fixture(scope="session", autouse=True)
def by_the_processors_speed():
    """As each check does: on a slow processor, what does not end is stopped later."""
    clock.adjust()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """The system's timers count what all threads compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A verdict is asserted, not how soon it is found: each test is run with little time to look, as most need no more.

    Nothing explains what is looked for in vain, and it would be looked for until time is up: `tox -e kit` does that. A
    test that fails is run again with the usual time. What is wrong is wrong then too.
    """
    is_brief = "WHOLE_TIME" not in os.environ and "monkeypatch" not in item.funcargs  # which may not be patched twice
    failures = Exception if is_brief else ()  # what is not found yet is not there to be asked for
    with contextlib.suppress(failures), time_to_look(LESS if is_brief else 1):
        return (yield)
    return _again(item)


def _again(item):
    """In a folder as empty as at first."""
    for path in item.funcargs["tmp_path"].iterdir() if "tmp_path" in item.funcargs else ():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with time_to_look(1):
        item.runtest()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    """What a test sets for itself is undone to what it had then: to little time."""
    yield
    for module, seconds in USUAL.items():
        vars(module).update(seconds)
