"""Resolves and diagnoses the components of loaded sources, parts before wholes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from scratch_transformer.kit import another_sort, clock, no_modules, undefinable
from scratch_transformer.kit.arrays.classes import as_module
from scratch_transformer.kit.behind import Behind
from scratch_transformer.kit.definitions import is_module_class, named_in
from scratch_transformer.kit.discover import load, packages, siblings, survey, unvalidated
from scratch_transformer.kit.discover.load import Loaded
from scratch_transformer.kit.discover.sandbox import Guard, TimeUp, time_limit
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.judge import added_masks, causal_flags, scripts
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.kind import Diagnosis, Finding
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.report.finding import FAILED, Result
from scratch_transformer.kit.resolve import adapters, foreign, guess, likeness, other_designs, sorts
from scratch_transformer.kit.resolve.build import config, construct
from scratch_transformer.kit.resolve.functions import (
    applied,
    grouping,
    mask_makers,
    mask_methods,
    mask_outputs,
    methods,
    schedules,
    sizes,
    training,
    writing,
)
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.names import inputs
from scratch_transformer.kit.resolve.trials.choice import SEARCH, chosen
from scratch_transformer.kit.resolve.trials.match import Outcome, resolve
from scratch_transformer.kit.results import Results, named

COMPONENT_SECONDS = 12.0
LARGE = 8
"""Millions of weights, with which each call takes long."""
OVER = 4.0
"""Seconds beyond a file's, after which each of its components gets half of the least."""
PART_SECONDS, LEARNING_SECONDS, MOST_PART = 2.0, 5.0, 4.0
"""Of computing, for a part that another file defines; for all of them; after which one is given up."""
FILE_SECONDS, LEAST_SECONDS = 18.0, 1.5
SEARCH_SECONDS, LEAST_SEARCH, DETECTORS = 3.0, 1.0, 3.0
"""Of computing, for what is hard to resolve: what the easy components of a file leave, the others share."""
SCRIPT = "training script"
DRAW, RATES = ".sampling", ".schedule"
"""How the name of one draw ends, of a method that writes text; of the rates, of one that makes an optimizer too."""
Emit = Callable[..., None]
Entry = tuple[int, str, Any, tuple[str, ...], Source, int]
"""Of a component: its kind's place, its name, itself, its kinds, its file and line."""


def as_it_is_judged(thing: Any) -> Any:
    """What stands for a class or function where it is not judged as it is written: a class of modules, a function."""
    return applied.as_function(writing.with_its_model(as_module(unvalidated.loosened(thing))))


