"""One component's result as plain data, which goes from the child process to the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from scratch_transformer.kit.report.words import error, explanation

BAD = ("mistake",)
NOT_COMPARED = ("not written yet", "crashed", "could not be built", "took too long")
FINE = ("matches the builtin", "matches the paper, not the builtin", "harmless deviation")


@dataclass
class Named:
    """A mistake of the catalogue, found: its texts, the numbers that show it, and the learner's own lines.

    code: lines of the file from line `first` on; `line` is the one to look at, and `put` what should stand there.
    """

    id: str
    title: str
    severity: str
    does: str
    expected: str
    evidence: str
    fix: str
    source: str
    form: str = ""
    where: str = ""
    code: list[str] = field(default_factory=list)
    first: int = 0
    line: int = 0
    put: list[str] = field(default_factory=list)


@dataclass
class Result:
    """What was found out about one class or function.

    where: file and line. error: the worst relative error against `against`; None if nothing could be compared.
    ordinary: the error on ordinary inputs, where `error` is on inputs made to show mistakes; None if it is the same.
    inherited: ids of mistakes that are in a part of it, which is reported by itself. stub: of an adapter to fill in.
    unexplained: mistakes are named, but its numbers differ for another reason too. limits: what was not checked.
    replaced: its parts that could not be used, so that what is said is true but for them.
    """

    name: str
    where: str
    kind: str = ""
    verdict: str = "unknown mismatch"
    error: float | None = None
    against: str = ""
    what: str = ""
    design: str = ""
    mistakes: list[Named] = field(default_factory=list)
    inherited: list[str] = field(default_factory=list)
    alternatives: list[list[str]] = field(default_factory=list)
    divergence: str = ""
    probe: str = ""
    problem: str = ""
    notes: list[str] = field(default_factory=list)
    stub: str = ""
    limits: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    ordinary: float | None = None
    unexplained: bool = False

    @property
    def ids(self) -> list[str]:
        return [named.id for named in self.mistakes if named.severity != "note"]

    def __str__(self) -> str:
        """The diagnosis in words."""
        head = f"{self.name} ({self.kind}): {self.verdict}"
        if self.error is not None and self.error < float("inf"):
            head += f", relative error {error(self.error)} against {self.against}"
        return "\n".join([head, *explanation(self)])

    def document(self) -> dict[str, Any]:
        """For JSON: no infinities."""
        found = asdict(self)
        for name in ("error", "ordinary"):
            if found[name] is not None and not abs(found[name]) < float("inf"):
                found[name] = None
        return found


def from_document(found: dict[str, Any]) -> Result:
    """The inverse of `Result.document`."""
    return Result(**{**found, "mistakes": [Named(**named) for named in found["mistakes"]]})


@dataclass
class Report:
    """All results for a target. problems: of whole files, sentences. ignored: names that are no known component.

    unheard: whether an adapter failed, so that what it was given for has not been checked.
    """

    target: str
    results: list[Result] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unheard: bool = False

    def status(self, strict: bool = False) -> int:
        """0: no mistakes. 1: mistakes; if strict, anything that is not as PyTorch's. 2: nothing could be checked.

        Nothing: not one component, or not the one that an adapter was given for.
        """
        if any(result.verdict in BAD for result in self.results):
            return 1
        if self.unheard:
            return 2
        compared = [result for result in self.results if result.verdict not in NOT_COMPARED]
        if strict and self.results:
            return int(any(result.verdict != FINE[0] for result in self.results))
        return 0 if compared else 2

    def document(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "components": [result.document() for result in self.results],
            "problems": self.problems,
            "not_components": self.ignored,
        }
