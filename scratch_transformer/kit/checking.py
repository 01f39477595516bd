"""Resolves and diagnoses the components of loaded sources, parts before wholes."""

from __future__ import annotations

import contextlib
import inspect
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from scratch_transformer.kit import another_sort, clock
from scratch_transformer.kit.definitions import is_module_class
from scratch_transformer.kit.discover.sandbox import Guard, TimeUp, time_limit
from scratch_transformer.kit.found import DRAW, Emit, Entry, Found
from scratch_transformer.kit.judge import added_masks, causal_flags
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.other_paths import with_other_paths
from scratch_transformer.kit.kind import NO_MASK, NOT_GIVEN, Diagnosis
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import FAILED, Result
from scratch_transformer.kit.resolve import fitness, foreign, likeness, other_designs, sorts
from scratch_transformer.kit.resolve.build import config, construct
from scratch_transformer.kit.resolve.functions import sizes
from scratch_transformer.kit.resolve.names import inputs
from scratch_transformer.kit.resolve.trials.choice import SEARCH, chosen
from scratch_transformer.kit.resolve.trials.match import Outcome, resolve
from scratch_transformer.kit.results.inherited import ELSE
from scratch_transformer.kit.results.unbuilt import add_what_shows

COMPONENT_SECONDS, MOST_COMPONENT = 12.0, 20.0
"""Of computing, as it is counted; of the processor's own, which a busy one needs two or three times as many of."""
HURRIED = 0.6
"""From which share of the processor's seconds on a component, or a part, is to end soon."""
LARGE = 8
"""Millions of weights, with which each call takes long."""
OVER = 4.0
"""Seconds beyond a file's, after which each of its components gets half of the least."""
PART_SECONDS, LEARNING_SECONDS, MOST_PART = 2.0, 5.0, 16.0
"""Of computing, for a part that another file defines; for all of them; after which one is given up."""
FILE_SECONDS, LEAST_SECONDS = 18.0, 1.5
SEARCH_SECONDS, LEAST_SEARCH, DETECTORS = 3.0, 1.0, 3.0
"""Of computing, for what is hard to resolve: what the easy components of a file leave, the others share."""