class Checking:
    """job: as in child.py. guard: of the sandbox. emit: where events go."""

    def __init__(self, job: dict[str, Any], guard: Guard | None, emit: Emit) -> None:
        self.job, self.guard, self.emit = job, guard, emit
        self.library = Library(KINDS)
        self.adapted: dict[str, tuple[adapters.Adapted, Source]] = {}
        self.found: list[Entry] = []
        self.read: set[tuple[str, str]] = set()
        """Files and functions of which the text has told already."""
        self.static: dict[Any, type] = {}
        """Static methods, and their classes."""
        self.order = {name: index for index, name in enumerate(KINDS)}
        self.learning = LEARNING_SECONDS
        self.results = Results(self.library, guard, job.get("only"))
        self.behind = Behind(self.results, guard)
        self.end, self.left = float("inf"), 1
        """When the time for the whole is used up, and how many components are left."""

    # ---- Finding ----

    def load(self, source: Source, salvage: bool) -> None:
        """Runs a source and notes its components; tells what is wrong with the file as a whole."""
        assert self.guard is not None
        self._read(source)
        loaded = load.load(source, self.guard, salvage)
        source = loaded.source
        for note in loaded.notes:
            self.emit("problem", text=note, salvaged=False, path=source.path)
        definitions = {d.name: d for d in survey.survey(source).definitions}
        if loaded.problem:
            self.emit("problem", text=loaded.problem, salvaged=loaded.salvaged, path=source.path)
        self.behind.define(loaded)
        ignored, unknown = self._undefined(loaded), dict[str, Any]()
        for name, value in vars(loaded.module).items():
            if name not in definitions or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            value = as_it_is_judged(value)
            is_other = inspect.isclass(value) and value.__module__ != loaded.module.__name__
            if not is_other and (plain := no_modules.result(name, value, source)) is not None:
                self.results.broken[value] = plain.ids[0]
                self._tell_at_once(f"{source.path}:{name}", plain)
                continue
            why = foreign.TAKEN if is_other else self._why_not(name, value)
            is_told = (source.path, name) in self.read
            if (why or not self.add(name, value, source, definitions[name].line)) and not is_told:
                why = why or foreign.of_own_tensors(value) or other_designs.of_experts(value)
                unknown[name] = value, why
        for name, value in packages.beside(loaded.module, source):
            value = as_module(value)
            kinds = () if self._why_not(name, value) else guess.kinds_of(name, value, KINDS)
            if kinds and value not in self.library.guesses:
                self.library.add(value, kinds)  # a part, perhaps, of what is defined here
        for cls, part in siblings.given_to(loaded.module, source, self.guard):
            self.library.given_parts.setdefault(cls, []).append(part)
            if part not in self.library.guesses:
                self.library.add(part, guess.kinds_of(part.__name__, part, KINDS))
        own = self._of(source)
        found = [name for _, name, _, _, other, _ in self.found if other.path == source.path]
        said = {
            name: why or sorts.judged_within(name, value, found) or sorts.sort_of(name, value, own)
            for name, (value, why) in unknown.items()
        }
        for name in definitions:
            said |= sorts.methods_of(name, vars(loaded.module).get(name), [*found, *self._told_of(source)])
        ignored += [f"{name} ({why})" for name, why in said.items()]
        self.emit("found", ignored=ignored, missing=loaded.missing)

    def _told_of(self, source: Source) -> list[str]:
        """The functions and methods of a source of whose text has been told, by their last names."""
        return [name for path, name in self.read if path == source.path]

    def _of(self, source: Source) -> list[Any]:
        """The components of one source."""
        return [value for _, _, value, _, other, _ in self.found if other.path == source.path]

    def _undefined(self, loaded: Loaded) -> list[str]:
        """Tells of the classes that Python could not define; those whose name says nothing, with the reason."""
        ignored, namespace = [], vars(loaded.module)
        for node, error in loaded.undefined:
            if node.name in namespace:  # another of the same name
                continue
            result = undefinable.result(node, error, loaded.source, namespace)
            if result is None:
                ignored.append(f"{node.name} ({undefinable.why(error)})")
            else:
                for id in result.ids:
                    self.results.broken[node.name] = id
                self._tell_at_once(f"{loaded.source.path}:{node.name}", result)
        return ignored

    def _tell_at_once(self, identity: str, result: Result) -> None:
        """Of what is known without a trial, once, if it is asked for."""
        if identity not in self.job["done"] and self.job.get("only") in (None, result.name):
            self.emit("result", component=identity, result=result.document())

    def _read(self, source: Source) -> None:
        """Tells what the text of a training script shows, of each function once; it is not run for that."""
        others = [other["text"] for other in self.job.get("sources", ()) if other["path"] != source.path]
        results: dict[str, Result] = {}
        for found in scripts.read(source.text, others):
            name, where = found.function or Path(source.path).stem, source.where(found.line)
            result = results.setdefault(
                name, Result(name, where, SCRIPT, "mistake", what="Trains a model. Read, not run.")
            )
            result.mistakes.append(named(Finding(MISTAKES[found.id], found.evidence), source, found.line))
        self.read |= {(source.path, name) for name in results}
        for name, result in results.items():
            self._tell_at_once(f"{source.path}:{SCRIPT} {name}", result)

    def load_adapters(self, source: Source) -> None:
        """Runs adapters.py; what it adapts needs no resolving."""
        assert self.guard is not None
        loaded = load.load(source, self.guard)
        if loaded.problem:
            self.emit("problem", text=loaded.problem, salvaged=loaded.salvaged, path=source.path)
        for name, candidate in adapters.adapted(vars(loaded.module), KINDS):
            self.adapted[name] = (candidate, source)

    def adapter(self, name: str) -> Result:
        """The result of one adapter."""
        candidate, source = self.adapted[name]
        function = candidate.function
        with self.guard.on() if self.guard else nullcontext(), time_limit(COMPONENT_SECONDS):
            diagnosis = diagnose(candidate)
        outcome = Outcome(candidate.kind)
        return self.results.of(name, source, function.__code__.co_firstlineno, function, outcome, diagnosis)

    def add(self, name: str, value: Any, source: Source, line: int) -> bool:
        value = as_it_is_judged(value)
        if outputs := mask_outputs.outputs_of(value):
            self.static |= {one: self.static[value] for _, one in outputs if value in self.static}
            for output, one in outputs:
                self.add(f"{name}.{output}", one, source, line)
            return True
        for method, function in (*grouping.methods_of(value), *training.methods_of(value), *methods.methods_of(value)):
            self.add(f"{name}.{method}", function, source, inspect.unwrap(function).__code__.co_firstlineno)
        for method, function in schedules.methods_of(value):
            self.add(f"{name}.{method}{RATES}", function, source, function.__code__.co_firstlineno)
        if (draw := methods.draw_of(value)) is not None:
            self.add(f"{name}{DRAW}", draw, source, line)
        only, as_kind = self.job.get("only"), self.job.get("as_kind")
        kinds = guess.kinds_of(name.rpartition(".")[2], value, KINDS)
        if only and name == only:
            kinds = (as_kind,) if as_kind else kinds
        elif as_kind and not only:
            kinds = (as_kind,) if as_kind in kinds else ()
        if draw is not None and methods.draws_once(value):
            return True  # it is judged as that
        if kinds:
            self.library.add(value, kinds)
            rank = len(self.order) if value in self.static else self.order[kinds[0]]  # once it is known what stops
            self.found.append((rank, name, value, kinds, source, line))
        makes_masks = self._note_masks(name, value, source)
        self._note_static(name, value, source)
        return bool(kinds) or makes_masks

    def _note_masks(self, name: str, value: Any, source: Source) -> bool:
        """The methods of a class that make masks: those that its forward calls only where the class stops.

        Whether that is all that the class is.
        """
        found = [*mask_methods.methods_of(value)]
        for method, function, is_reached in found:
            if is_reached:
                self.static[function] = value
            self.add(f"{name}.{method}", function, source, inspect.unwrap(function).__code__.co_firstlineno)
        return bool(found) and not issubclass(value, nn.Module)

    def _note_static(self, name: str, value: Any, source: Source) -> None:
        """The static methods of a class of modules, which are judged by themselves where the class stops."""
        for method, function in methods.static_of(value):
            kinds = guess.kinds_of(method, function, KINDS)
            is_mask = bool(mask_makers.kind_of(function))  # it is noted already
            if kinds and not is_mask and likeness.is_named(method, KINDS[kinds[0]]):
                self.static[function] = value
                line = function.__code__.co_firstlineno
                self.found.append((len(self.order), f"{name}.{method}", function, kinds, source, line))

    def _why_not(self, name: str, value: Any) -> str:
        """Why something that was found by its name is no part of a Transformer, if nobody said that it is one."""
        kinds = guess.kinds_of(name, value, KINDS)
        if not kinds or self.job.get("only") == name or self.job.get("as_kind"):
            return ""
        whys = (
            foreign.why_not(value),
            foreign.attends_to_nothing(value, kinds[0]),
            foreign.embeds_words(value, kinds[0]),
            foreign.writes_alone(value, kinds[0]),
        )
        why = next(filter(None, whys), "")
        is_done = kinds[0] == "GradientClipping" or writing.prints(value)  # it clips in place
        return "" if why == foreign.RETURNS_NOTHING and is_done else why

    # ---- Checking ----

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
        for entry in wanted[: last + 1]:  # what comes before may be a part of what is asked for
            identity = self._id(entry)
            if identity in self.job.get("skip", []):
                continue
            shown = entry in asked and identity not in self.job.get("done", [])
            self.emit("start", component=identity)
            result = self.component(entry)
            if shown and result is not None and self._is_nothing(result):
                self.emit("found", ignored=[f"{result.name} ({result.verdict})"], missing=[])
            elif shown and result is not None and self._only_reminds(entry[2], entry[3], result):
                is_told = (entry[4].path, result.name) in self.read or result.name.endswith(DRAW)  # as what has it
                why = sorts.left_of(entry[2], result.kind, result.verdict, result.problem or "", self._of(entry[4]))
                self.emit("found", ignored=[] if is_told else [f"{result.name} ({why})"], missing=[])
            elif shown and result is not None:
                self.emit("result", component=identity, result=result.document())

    def _is_nothing(self, result: Result) -> bool:
        """An exercise as it was handed out, or a piece of a function: that is said in one line.

        A result if somebody asks for it.
        """
        is_nothing = result.verdict.startswith(foreign.NOTHING)
        return is_nothing and self.job.get("only") != result.name

    def in_order(self) -> list[Entry]:
        """What was found, parts before wholes: by kind, and whatever one makes before it."""
        by_kind = sorted(self.found, key=lambda entry: (entry[0], entry[5]))
        ordered: list[Entry] = []
        visited: set[Any] = set()

        def visit(thing: Any) -> None:
            own = [entry for entry in by_kind if entry[2] is thing]
            if own and thing not in visited:
                visited.add(thing)
                for part in named_in(thing):
                    visit(part)
                ordered.extend(own)

        for entry in by_kind:
            visit(entry[2])
        return ordered

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
        if value in self.static and self.static[value] not in self.results.broken:
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
            with self.guard.on() if self.guard else nullcontext(), time_limit(COMPONENT_SECONDS):
                begin = clock.now()
                outcome = self._resolved(value, kinds)
                diagnosis = None
                if outcome.candidate is not None:
                    known, seconds = self.library.known_of(outcome.candidate.made), self._left_since(begin)
                    diagnosis = diagnose(outcome.candidate, known, seconds=seconds)
                    diagnosis = self._with_causal_flag(value, diagnosis)
                    diagnosis = causal_flags.with_flag(outcome.candidate, diagnosis)
                    diagnosis = added_masks.with_added(outcome.candidate, diagnosis, source.text, self._makers(value))
        except TimeUp:
            another = another_sort.lacks(self.library) or other_designs.design_of(value)
            if another and not self.job.get("only"):
                return unchecked(another)
            return unchecked("took too long", problem=f"Checking it took too long: {self._why_long()}")
        result = self.results.of(name, source, line, value, outcome, diagnosis)
        is_none = "" if self.job.get("only") else another_sort.name_of(value, outcome, result.verdict, self.library)
        if result.unexplained and (design := other_designs.design_of(value)):  # its numbers are to be others
            result.unexplained = False
            result.limits.append(f"It is {design}. What is named is all that was judged.")
        if not is_none:
            self.results.by_its_parts(result, value, outcome, source)
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

    def _learn(self, part: type) -> None:
        """What a part of another file is, without a report of its own: its mistakes are the whole's."""
        self.library.checked.add(part)
        self.results.learned.append(part)
        self._learn_now(part)
        self.behind.learned(part, lambda: self._learn_now(part))

    def _learn_now(self, part: type) -> None:
        library, kinds = self.library, self.library.guesses[part]
        library.heard.clear()
        with (
            contextlib.suppress(TimeUp, Exception),
            self.guard.on() if self.guard else nullcontext(),
            time_limit(MOST_PART),
        ):
            outcome = chosen(part, kinds, library, PART_SECONDS)
            candidate = outcome.candidate
            if candidate is None:
                self.results.why_broken(part, outcome)
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

    def _with_causal_flag(self, value: Any, diagnosis: Diagnosis) -> Diagnosis:
        """With the mistakes that only show if it is built with causal=True, where it has such an argument.

        A function that attends is not built: what would be made of its queries and keys are weights.
        """
        names = inputs.causal_flags(construct.parameters_of(value))
        if not names or not diagnosis.kind.endswith("Attention") or diagnosis.kind == "ScaledDotProductAttention":
            return diagnosis
        self.library.given = {**self.library.given, names[0]: True}
        outcome = resolve(value, KINDS["CausalSelfAttention"], self.library)
        if outcome.candidate is not None:
            outcome.candidate.is_causal_by_name = True
        found = diagnose(outcome.candidate).findings if outcome.candidate is not None else ()
        more = [f for f in found if f.severity == "mistake" and f.mistake.id not in diagnosis.ids]
        forms = [replace(f, form=f"{f.form}, with {names[0]}=True".removeprefix(", ")) for f in more]
        verdict = "mistake" if more else diagnosis.verdict
        return replace(diagnosis, findings=(*forms, *diagnosis.findings), verdict=verdict)

    def _resolved(self, value: Any, kinds: tuple[str, ...]) -> Outcome:
        fair = 2 * (self.end - clock.now()) / max(self.left, 1)
        self.left -= 1
        self.library.hurries = self._is_over
        self.library.heard.clear()
        self.library.most_weights = 0
        best = chosen(value, kinds, self.library, min(max(fair, self._least(LEAST_SECONDS)), SEARCH))
        self.library.checked.add(value)
        if best.candidate is not None:
            self.library.resolved[value] = best.candidate
        return best
