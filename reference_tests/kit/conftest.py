"""The kit's tests compute as the kit does, in one thread, and with more time where a machine is slow."""

import pytest
import torch

from reference_tests.kit.learners.checked import MORE, time_to_look

SLOW = ("note", "passed with more than the usual time: the machine is busy")
"""The last lines of a run list what has it."""


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """The kit's limits of time count what all threads compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test that fails is run again with more time, once, and says so: a shared machine may be several times slower.

    A verdict is asserted, not how soon it is found. What is wrong is wrong then too.
    """
    try:
        return (yield)
    except AssertionError:
        with time_to_look(MORE):
            item.runtest()
        item.user_properties.append(SLOW)