class Checking(Found):
    """Judges what was found. job, guard, emit: as in found.py."""

    def __init__(self, job: dict[str, Any], guard: Guard | None, emit: Emit) -> None:
        super().__init__(job, guard, emit)
        self.learning = LEARNING_SECONDS
        self.end, self.left = float("inf"), 1
        """When the time for the whole is used up, and how many components are left."""

    def adapter(self, name: str) -> Result:
        """The result of one adapter."""
        candidate, source = self.adapted[name]
        function = candidate.function
        with self.guard.on() if self.guard else nullcontext(), time_limit(COMPONENT_SECONDS):
            diagnosis = diagnose(candidate)
        outcome = Outcome(candidate.kind)
        return self.results.of(name, source, function.__code__.co_firstlineno, function, outcome, diagnosis)

    def run(self) -> None:
        only = self.job.get("only")
        wanted = self.in_order()
        asked = [entry for entry in wanted if not only or entry[1] == only]
        self.emit("components", names=[*map(self._id, asked), *(f"adapter:{name}" for name in self.adapted)])
        for name in self.adapted:
            identity = f"adapter:{name}"
            if identity not in [*self.job["skip"], *self.job["done"]]:
                self.emit("start", component=identity)
                self.emit("result", component=identity, result=self.adapter(name).document())
        last = max((wanted.index(entry) for entry in asked), default=-1)
        self.end = clock.now() + FILE_SECONDS * max(len({entry[4].path for entry in wanted}), 1)
        self.left = last + 1
        dropped: set[str] = set()
        for entry in wanted[: last + 1]:  # what comes before may be a part of what is asked for
            identity = self._id(entry)
            if identity in self.job.get("skip", []):
                continue
            shown = entry in asked and identity not in self.job.get("done", [])
            self.emit("start", component=identity)
            result = self.component(entry)
            if shown and result is not None and self._is_nothing(result):
                dropped.add(result.name)
                self.emit("found", ignored=[f"{result.name} ({result.verdict})"], missing=[])
            elif shown and result is not None and self._only_reminds(entry[2], entry[3], result):
                is_told = (entry[4].path, result.name) in self.read or result.name.endswith(DRAW)  # as what has it
                why = sorts.left_of(entry[2], result.kind, result.verdict, result.problem or "", self._of(entry[4]))
                dropped.add(result.name)
                self.emit("found", ignored=[] if is_told else [f"{result.name} ({why})"], missing=[])
            elif shown and result is not None:
                self.emit("result", component=identity, result=result.document())
        self._tell_of_holders(dropped)

    def _tell_of_holders(self, dropped: set[str]) -> None:
        """What classes are whose methods were judged, but for those that turned out to be none."""
        for name, value, found in self.holders:
            judged = [one for one in found if one not in dropped]
            why = sorts.judged_within(name, value, judged) or sorts.sort_of(name, value)
            self.emit("found", ignored=[f"{name} ({why})"], missing=[])

    def _is_nothing(self, result: Result) -> bool:
        """An exercise as it was handed out, or a piece of a function: that is said in one line.

        A result if somebody asks for it.
        """
        is_nothing = result.verdict.startswith(foreign.NOTHING)
        return is_nothing and self.job.get("only") != result.name

    def _only_reminds(self, value: Any, kinds: tuple[str, ...], result: Result) -> bool:
        """Nobody said what it is, its name hardly does, and it cannot be called: estimate_loss is no component.

        Nor is a function that computes something else, expand_mask, a helper, _attention, or any other MLP.
        What is only too large to be called is told of.
        """
        is_asked = self.job.get("only") or self.job.get("as_kind")
        is_module = is_module_class(value) and not result.name.endswith("MLP")
        lost = ("crashed", "could not be built", *(() if is_module else ("unknown mismatch",)))
        is_lost = result.verdict in lost and not result.mistakes and "OverflowError" not in (result.problem or "")
        is_named = any(likeness.is_named(result.name.rpartition(".")[2], KINDS[kind]) for kind in kinds)
        is_named = is_named or any(sizes.is_table(value, KINDS[kind]) for kind in kinds)
        is_part = any(hasattr(value, said) for said in ("owner", "of_class", "output"))  # of a class, of what it gives
        is_helper = inspect.isfunction(value) and (result.name.startswith("_") or is_part)
        return not is_asked and is_lost and (is_helper or not is_named)

    def _unknown(self, value: Any) -> str:
        """What is wrong with --init: arguments that the constructor does not have."""
        given, parameters = self.job.get("init", {}), construct.parameters_of(value)
        names = [p.name for p in parameters]
        unknown = [repr(name) for name in given if name not in names]
        takes_any = unknown and any(p.kind is p.VAR_KEYWORD for p in inspect.signature(value).parameters.values())
        if not unknown or takes_any or any(map(config.is_config, parameters)):
            return ""
        return f"its constructor takes no {', '.join(unknown)} (--init); it takes {', '.join(names) or 'nothing'}"

    def _id(self, entry: Entry) -> str:
        return f"{entry[4].path}:{entry[1]}"

    def component(self, entry: Entry) -> Result | None:
        """What is found out about one; a fault of the kit's own spoils it alone, and none of the others."""
        _, name, _, kinds, source, line = entry
        try:
            return self._component(entry)
        except Exception as error:
            problem = f"the check itself fails on it: {type(error).__name__}: {error}"
            kind = KINDS[kinds[0]]
            return Result(name, source.where(line), kind.name, FAILED, what=kind.what, problem=problem)

    def _component(self, entry: Entry) -> Result | None:
        """With what is behind the line at which it stops, where that has a repair."""
        result = self._judged(entry)
        return result if result is None else self.behind.told(entry[2], entry[4], result, lambda: self._again(entry))

    def _again(self, entry: Entry) -> Result | None:
        self.left += 1
        self.emit("start", component=self._id(entry))  # whoever waits for it hears that all is well
        return self._judged(entry)

    def _judged(self, entry: Entry) -> Result | None:
        _, name, value, kinds, source, line = entry
        source = self.behind.now(source)
        is_asked = self.job.get("only") in (None, "", name)
        self.library.given = self.job.get("init", {}) if is_asked else {}
        if value in self.static and self.static[value] not in self.results.stopped.broken:
            return None  # judged in its class
        kind = KINDS[kinds[0]]
        unchecked = partial(Result, name, source.where(line), kind.name, what=kind.what)
        if is_asked and (unknown := self._unknown(value)):
            return unchecked("could not be built", problem=unknown)
        for part in self.library.imported_parts(value, [entry[2] for entry in self.found]):
            begin = clock.now()
            if self.learning > 0:
                self._learn(part)
            self.learning -= clock.now() - begin
        try:
            with (
                self.guard.on() if self.guard else nullcontext(),
                time_limit(MOST_COMPONENT),
                clock.at_most(HURRIED * MOST_COMPONENT),
            ):
                begin = clock.now()
                outcome = self._resolved(value, kinds)
                diagnosis = None
                if outcome.candidate is not None:
                    known, seconds = self.library.known_of(outcome.candidate.made), self._left_since(begin)
                    diagnosis = diagnose(outcome.candidate, known, seconds=seconds)
                    diagnosis = self._with_causal_flag(value, outcome.candidate.made, diagnosis)
                    diagnosis = causal_flags.with_flag(outcome.candidate, diagnosis)
                    diagnosis = with_other_paths(outcome.candidate, diagnosis, known)
                    diagnosis = added_masks.with_added(outcome.candidate, diagnosis, source.text, self._makers(value))
        except TimeUp:
            another = another_sort.lacks(self.library) or other_designs.design_of(value)
            if another and not self.job.get("only"):
                return unchecked(another)
            return unchecked("took too long", problem=f"Checking it took too long: {self._why_long()}")
        if diagnosis is not None:
            self._learn_lent(value, diagnosis)
        result = self.results.of(name, source, line, value, outcome, diagnosis)
        is_none = "" if self.job.get("only") else another_sort.name_of(value, outcome, result.verdict, self.library)
        is_open = result.unexplained or any(limit.startswith(ELSE) for limit in result.limits)
        design = another_sort.design_of(value, outcome, self.library) if is_open else ""
        if design:  # its numbers are to be others
            result.unexplained = False
            result.limits = [limit for limit in result.limits if not limit.startswith(ELSE)]
            result.limits.append(f"It is {design}. What is named is all that was judged.")
        if (said := design or is_none).startswith(other_designs.SAID.format("")):
            self.library.designs[value] = said
        if not is_none:
            add_what_shows(result, value, outcome, source)
        return unchecked(is_none) if is_none else result

    def _makers(self, value: Any) -> list[added_masks.Made]:
        """The functions beside something that make masks."""
        home = getattr(value, "__module__", "")
        found = [(of, one) for of, one in self.library.resolved.items() if one.kind.name.endswith("Mask")]
        own = [(of, one) for of, one in found if of in self.library.diagnoses and getattr(of, "__module__", "") == home]
        return [(getattr(of, "__name__", "mask"), one, self.library.diagnoses[of]) for of, one in own]

    def _why_long(self) -> str:
        """Of what is large, that it is, and what to do; else a guess."""
        millions = self.library.most_weights // 10**6
        if millions < LARGE:
            return "an endless loop?"
        return (
            f"it has {millions} million weights. Make it with smaller sizes, 64 for 2048: mistakes are the same there."
        )

    def _learn_lent(self, value: Any, diagnosis: Diagnosis) -> None:
        """What stops the parts of other files in whose place the reference stands, where no time was left for them."""
        own = [entry[2] for entry in self.found]
        left = self.library.imported_parts(value, own) if diagnosis.replaced else []
        for part in left:
            if self.results.stopped.goes_by(part, diagnosis.replaced):
                self._learn(part)

    def _learn(self, part: type) -> None:
        """What a part of another file is, without a report of its own: its mistakes are the whole's."""
        self.library.checked.add(part)
        self.results.elsewhere.learned.append(part)
        self._learn_now(part)
        self.behind.learned(part, lambda: self._learn_now(part))

    def _learn_now(self, part: type) -> None:
        library, kinds = self.library, self.library.guesses[part]
        library.begin()
        with (
            contextlib.suppress(TimeUp, Exception),
            self.guard.on() if self.guard else nullcontext(),
            time_limit(MOST_PART),
            clock.at_most(HURRIED * MOST_PART),
        ):
            outcome = chosen(part, kinds, library, PART_SECONDS)
            candidate = outcome.candidate
            if candidate is None:
                self.results.stopped.why(part, outcome)
            else:
                library.resolved[part] = candidate
                library.diagnoses[part] = diagnose(candidate, library.known_of(candidate.made), seconds=LEAST_SEARCH)
                library.silent.append(library.diagnoses[part])

    def _left_since(self, begin: float) -> float:
        """Seconds for the search for what explains a component that nothing explained yet: 3, or 1 in a long file."""
        now = clock.now()
        left = COMPONENT_SECONDS - (now - begin) - DETECTORS
        least = self._least(LEAST_SEARCH)
        return min(max(left, least), SEARCH_SECONDS if now < self.end else least)

    def _least(self, seconds: float) -> float:
        return seconds / 2 if self._is_over else seconds

    @property
    def _is_over(self) -> bool:
        return clock.now() > self.end + OVER

    def _with_causal_flag(self, value: Any, made: Any, diagnosis: Diagnosis) -> Diagnosis:
        """With the mistakes that only show if it is built with causal=True, where it has such an argument.

        made: what was built without. Where it must be told, it need not hide the future when it is told not to.

        A function that attends is not built: what would be made of its queries and keys are weights.
        """
        parameters, is_alone = construct.parameters_of(value), not fitness.takes_mask(value)
        names = inputs.causal_flags(parameters, is_alone, constructs=True)
        if not names or not diagnosis.kind.endswith("Attention") or diagnosis.kind == "ScaledDotProductAttention":
            return diagnosis
        self.library.given = {**self.library.given, names[0]: True}
        told = resolve(value, KINDS["CausalSelfAttention"], self.library).candidate
        if told is None:
            return diagnosis
        told.is_causal_by_name = bool(inputs.causal_flags(parameters))  # masking=True may be of padding
        kept, before = (vars(one) if isinstance(one, nn.Module) else {} for one in (told.made, made))
        flag = next((f"self.{n}" for n, v in kept.items() if v is True and before.get(n) is False), names[0])
        again = diagnose(told)
        found = [f for f in again.findings if f.severity == "mistake" and f.mistake.id not in diagnosis.ids]
        verdict = "mistake" if found else diagnosis.verdict
        more = (replace(finding, path=f"{flag} = True") for finding in found)
        is_asked = any(p.name == names[0] and p.default is p.empty for p in parameters)
        dropped = "A25" if found and is_asked and again.is_explained and "A25" not in again.ids else ""
        findings = (*more, *(finding for finding in diagnosis.findings if finding.mistake.id != dropped))
        limits = tuple(one for one in diagnosis.limits if not (again.is_explained and _is_of_the_future(one)))
        return replace(diagnosis, findings=findings, verdict=verdict, limits=limits)

    def _resolved(self, value: Any, kinds: tuple[str, ...]) -> Outcome:
        fair = 2 * (self.end - clock.now()) / max(self.left, 1)
        self.left -= 1
        self.library.hurries = self._is_over
        self.library.begin()
        best = chosen(value, kinds, self.library, min(max(fair, self._least(LEAST_SECONDS)), SEARCH))
        self.library.checked.add(value)
        if best.candidate is not None:
            self.library.resolved[value] = best.candidate
        return best


def _is_of_the_future(limit: str) -> bool:
    """Whether all that it says was not checked are masks, or those alone that hide the future."""
    before, _, _ = NOT_GIVEN.partition("{")
    named = limit.removeprefix(before).split("; ") if limit.startswith(before) else []
    return limit == NO_MASK or (bool(named) and all("causal mask" in one for one in named))
