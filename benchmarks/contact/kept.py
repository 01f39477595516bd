"""A plugin for pytest: a line for each test as it ends, and none that has passed is run again.

python -m pytest -p benchmarks.contact.kept reference_tests/attention/gpu
"""

import pytest

from benchmarks.contact import lines


def pytest_configure(config):
    """What has passed before now: workers are told, for all must run the same tests, also one that begins later.

    A worker of pytest-xdist is known by its config: the environment is handed on to what a worker starts.
    """
    passed = {line["name"] for line in lines.read("test") if line["outcome"] != "failed"}
    is_worker = hasattr(config, "workerinput")
    config.passed_before = config.workerinput["passed_before"] if is_worker else sorted(passed)
    if not is_worker:
        config.pluginmanager.register(Writer())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Before a worker of pytest-xdist begins."""
    node.workerinput["passed_before"] = node.config.passed_before


def pytest_collection_modifyitems(config, items):
    """Leave out what has passed."""
    before = set(config.passed_before)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in before])
    items[:] = [item for item in items if item.nodeid not in before]


class Writer:
    """Of the process that hears of all tests."""

    def pytest_runtest_logreport(self, report):
        """Write the line."""
        if report.when in ("setup", "teardown") and report.passed:
            return
        if report.when != "teardown" or report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            told = "" if not report.failed else lines.shortened(crash.message if crash else report.longreprtext)
            lines.note("test", name=report.nodeid, outcome=report.outcome, told=told)


def pytest_sessionfinish(session, exitstatus):
    """That everything has passed before is no failure."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.passed_before:
        session.exitstatus = pytest.ExitCode.OK
