"""What stops however it is built and called: with which mistake, and the part of which that is said."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from contextlib import nullcontext
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import leads_to
from scratch_transformer.kit.discover.sandbox import Guard, TimeUp, time_limit
from scratch_transformer.kit.judge.stops import no_forward, no_return, selfless
from scratch_transformer.kit.judge.stops.crashes import crash_finding, first_finding
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.resolve.build import config, construct
from scratch_transformer.kit.resolve.call.plan import CannotCall
from scratch_transformer.kit.resolve.library import supplied
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.trials import misfits, uneven
from scratch_transformer.kit.resolve.trials.match import Outcome

RUNS = "B26"
"""What stops in a part does not stop in a whole that runs."""
TRIAL_SECONDS = 2.0
"""Of computing, to show that something stops with whatever shapes."""
Stop = tuple[Finding | None, BaseException | None]


class Stopped:
    """What stops, and with which mistake. library: what is known of the learner's code. guard: of the sandbox."""

    def __init__(self, library: Library, guard: Guard | None) -> None:
        self.library, self.guard = library, guard
        self.broken: dict[Any, str] = {}
        """What stops however it is called, or the name of what is not there -> the id of the mistake that does it."""
        self.findings: dict[Any, Finding] = {}
        """The mistake itself."""
        self.raised: dict[Any, BaseException | None] = {}
        """What it raises, or raises where it is given a mask, whether that is known as a mistake or not."""

    def why(self, value: Any, outcome: Outcome) -> Stop:
        """The mistake with which something stops, however it is called, and what it raises."""
        self.raised[value] = error = outcome.error
        if (lost := of_its_forward(value)) is not None:
            self.remember(value, lost)
            return lost
        finding = crash_finding(error) if isinstance(error, Exception) else None
        if finding is None:
            finding, error = first_finding(self.library.heard.values()) or (None, error)
        if finding is None and outcome.stage in ("built", "called"):
            with (
                contextlib.suppress(TimeUp),
                self.guard.on() if self.guard else nullcontext(),
                time_limit(TRIAL_SECONDS),
            ):
                look = misfits.finding if outcome.stage == "called" else misfits.of_constructor
                found = look(value, outcome.kind, self.library, error) or uneven.finding(outcome)
                finding, error = found or (None, error)
        if finding is not None and finding.severity == "mistake":
            self.remember(value, (finding, error))
        return finding, error

    def remember(self, value: Any, stop: Stop) -> None:
        """That something stops, with what mistake, and what it raises."""
        finding, self.raised[value] = stop
        if finding is not None:
            self.broken[value], self.findings[value] = finding.mistake.id, finding

    def forget(self, value: Any) -> Stop:
        """The same, of what is repaired: from now on it does not stop."""
        self.broken.pop(value, None)
        return self.findings.pop(value, None), self.raised.pop(value, None)

    def part_at_fault(self, error: BaseException | None, value: Any, outcome: Outcome) -> Any:
        """The part of what stops that stops by itself: in which the error happened, else one that it has.

        Or the name of a part that could not be defined.
        """
        if isinstance(error, NameError) and error.name in self.broken:
            return error.name
        if hasattr(value, "of_class"):  # its class may stop: it is called without that
            return None
        within = outcome.made.modules() if isinstance(outcome.made, nn.Module) else ()
        had = (type(module) for module in within if type(module) in self.broken and type(module) is not value)
        asked = construct.annotations_of(value).values() if isinstance(error, config.Unknown) else ()
        lent = supplied.names(outcome.made)  # in place of what stops when it is built
        wanted = [cls for cls in asked if cls in self.broken]
        wanted += [cls for cls in self.broken if cls is not value and self.goes_by(cls, lent)]
        wanted += self._kept(outcome.made)
        return supplied.culprit(error, value, self.broken) or next(had, None) or next(iter(wanted), None)

    def ids_within(self, value: Any, made: Any, lent: Collection[str]) -> set[str]:
        """The mistakes with which parts of something stop. lent: the names of those for which the reference stands."""
        deeper = [one for part in leads_to(value) if self.goes_by(part, lent) for one in leads_to(part)]
        found = {id for part, id in self.broken.items() if self.goes_by(part, lent) or part in deeper}
        return found | {self.broken[cls] for cls in self._kept(made)}

    def goes_by(self, part: Any, names: Collection[str]) -> bool:
        """Whether what stands in for a part, which is called like it, or like its kind, has one of these names."""
        return not {getattr(part, "__name__", ""), *self.library.guesses.get(part, ())[:1]}.isdisjoint(names)

    def _kept(self, made: Any) -> list[Any]:
        """The classes that are broken of what a module keeps, or a part of it, and is no module itself."""
        parts = made.modules() if isinstance(made, nn.Module) else ()
        return [type(one) for part in parts for one in vars(part).values() if type(one) in self.broken]


def of_its_forward(value: Any) -> tuple[Finding, BaseException] | None:
    """That Python does not find it, that it has no self, or that it returns nothing."""
    if (lost := no_forward.finding(value)) is not None:
        return lost
    if (without := selfless.finding(value)) is not None:
        return without, CannotCall("without self, the module itself is its first argument")
    nothing = no_return.finding(value)
    return None if nothing is None else (nothing, CannotCall("its forward returns None"))
