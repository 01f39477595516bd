"""Finds the components of sources: runs each, and notes what may be one, parts before wholes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from scratch_transformer.kit import no_modules, undefinable
from scratch_transformer.kit.arrays.classes import as_module
from scratch_transformer.kit.behind import Behind
from scratch_transformer.kit.definitions import is_module_class, named_in, source_of
from scratch_transformer.kit.discover import load, packages, siblings, survey, unvalidated
from scratch_transformer.kit.discover.load import Loaded
from scratch_transformer.kit.discover.sandbox import Guard
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.judge import scripts
from scratch_transformer.kit.kind import LAYERS, Finding
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.report.finding import HARMLESS, Result
from scratch_transformer.kit.resolve import adapters, foreign, guess, likeness, other_designs, sorts
from scratch_transformer.kit.resolve.call import holders
from scratch_transformer.kit.resolve.fitness import INSIDE
from scratch_transformer.kit.resolve.functions import (
    applied,
    bundled,
    configured,
    grouping,
    mask_makers,
    mask_methods,
    mask_outputs,
    methods,
    schedules,
    training,
    windows,
    with_optimizers,
    writing,
)
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.results import Results
from scratch_transformer.kit.results.locating import named

SCRIPT = "training script"
DRAW, RATES = ".sampling", ".schedule"
"""How the name of one draw ends, of a method that writes text; of the rates, of one that makes an optimizer too."""
LAST_ALONE = re.compile(r"(?<![.\w])\w+\[(:, *|\.\.\., *)?-1:\]")
"""The last word alone, of what a name stands for: idx[:, -1:]. Not the least of those drawn from: .values[:, -1:]."""
Emit = Callable[..., None]
Entry = tuple[int, str, Any, tuple[str, ...], Source, int]
"""Of a component: its kind's place, its name, itself, its kinds, its file and line."""


def as_it_is_judged(thing: Any) -> Any:
    """What stands for a class or function where it is not judged as it is written: a class of modules, a function."""
    as_written = writing.with_its_model(as_module(unvalidated.loosened(thing)))
    return applied.as_function(configured.told_one_by_one(bundled.told_one_by_one(as_written)))


