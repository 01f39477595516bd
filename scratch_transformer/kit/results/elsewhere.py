"""What is said of a whole for its parts in other files, which were not given and have no report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scratch_transformer.kit.definitions import file_of
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.kind import Diagnosis, Finding
from scratch_transformer.kit.report.finding import FINE, Result
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.trials.match import UNUSABLE
from scratch_transformer.kit.results.inherited import what_else
from scratch_transformer.kit.results.locating import located
from scratch_transformer.kit.results.parts import of_part
from scratch_transformer.kit.results.stopped import Stopped
from scratch_transformer.kit.results.whole import Whole


class Elsewhere:
    """Parts of other files. library: what is known of the learner's code. stopped: what stops."""

    def __init__(self, library: Library, stopped: Stopped) -> None:
        self.library, self.stopped = library, stopped
        self.learned: list[type] = []
        """Parts of other files, which have no result of their own."""

    def with_parts(self, result: Result, value: Any) -> Result:
        """What is right but for a part of another file, which has no report here, is not called right.

        Unless it says that the part stops.
        """
        home = getattr(value, "__module__", "")
        others = [cls for cls in self.library.guesses if getattr(cls, "__module__", home) != home]
        lent = [cls for cls in others if getattr(cls, "__name__", "") in result.replaced]
        if result.verdict in FINE and lent:
            own = [f.mistake.id for cls in lent for f in self.severe(cls)]
            ids = sorted({*own, *(self.stopped.broken[cls] for cls in lent if cls in self.stopped.broken)})
            result.inherited += [id for id in ids if id not in result.inherited]
            is_told = all(any(UNUSABLE.format(cls.__name__) in limit for limit in result.limits) for cls in lent)
            result.verdict = "mistake" if ids else result.verdict if is_told else "unknown mismatch"
        result.unreported = self.unreported(result.inherited)
        return result

    def with_stops(self, result: Result, source: Source) -> Result:
        """With what makes parts of other files stop, which have no report here, first: it stops the whole."""
        parts = [c for c in self.learned if c in self.stopped.findings and self.stopped.goes_by(c, result.replaced)]
        found = [located(self.stopped.findings[cls], cls, source) for cls in parts]
        if found:
            result.mistakes, result.verdict = [*found, *result.mistakes], "mistake"
            result.inherited = [id for id in result.inherited if id not in {named.id for named in found}]
            result.unreported = self.unreported(result.inherited)
        return result

    def with_unsaid(self, result: Result, whole: Whole) -> Result:
        """With what is wrong in parts of other files where nothing else explains the whole."""
        unsaid = unsaid_of(whole.diagnosis, whole.parts.silent)
        if unsaid:
            result.verdict, result.unexplained = "mistake", False
            found = [located(of_part(f, self.library), whole.value, whole.source, whole.made) for f in unsaid]
            result.mistakes = [*found, *result.mistakes]
            result.limits.append(what_else([f.mistake.id for f in unsaid]))
        return result

    def unreported(self, ids: Sequence[str]) -> list[str]:
        """The parts of files that were not given which have any of these mistakes: "Attention of layers.py"."""
        found = [
            cls
            for cls in self.learned
            if {self.stopped.broken.get(cls), *(f.mistake.id for f in self.severe(cls))} & {*ids}
        ]
        files = [file_of(cls) or cls.__module__ for cls in found]
        return [f"{cls.__name__} of {Path(file).name}" for cls, file in zip(found, files, strict=True)]

    def severe(self, part: Any) -> list[Finding]:
        """The severe mistakes of a part, as far as it was understood."""
        diagnosis = self.library.diagnoses.get(part)
        return [f for f in diagnosis.findings if f.severity == "mistake"] if diagnosis is not None else []


def unsaid_of(diagnosis: Diagnosis, silent: Sequence[Diagnosis]) -> list[Finding]:
    """Mistakes of its parts in other files, which have no report of their own, where nothing explains the whole; with
    what else makes those parts' numbers.
    """
    explained = [part for part in silent if not part.unexplained and part.verdict == "mistake"]
    wrong = [part for part in explained if any(f.severity == "mistake" for f in part.findings)]
    found = [f for part in wrong for f in part.findings if f.severity == "mistake" or f.mistake.changes]
    own = {f.mistake.id: f for f in found if f.mistake.id not in diagnosis.ids}
    return list(own.values()) if diagnosis.verdict == "unknown mismatch" or diagnosis.unexplained else []
