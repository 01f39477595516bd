"""The kit's tests compute as the kit does, in one thread, and with more time where they need it."""

import contextlib
import os
import shutil

import pytest
import torch

from reference_tests.kit.learners.checked import LESS, MORE, MOST, USUAL, time_to_look
from scratch_transformer.kit import clock

SLOW = ("note", "passed with more than the usual time: the machine is busy")
"""The last lines of a run list what has it."""


@pytest.fixture(scope="session", autouse=True)
def by_the_processors_speed():
    """As each check does: on a slow processor, everything is looked for as much longer."""
    clock.adjust()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """The kit's limits of time count what all threads compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A verdict is asserted, not how soon it is found: each test is run with little time to look, as most need no more.

    Nothing explains what is looked for in vain, and it would be looked for until time is up: `tox -e kit` does that. A
    test that fails is run again with the usual time, and with several times that, which it says: a shared machine may
    be as slow. What is wrong is wrong then too.
    """
    is_brief = "WHOLE_TIME" not in os.environ and "monkeypatch" not in item.funcargs  # which may not be patched twice
    failures = Exception if is_brief else AssertionError  # what is not found yet is not there to be asked for
    with contextlib.suppress(failures), time_to_look(LESS if is_brief else 1):
        return (yield)
    for times in (1, MORE, MOST) if is_brief else (MORE, MOST):
        with contextlib.suppress(AssertionError) if times < MOST else contextlib.nullcontext():
            return _again(item, times)


def _again(item, times):
    """In a folder as empty as at first."""
    for path in item.funcargs["tmp_path"].iterdir() if "tmp_path" in item.funcargs else ():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with time_to_look(1, times):
        item.runtest()
    item.user_properties.extend([SLOW] if times > 1 else [])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    """What a test sets for itself is undone to what it had then: to little time."""
    yield
    for module, seconds in USUAL.items():
        vars(module).update(seconds)
