"""What is said of a component: what its numbers show, its parts' mistakes, or why it cannot be built or called."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from scratch_transformer.kit.definitions import leads_to
from scratch_transformer.kit.discover.sandbox import Guard
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.kind import LAYERS, Diagnosis, Finding
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report import lines
from scratch_transformer.kit.report.finding import FINE, Result
from scratch_transformer.kit.resolve.call import forwards
from scratch_transformer.kit.resolve.call.plan import FROM_ONE
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.trials.adjust import TURNED
from scratch_transformer.kit.resolve.trials.match import Outcome
from scratch_transformer.kit.resolve.trials.probing import never_called
from scratch_transformer.kit.results.elsewhere import Elsewhere, unsaid_of, with_those_elsewhere
from scratch_transformer.kit.results.inherited import hidden_in, of_parts, of_replaced
from scratch_transformer.kit.results.locating import located
from scratch_transformer.kit.results.parts import as_made, but_for_given_masks, hands_no_mask_on
from scratch_transformer.kit.results.stopped import Stopped
from scratch_transformer.kit.results.unbuilt import Unbuilt
from scratch_transformer.kit.results.whole import as_ignored, as_it_is_asked

_WHAT_ELSE = "What differs in it besides {}, if anything, was not found."


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
        kind = outcome.kind
        result = Result(name, source.where(line), kind.name, what=kind.what, against=kind.builtin or "the reference")
        if diagnosis is None:
            return self.unbuilt.of(result, value, outcome, source)
        if outcome.candidate is not None and outcome.candidate.refused is not None:
            self.stopped.raised[value] = outcome.candidate.refused[1]
        is_unknown = outcome.candidate is not None and diagnosis.verdict == "unknown mismatch"
        idle = never_called(outcome.candidate) if outcome.candidate and is_unknown else ()
        every = self.library.parts_of(outcome.candidate.made, idle) if outcome.candidate else ()
        within = tuple(part for part in every if not any(part is other for other in self.library.silent))
        silent = [part for part in every if not any(part is other for other in within)]
        one = outcome.candidate
        made = one.made if one is not None else None
        within, silent = (
            tuple(as_made(p, one, self.library) for p in within),
            [as_made(p, one, self.library) for p in silent],
        )
        if hands_no_mask_on(value, diagnosis):
            within, silent = tuple(map(but_for_given_masks, within)), [*map(but_for_given_masks, silent)]
        looks_up = outcome.candidate is not None and outcome.candidate.plan.order == FROM_ONE
        diagnosis = as_it_is_asked(diagnosis) if looks_up else diagnosis
        diagnosis = with_those_elsewhere(as_ignored(diagnosis, within), silent, within, source)
        parts = {f.mistake.id for part in within for f in part.findings if f.severity != "note"}
        parts &= {f.mistake.id for f in diagnosis.findings if f.severity != "note"}
        # a layer's mistake around a sublayer may be its own, though a part has it too
        parts -= {id for id in parts if diagnosis.kind.endswith(LAYERS) and lines.is_made_in(id, value)}
        beside = of_parts(diagnosis, within) or of_replaced(diagnosis, self.library)
        own = [f for f in diagnosis.findings if f.mistake.id not in {*parts, *beside}]
        self.library.diagnoses[value] = diagnosis
        result.verdict, result.error, result.design = diagnosis.verdict, diagnosis.error, diagnosis.design
        result.mistakes = [located(f, value, source, made) for f in own]
        result.alternatives = [list(ids) for ids in diagnosis.alternatives]
        result.divergence, result.probe = diagnosis.divergence, diagnosis.probe
        result.ordinary, result.unexplained = diagnosis.ordinary, diagnosis.unexplained
        if looks_up or (one is not None and (one.added_twice or one.besides_layers)):
            # they are those of the rows from 0 on, with another part in the place of its own, or without one
            result.error = result.ordinary = None
        twice = filter(None, map(_adds_itself, every if is_unknown else ()))
        result.notes = list(dict.fromkeys([*diagnosis.notes, *twice]))
        if diagnosis.verdict == "crashed" and not diagnosis.findings and diagnosis.notes:
            result.problem = diagnosis.notes[-1]  # what stopped it
        result.limits = list(dict.fromkeys(diagnosis.limits))
        unsaid = unsaid_of(diagnosis, silent)
        if unsaid and not beside:
            result.verdict, result.unexplained = "mistake", False
            result.mistakes = [*(located(self._as_its_parts(f), value, source, made) for f in unsaid), *result.mistakes]
            result.limits.append(_WHAT_ELSE.format(" and ".join(f.mistake.id for f in unsaid)))
        is_lost = diagnosis.verdict in ("unknown mismatch", "crashed")  # else the rest is judged without that part
        lent = outcome.candidate.replaced if is_lost and outcome.candidate is not None else ()
        within_lent = [one for part in leads_to(value) if self.stopped.names(part) & {*lent} for one in leads_to(part)]
        stops = {
            id for part, id in self.stopped.broken.items() if self.stopped.names(part) & {*lent} or part in within_lent
        }
        stops |= {self.stopped.broken[cls] for cls in self.stopped.kept(made)}
        beside += sorted(stops - {*beside, *diagnosis.ids})
        unseen = hidden_in(diagnosis, within, KINDS[diagnosis.kind], value)
        inherited = [*(f.mistake.id for f in diagnosis.findings if f.mistake.id in parts), *beside, *unseen]
        result.inherited = list(dict.fromkeys(inherited))
        if beside:
            result.verdict = "mistake"
            if diagnosis.verdict == "unknown mismatch":
                result.limits.append(_WHAT_ELSE.format(" and ".join(beside)))
        result.replaced = list(dict.fromkeys(diagnosis.replaced))
        result.besides = outcome.candidate.besides_layers if outcome.candidate is not None else ""
        if "next_logits" in kind.inputs and result.verdict in FINE:
            result.limits += self._models_length_first(value)
        return self.elsewhere.with_stops(self.elsewhere.with_parts(result, value), source)

    def _as_its_parts(self, finding: Finding) -> Finding:
        """What numbers say of a part, and not of the whole in which it is told."""
        known = self.library.diagnoses.items()
        name = next((cls.__name__ for cls, one in known if any(f is finding for f in one.findings)), "part")
        return (
            replace(finding, evidence=f"Of its {name} by itself: {finding.evidence}") if finding.evidence else finding
        )

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


def _adds_itself(part: Diagnosis) -> str:
    """Of a part that has its residual inside: what an unknown whole may do again."""
    if not re.search(r"residual.* inside", part.design):
        return ""
    return f"Its {part.kind} has its {part.design}: what adds its input around it adds that twice."
