"""`pytest --check-transformer my_transformer`: a test for every component of a learner's code.

Pytest loads this file in every run wherever this package is installed, so it imports nothing but pytest until it is
asked to check something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from scratch_transformer.kit.report.finding import Report, Result


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--check-transformer TARGET`."""
    group = parser.getgroup("scratch-transformer")
    group.addoption(
        "--check-transformer",
        action="append",
        default=[],
        metavar="TARGET",
        help="check the components of a file, notebook, folder or module against torch.nn; repeatable",
    )


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds the tests to those that were collected: what is checked is no test file."""
    for target in config.getoption("--check-transformer"):
        report = _checked(target)
        group = Target.from_parent(session, name=target, nodeid=f"check-transformer::{target}")
        for result in report.results:
            items.append(Component.from_parent(group, name=result.name, result=result))
        if report.status() == 2 or not report.results:
            items.append(Problem.from_parent(group, name="components", report=report))


def _checked(target: str) -> Report:
    from scratch_transformer.kit import process
    from scratch_transformer.kit.discover.target import NotFound, find

    try:
        return process.check(find(target), target)
    except NotFound as error:
        raise pytest.UsageError(f"--check-transformer: {error}") from error


class Target(pytest.Collector):
    """What was named on the command line."""

    def collect(self) -> list[pytest.Item]:
        return []


class Differs(Exception):
    """A component does not compute what its builtin computes; the message is the diagnosis."""


class Component(pytest.Item):
    """One component: passes if it has no mistake."""

    def __init__(self, *, result: Result, **options: Any) -> None:
        super().__init__(**options)
        self.result = result

    def runtest(self) -> None:
        if self.result.verdict in ("mistake", "unknown mismatch", "not judged"):
            raise Differs(str(self.result))
        if self.result.problem:
            pytest.skip(f"{self.result.verdict}: {self.result.problem}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, Differs) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[str, int | None, str]:
        return self.result.where, None, f"{self.result.kind} {self.result.name}"


class Problem(pytest.Item):
    """Fails because nothing could be checked."""

    def __init__(self, *, report: Report, **options: Any) -> None:
        super().__init__(**options)
        self.report = report

    def runtest(self) -> None:
        raise Differs("\n".join([*self.report.problems, "No component could be checked."]))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[str, int | None, str]:
        return self.report.target, None, "components"
