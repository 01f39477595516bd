"""Options of the benchmarks, and what all of them share."""

import pytest

from benchmarks import turns
from scratch_transformer.benchmarking import grid, measurement
from scratch_transformer.benchmarking.machine import limits


def pytest_addoption(parser):
    group = parser.getgroup("scratch_transformer")
    group.addoption(
        "--grid",
        choices=["tiny", "quick", "full"],
        help="which cases: all, a selection (the default), or a few tiny ones (the default where nothing is timed)",
    )
    group.addoption("--keep", metavar="FOLDER", help="keep what is measured of the application there, dated")


def pytest_generate_tests(metafunc):
    if {"case", "rival"} <= set(metafunc.fixturenames):
        pairs = turns.pairs(metafunc.config, metafunc.module.SUBJECT)
        metafunc.parametrize(("case", "rival"), pairs, ids=[f"{case.name}-{rival.name}" for case, rival in pairs])


@pytest.fixture(scope="session")
def machine(pytestconfig):
    """The limits of this machine; without timing, nobody needs to know them."""
    if not turns.is_timed(pytestconfig):
        return None
    device, extent = pytestconfig.getoption("--device"), turns.extent(pytestconfig)
    cases = [case for subject in grid.SUBJECTS for case in grid.cases(subject, extent, device)]
    return limits(device, sorted({case.dtype for case in cases}))


@pytest.fixture(scope="session")
def application(pytestconfig):
    """What is measured of the application."""
    yield from _kept("the application", pytestconfig)


@pytest.fixture(scope="session")
def language_models(pytestconfig):
    """What is measured of language models."""
    yield from _kept("language models", pytestconfig)


def _kept(subject, pytestconfig):
    """Values to be kept beside what was measured on the same day: some at a time (-k)."""
    keep, device = pytestconfig.getoption("--keep"), pytestconfig.getoption("--device")
    with measurement.kept(subject, keep, device, by_parts=True) as values:
        yield values