class Found:
    """job: as in child.py. guard: of the sandbox. emit: where events go."""

    def __init__(self, job: dict[str, Any], guard: Guard | None, emit: Emit) -> None:
        self.job, self.guard, self.emit = job, guard, emit
        self.library = Library(KINDS)
        self.adapted: dict[str, tuple[adapters.Adapted, Source]] = {}
        self.found: list[Entry] = []
        self.read: set[tuple[str, str]] = set()
        """Files and functions of which the text has told already."""
        self.holders: list[tuple[str, Any, list[str]]] = []
        """Classes that are no components and have methods which may be, with the names of all of their file."""
        self.static: dict[Any, type] = {}
        """Static methods, and their classes."""
        self.order = {name: index for index, name in enumerate(KINDS)}
        self.results = Results(self.library, guard, job.get("only"))
        self.behind = Behind(self.results, guard)

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
                self.results.stopped.broken[value] = plain.ids[0]
                self._tell_at_once(f"{source.path}:{name}", plain)
                continue
            why = foreign.TAKEN if is_other else self._why_not(name, value)
            if why and not is_other and is_module_class(value) and not foreign.tests(value):
                self._add_writers(name, value, source, why)
            is_told = (source.path, name) in self.read
            if (why or not self.add(name, value, source, definitions[name].line)) and not is_told:
                why = why or foreign.of_own_tensors(value) or other_designs.of_parts(value)
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
        if holders.asks_for_a_class(loaded.module):
            for cls in siblings.classes_called(holders.NAMED, source, self.guard):
                vars(loaded.module).setdefault(cls.__name__, cls)  # as if it had imported it
        own = self._of(source)
        found = [name for _, name, _, _, other, _ in self.found if other.path == source.path]
        said = dict[str, str]()
        for name, (value, why) in unknown.items():
            if not why and sorts.judged_within(name, value, found):
                self.holders.append((name, value, found))
            else:
                is_known = why not in ("", foreign.RETURNS_NOTHING)  # what trains returns nothing, too
                said[name] = why if is_known else sorts.sort_of(name, value, own)
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
                    self.results.stopped.broken[node.name] = id
                self._tell_at_once(f"{loaded.source.path}:{node.name}", result)
        return ignored

    def _tell_at_once(self, identity: str, result: Result) -> None:
        """Of what is known without a trial, once, if it is asked for."""
        if identity not in self.job["done"] and self.job.get("only") in (None, result.name):
            self.emit("result", component=identity, result=result.document())

    def _read(self, source: Source) -> None:
        """Tells what the text of a training script shows, of each function once; it is not run for that."""
        texts = {other["path"]: other["text"] for other in self.job.get("sources", ())}
        texts |= {other.path: other.text for other in packages.leading_to(source)}
        others = [text for path, text in texts.items() if path != source.path]
        results: dict[str, Result] = {}
        for found in scripts.read(source.text, others):
            name, where = found.function or Path(source.path).stem, source.where(found.line)
            result = results.setdefault(
                name, Result(name, where, SCRIPT, HARMLESS, what="Trains a model. Read, not run.")
            )
            finding = Finding(MISTAKES[found.id], found.evidence, found.form, fix=found.fix)
            result.mistakes.append(named(finding, source, found.line))
            if finding.severity == "mistake":
                result.verdict = "mistake"
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

    def add(self, name: str, value: Any, source: Source, line: int) -> bool:
        if foreign.tests(value):
            return False
        value = as_it_is_judged(value)
        if outputs := mask_outputs.outputs_of(value):
            self.static |= {one: self.static[value] for _, one in outputs if value in self.static}
            for output, one in outputs:
                self.add(f"{name}.{output}", one, source, line)
            return True
        self._add_methods(name, value, source)
        draws = self._add_draw(name, value, source, line)
        only, as_kind = self.job.get("only"), self.job.get("as_kind")
        kinds = () if sorts.only_trains(value) else guess.kinds_of(name.rpartition(".")[2], value, KINDS)
        if name.endswith(RATES) or with_optimizers.makes_both(value):  # each of both is judged by itself
            both = schedules.KINDS if name.endswith(RATES) else with_optimizers.KINDS
            likeliest = [schedules.kind_of(value)] if name.endswith(RATES) else []
            kinds = tuple(dict.fromkeys(kind for kind in (*likeliest, *kinds) if kind in both))
        if only and name == only:
            kinds = (as_kind,) if as_kind else kinds
        elif as_kind and not only:
            kinds = (as_kind,) if as_kind in kinds else ()
        if draws and writing.is_straight(value):
            return True  # it is judged as that
        if kinds:
            self.library.add(value, kinds)
            rank = len(self.order) if value in self.static else self.order[kinds[0]]  # once it is known what stops
            self.found.append((rank, name, value, kinds, source, line))
        makes_masks = self._note_masks(name, value, source)
        if kinds or is_module_class(value):
            self._note_static(name, value, source)
        else:
            self._add_static(name, value, source)
        return bool(kinds) or makes_masks

    def _add_methods(self, name: str, value: Any, source: Source) -> None:
        """Those of a class that are judged by themselves."""
        self._add_writers(name, value, source)
        for method, function in (
            *grouping.methods_of(value),
            *training.methods_of(value),
            *configured.methods_of(value),
            *windows.methods_of(value),
        ):
            self.add(f"{name}.{method}", function, source, _line_of(function))
        for method, function in with_optimizers.of(value):
            self.add(f"{name}.{method}".rstrip(".") + RATES, function, source, _line_of(function))

    def _add_writers(self, name: str, value: Any, source: Source, why: str = "") -> None:
        """The methods of a class that write text; of some no more than how they draw their words.

        why: it is no part of a Transformer. What attends to nothing may write text, one word behind the other.
        """
        why = why or foreign.keeps_a_state(value)
        for method, function in methods.methods_of(value):
            given = f"{name}.{method}", function, source, _line_of(function)
            knows_one = LAST_ALONE.search(source_of(function)) and foreign.attends_to_nothing(value, "DecoderOnly")
            if knows_one or (why and not (why == foreign.NO_ATTENTION and methods.goes_on(function))):
                self._add_draw(*given)  # it knows nothing of the other words
            else:
                self.add(*given)

    def _add_draw(self, name: str, function: Any, source: Source, line: int) -> bool:
        """How a function that writes text draws its words, and no more of it; whether it draws them."""
        draw = methods.draw_of(function)
        if draw is not None:
            self.add(f"{name}{DRAW}", draw, source, line)
        return draw is not None

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

    def _add_static(self, name: str, value: Any, source: Source) -> None:
        """The static methods of a class that is no component, which are functions, wherever they stand."""
        found = {other for _, other, _, _, where, _ in self.found if where.path == source.path}
        for method, function in methods.static_of(value):
            if f"{name}.{method}" not in found:
                self.add(f"{name}.{method}", function, source, _line_of(function))

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
            foreign.loads_its_model(value, kinds[0]),
            sorts.without_its_model(value, kinds[0]),
        )
        why = next(filter(None, whys), "")
        is_done = kinds[0] == "GradientClipping" or writing.prints(value)  # it clips in place
        return "" if why == foreign.RETURNS_NOTHING and is_done else why

    def in_order(self) -> list[Entry]:
        """What was found, parts before wholes: by kind, and before each whatever it makes, or is called after it."""
        by_kind = sorted(self.found, key=lambda entry: (entry[0], entry[5]))
        ordered: list[Entry] = []
        visited: set[Any] = set()

        def visit(thing: Any) -> None:
            own = [entry for entry in by_kind if entry[2] is thing]
            if own and thing not in visited:
                visited.add(thing)
                for part in (*named_in(thing), *_layers_of(own[0], by_kind)):
                    visit(part)
                ordered.extend(own)

        for entry in by_kind:
            visit(entry[2])
        return ordered


def _layers_of(stack: Entry, among: list[Entry]) -> list[Any]:
    """The layers that one of layers may be given, which its code does not name: DecoderBlock, of Decoder(layers)."""
    _, name, thing, kinds, source, _ = stack
    if kinds[0] not in INSIDE or not isinstance(thing, type):
        return []
    alike = [one for one in among if one[4] is source and one[3][0].endswith(LAYERS) and one[1].startswith(name)]
    return [layer for _, _, layer, _, _, _ in alike]


def _line_of(function: Any) -> int:
    """The line on which a method begins."""
    line: int = inspect.unwrap(function).__code__.co_firstlineno
    return line
