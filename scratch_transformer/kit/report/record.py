"""What was found out about one component, as plain data; in words it is said in words.py."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Named:
    """A mistake of the catalogue, found: its texts, the numbers that show it, and the learner's own lines.

    code: lines of the file from line `first` on; `line` is the one to look at, and `put` what should stand there, and
    in the place of those behind it, if `gone` are more than one.
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
    gone: int = 1

    @property
    def shown(self) -> str:
        """The line to look at, as it is written."""
        return self.code[self.line - self.first]


@dataclass
class Record:
    """What was found out about one class or function.

    where: file and line. error: the worst relative error against `against`; None if nothing could be compared.
    ordinary: the error on ordinary inputs, where `error` is on inputs made to show mistakes; None if it is the same.
    inherited: ids of mistakes that are in a part of it, which is reported by itself; unreported: parts that
    are not, as their file was not given. stub: of an adapter to fill in.
    unexplained: mistakes are named, but its numbers differ for another reason too. limits: what was not checked.
    replaced: its parts that could not be used, so that what is said is true but for them. besides: a network that a
    model has besides its layers, without which it was compared.
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
    unreported: list[str] = field(default_factory=list)
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
    besides: str = ""

    @property
    def severe(self) -> list[str]:
        """The ids of what is plainly wrong."""
        return [named.id for named in self.mistakes if named.severity == "mistake"]
