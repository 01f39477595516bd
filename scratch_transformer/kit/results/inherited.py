"""Which mistakes of its parts a whole has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from scratch_transformer.kit.kind import LAYERS, Diagnosis, Finding
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes.normalization import OF_A_SIZE
from scratch_transformer.kit.report import lines
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.results.parts import OF_PADDING, names_any
from scratch_transformer.kit.results.stopped import RUNS

WITHOUT_POSITIONS = "P13"
OF_PARTS = ("A18", "LN4")
"""What is looked for in attention, or a norm, alone, though a whole can have it."""


class Inherited(NamedTuple):
    """The ids of the mistakes that a whole has of its parts."""

    shared: list[str]
    """Which its own numbers show as well."""
    beside: list[str]
    """Which its numbers cannot show, or did not."""
    stopping: list[str]
    """With which those parts stop in whose places the reference stands."""
    hidden: list[str]
    """Which are not looked for in a whole."""


ELSE = "What differs in it besides"


def what_else(ids: Sequence[str]) -> str:
    """That these mistakes may not be all of it."""
    return f"{ELSE} {' and '.join(ids)}, if anything, was not found."


def shared_by(diagnosis: Diagnosis, within: Sequence[Diagnosis], value: Any) -> list[str]:
    """Mistakes that a whole shows and a part has too: they are the part's.

    A layer's mistake around a sublayer may be its own all the same.
    """
    of_parts = {f.mistake.id for part in within for f in part.findings if f.severity != "note"}
    forms = {f.form for part in within for f in part.findings}
    told = [f for f in diagnosis.findings if f.form != OF_A_SIZE or f.form in forms]  # by itself, where no part is
    own = dict.fromkeys(f.mistake.id for f in told if f.severity != "note")
    is_layer = diagnosis.kind.endswith(LAYERS)
    return [id for id in own if id in of_parts and not (is_layer and lines.is_made_in(id, value))]


def of_parts(diagnosis: Diagnosis, within: Sequence[Diagnosis]) -> list[str]:
    """Mistakes of its parts that its own numbers cannot show: those of training, or beside others that are not known.

    Where its numbers are right, a part's mistake in numbers does not take place in it.
    """
    found = [f for part in within if not part.unexplained for f in part.findings if f.severity == "mistake"]
    is_unknown = diagnosis.verdict == "unknown mismatch"
    milder = {f.mistake.id for f in diagnosis.findings if f.mistake.id == "LN3" and f.severity == "note"}  # as an ε is
    there = [
        f.mistake.id
        for f in found
        if is_unknown
        or not (f.mistake.changes or f.mistake.id == RUNS)
        or _is_of(diagnosis, f)
        or f.mistake.id in milder
    ]
    known = {f.mistake.id for f in diagnosis.findings if f.severity != "note"}
    return [id for id in dict.fromkeys(there) if id not in known]


def _is_of(diagnosis: Diagnosis, finding: Finding) -> bool:
    """Whether a part's mistake is in the whole, of which it is a design: a part that should add positions adds none."""
    return finding.mistake.id == WITHOUT_POSITIONS and diagnosis.recipe.positions == "none"


def hidden_in(diagnosis: Diagnosis, within: Sequence[Diagnosis], value: Any) -> list[str]:
    """What its parts have and is not looked for in a whole, or does not show there: told of, whatever its numbers say.

    A mask on padding's queries shows where real words stand behind padding, in what hands masks on.
    """
    is_unknown, kind = diagnosis.verdict == "unknown mismatch", KINDS[diagnosis.kind]
    hidden = [
        f.mistake.id
        for part in within
        for f in part.findings
        if (
            f.severity in ("harmless", "paper")
            and (is_unknown or f.mistake.id in OF_PARTS or f.mistake.id not in kind.ids)
        )
        or (f.mistake.id == "A7" and part.kind.startswith("Causal") and names_any(OF_PADDING, value))
    ]
    return [id for id in dict.fromkeys(hidden) if id not in diagnosis.ids]


def of_replaced(diagnosis: Diagnosis, library: Library) -> list[str]:
    """Mistakes in what the reference stands in for, as something else in it is not understood."""
    classes = [cls for cls in library.resolved if getattr(cls, "__name__", "") in diagnosis.replaced]
    own = [library.diagnoses[cls] for cls in classes if cls in library.diagnoses]
    deeper = [part for cls in classes for part in library.parts_of(library.resolved[cls].made)]
    found = [f for part in (*own, *deeper) for f in part.findings if f.severity == "mistake"]
    return list(dict.fromkeys(f.mistake.id for f in found if f.mistake.id not in diagnosis.ids))
