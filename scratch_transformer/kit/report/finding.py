"""One component's result as plain data, which goes from the child process to the report."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from scratch_transformer.kit.report.record import Named, Record
from scratch_transformer.kit.report.words import error, explanation

BAD = ("mistake",)
UNDEFINED = "could not be defined"
"""Of a class that is written there, which Python refuses."""
FAILED = "not judged"
"""By a fault of the kit's own."""
NOT_COMPARED = ("not written yet", "crashed", "could not be built", "took too long", UNDEFINED, FAILED)
HARMLESS = "harmless deviation"
IN_IT = ", judged in it"
"""Said of what is a piece of something that is judged."""
FINE = ("matches the builtin", "matches the paper, not the builtin", HARMLESS)


@dataclass
class Result(Record):
    """What was found out about one class or function, which says itself in words."""

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

    unheard: whether an adapter failed, so that what it was given for has not been checked, or the check did.
    """

    target: str
    results: list[Result] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unheard: bool = False

    def tidy(self) -> None:
        """Says everything once, and of nothing that it is judged in what was not judged after all."""
        judged = {part for result in self.results for part in result.name.split(".")}
        wholes = [re.search(rf"a piece of (\w+){IN_IT}", said) for said in self.ignored]
        ignored = [
            said if whole is None or whole[1] in judged else said.replace(IN_IT, "")
            for said, whole in zip(self.ignored, wholes, strict=True)
        ]
        self.problems, self.ignored = list(dict.fromkeys(self.problems)), list(dict.fromkeys(ignored))

    def status(self, strict: bool = False) -> int:
        """0: no mistakes. 1: mistakes; if strict, anything that is not as PyTorch's. 2: nothing could be checked.

        Nothing: not one component, or not the one that an adapter was given for. Nor, if the check itself fails, one
        that would have been judged.
        """
        if any(result.verdict in BAD for result in self.results):
            return 1
        if self.unheard or any(result.verdict == FAILED for result in self.results):
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
