"""What is said of a component: what its numbers show, its parts' mistakes, or why it cannot be built or called."""

from __future__ import annotations

import re
from typing import Any

from scratch_transformer.kit.discover.sandbox import Guard
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.kind import Diagnosis
from scratch_transformer.kit.report.finding import FINE, Result
from scratch_transformer.kit.resolve.call import forwards
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.trials.adjust import TURNED
from scratch_transformer.kit.resolve.trials.match import Outcome
from scratch_transformer.kit.results.elsewhere import Elsewhere
from scratch_transformer.kit.results.inherited import Inherited, hidden_in, of_parts, of_replaced, shared_by, what_else
from scratch_transformer.kit.results.locating import located
from scratch_transformer.kit.results.stopped import Stopped
from scratch_transformer.kit.results.unbuilt import Unbuilt
from scratch_transformer.kit.results.whole import Whole, is_asked_from_one, whole_of


class Results:
    """library: what is known of the learner's code. guard: of the sandbox. only: the component that was asked for."""

    def __init__(self, library: Library, guard: Guard | None, only: str | None) -> None:
        self.library = library
        self.stopped = Stopped(library, guard)
        self.elsewhere = Elsewhere(library, self.stopped)
        self.unbuilt = Unbuilt(library, self.stopped, self.elsewhere, only)

    def of(
        self, name: str, source: Source, line: int, value: Any, outcome: Outcome, diagnosis: Diagnosis | None
    ) -> Result:
        """Of a class or function that was resolved. diagnosis: None if it could not be built or called."""
        kind, one = outcome.kind, outcome.candidate
        result = Result(name, source.where(line), kind.name, what=kind.what, against=kind.builtin or "the reference")
        if diagnosis is None:
            return self.unbuilt.of(result, value, outcome, source)
        if one is not None and one.refused is not None:
            self.stopped.raised[value] = one.refused[1]
        whole = whole_of(value, source, one, diagnosis, self.library)
        inherited = self._inherited(whole)
        self.library.diagnoses[value] = whole.diagnosis
        _tell_numbers(result, whole)
        _tell_mistakes(result, whole, inherited)
        _tell_notes(result, whole)
        if not inherited.beside:
            self.elsewhere.with_unsaid(result, whole)
        _tell_inherited(result, whole, inherited)
        if "next_logits" in kind.inputs and result.verdict in FINE:
            result.limits += self._models_length_first(value)
        return self.elsewhere.with_stops(self.elsewhere.with_parts(result, value), source)

    def _inherited(self, whole: Whole) -> Inherited:
        """The mistakes of its parts that a whole has."""
        value, diagnosis, within = whole.value, whole.diagnosis, whole.parts.within
        beside = of_parts(diagnosis, within) or of_replaced(diagnosis, self.library)
        is_lost = diagnosis.verdict in ("unknown mismatch", "crashed")  # else the rest is judged without that part
        lent = whole.one.replaced if is_lost and whole.one is not None else ()
        stopping = self.stopped.ids_within(value, whole.made, lent) - {*beside, *diagnosis.ids}
        shared, hidden = shared_by(diagnosis, within, value), hidden_in(diagnosis, within, value)
        return Inherited(shared, beside, sorted(stopping), hidden)

    def _models_length_first(self, writer: Any) -> list[str]:
        """That the models of its file, all of them, return (T, B, V), where a writer of text works with (B, T, V)."""
        home, known = getattr(writer, "__module__", ""), self.library.resolved.items()
        models = {cls: c for cls, c in known if c.kind.name in forwards.MODELS and cls.__module__ == home}
        if not models or not all(TURNED in candidate.limits for candidate in models.values()):
            return []
        names = " and ".join(getattr(cls, "__name__", "its model") for cls in models)
        return [
            f"It works with a model that returns (B, T, V). {names} returns (T, B, V): with that it writes no text."
        ]


def _tell_numbers(result: Result, whole: Whole) -> None:
    """What its own numbers show, but for the mistakes."""
    diagnosis, one = whole.diagnosis, whole.one
    result.verdict, result.error, result.design = diagnosis.verdict, diagnosis.error, diagnosis.design
    result.alternatives = [list(ids) for ids in diagnosis.alternatives]
    result.divergence, result.probe = diagnosis.divergence, diagnosis.probe
    result.ordinary, result.unexplained = diagnosis.ordinary, diagnosis.unexplained
    if is_asked_from_one(one) or (one is not None and (one.added_twice or one.besides_layers)):
        # they are those of the rows from 0 on, with another part in the place of its own, or without one
        result.error = result.ordinary = None


def _tell_mistakes(result: Result, whole: Whole, inherited: Inherited) -> None:
    """Those that are its own."""
    of_parts = {*inherited.shared, *inherited.beside}
    own = [f for f in whole.diagnosis.findings if f.mistake.id not in of_parts]
    result.mistakes = [located(f, whole.value, whole.source, whole.made) for f in own]


def _tell_notes(result: Result, whole: Whole) -> None:
    """What was noted on the way, and what was not judged of it."""
    diagnosis = whole.diagnosis
    twice = filter(None, map(_adds_itself, whole.parts.every if whole.is_unknown else ()))
    result.notes = list(dict.fromkeys([*diagnosis.notes, *twice]))
    if diagnosis.verdict == "crashed" and not diagnosis.findings and diagnosis.notes:
        result.problem = diagnosis.notes[-1]  # what stopped it
    result.limits = list(dict.fromkeys(diagnosis.limits))
    result.replaced = list(dict.fromkeys(diagnosis.replaced))
    result.besides = whole.one.besides_layers if whole.one is not None else ""


def _tell_inherited(result: Result, whole: Whole, inherited: Inherited) -> None:
    """The mistakes of its parts, of which some make it wrong whatever its numbers say."""
    beside = [*inherited.beside, *inherited.stopping]
    result.inherited = list(dict.fromkeys([*inherited.shared, *beside, *inherited.hidden]))
    if beside:
        result.verdict = "mistake"
        result.limits += [what_else(beside)] if whole.is_unknown else []


def _adds_itself(part: Diagnosis) -> str:
    """Of a part that has its residual inside: what an unknown whole may do again."""
    if not re.search(r"residual.* inside", part.design):
        return ""
    return f"Its {part.kind} has its {part.design}: what adds its input around it adds that twice."
