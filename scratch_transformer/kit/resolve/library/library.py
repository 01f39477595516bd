"""What is known about a learner's code while it is checked: which class is what, and how each was built."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_own, named_in, parameters_of
from scratch_transformer.kit.kind import Candidate, Kind
from scratch_transformer.kit.resolve import fitness, foreign, guess, likeness
from scratch_transformer.kit.resolve.build import asked, config, construct
from scratch_transformer.kit.resolve.build import globals as outside
from scratch_transformer.kit.resolve.build.values import GENERAL
from scratch_transformer.kit.resolve.call import forwards, held
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.functions import sizes
from scratch_transformer.kit.resolve.functions.weighted import Weighted
from scratch_transformer.kit.resolve.library import alone, around, supplied
from scratch_transformer.kit.resolve.library.known import read_by, read_by_class
from scratch_transformer.kit.resolve.library.parts import Parts
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain


class Library(Parts):
    """Knows the learner's classes, makes parts of composites, and builds the same classes again, set up otherwise."""

    def rebuilder(self, made: Any, kind: Kind, settings: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Candidate]:
        """Builds the same class with other settings. Whatever its constructor raises is passed on."""
        cls = made if isinstance(made, types.FunctionType) else type(around.within(made))
        lent = dict(self.stand_ins)

        def rebuild(changes: Mapping[str, Any]) -> Candidate:
            if not isinstance(cls, type) or isinstance(made, Weighted):
                if changes.keys() == {"d_model"} and sizes.widened(made, changes["d_model"]):
                    return self.resolved[made]
                raise KeyError(f"{kind.name} is a function")
            parameters = construct.parameters_of(cls)
            known = {name for p in parameters for name in (*settings_of(p.name), plain(p.name), p.name)}
            is_outside = not known >= changes.keys() and not any(config.is_config(p) for p in parameters)
            if is_outside and changes.keys() != {"dropout"}:
                raise KeyError(f"{cls.__name__} has no {', '.join(changes)}")
            wanted = {**settings, **changes}
            flags = {name: value for name, value in changes.items() if name not in GENERAL}
            kept = {n: v for n, v in self.given.items() if not changes.keys() & {*settings_of(n), plain(n)}}
            given = {**kept, **flags}
            names, parts = self.namespace_of(cls), self.parts(kind, cls)
            attempt = next(construct.attempts(cls, wanted, names, parts, given, "memory" in kind.inputs))
            are_outside = self.globals_of(cls, wanted, settings) if is_outside else contextlib.nullcontext()
            with are_outside, self._standing_in(lent):
                again = around.as_before(attempt.build(), made, wanted)
            heard = {"dropout"} if is_outside and outside.drops_as_told(again, changes["dropout"]) else set()
            if not known | attempt.used.keys() | heard >= changes.keys():
                raise KeyError(f"the config of {cls.__name__} has no {', '.join(changes)}")
            adopted = self._adopt(again, kind, wanted, changes)
            if not any(isinstance(value, (nn.Module, list, tuple)) for value in attempt.args.values()):
                unread = {"num_heads"} if asked.is_one_head(cls) else set()  # of a config that others read
                named = given.keys() & changes.keys() & attempt.args.keys()
                adopted.told = frozenset({*attempt.used, *named}) - unread  # what is given its parts need not listen
            return adopted

        return rebuild

    def as_its_parts(
        self, thing: Any, wanted: list[dict[str, Any]], given: Mapping[str, Any] | None
    ) -> list[dict[str, Any]]:
        """The settings to try, those first with which its parts were understood, or what is made of the same."""
        if given or not isinstance(thing, type) or not {"d_model", "num_heads"} <= wanted[0].keys():
            return wanted
        made = self._made_by(thing)
        alike = [cls for cls in self.resolved if isinstance(cls, type) and made & self._made_by(cls)]
        parts = [self.resolved[cls] for cls in (*made, *alike) if cls in self.resolved]
        parts.sort(key=lambda part: part.kind.name.endswith("Attention"))  # which is told how many heads it has
        known = [part.settings for part in parts if part.explained is not None]
        sizes = [size for size in known if {"d_model", "num_heads"} <= size.keys()]
        several = [size for size in sizes if size["num_heads"] > 1]
        is_alone = asked.is_one_head(thing) or asked.is_told_of_no_heads(thing)
        alone = [size for size in sizes if size["num_heads"] == 1] if is_alone else []
        as_parts = [{**wanted[0], **{n: size[n] for n in ("d_model", "num_heads")}} for size in several or alone]
        found: list[dict[str, Any]] = []
        for some in (*as_parts, *wanted):
            found += [some] if some not in found else []
        return found

    def is_of_today(self, made: Any) -> bool:
        """Whether a part was found to be of today's models, whatever it is called: class Norm, that is RMSNorm."""
        return any(part.kind in fitness.TODAY_ALONE or part.recipe.gated for part in self.parts_of(made))

    def has_mistakes_within(self, made: Any) -> bool:
        """Whether a part of it is known to have some, which may explain the whole together."""
        return any(f.severity == "mistake" for part in self.parts_of(made) for f in part.findings)

    def attends(self, cls: type) -> bool:
        """Whether a class makes an attention of the learner's."""
        return any(self.guesses[part][0].endswith("Attention") for part in self._made_by(cls) if self.guesses[part])

    def _made_by(self, cls: type) -> set[type]:
        """The learner's classes of which a class makes instances."""
        names = self.namespace_of(cls)
        return {value for name in read_by_class(cls) if isinstance(value := names.get(name), type)} & {*self.guesses}

    # ---- Parts that are missing or broken ----

    def at_fault(self, error: BaseException | None, thing: Any) -> tuple[str, Any, str] | None:
        """The part in which an error happened, or that is not there: its name, itself, its kind. None if no part is."""
        missing = getattr(error, "placeholder", None)
        if missing is not None:
            names = (n for n, value in self.namespace_of(thing).items() if value is missing)
            named = ((name, likeness.kind_named(name, self.kinds)) for name in names)
            return next(((name, missing, kind) for name, kind in named if kind), None)
        parts = {part: kinds for part, kinds in self.guesses.items() if not self._works(part)}
        part = supplied.culprit(error, thing, parts)
        if part is None or supplied.is_whole_sublayer(part, self.guesses[part][0]):
            return None
        return part.__name__, part, self.guesses[part][0]

    def _works(self, part: Any) -> bool:
        """Whether it was built and called by itself: then what stops is the way in which the whole calls it."""
        found = self.resolved.get(part)
        return found is not None and all("takes no mask" in limit for limit in found.limits)

    def imported_parts(self, thing: Any, own: Sequence[Any]) -> list[type]:
        """The classes that something is made of, or builds, and that nobody has looked at; parts before wholes."""
        found: list[type] = []
        seen: set[Any] = set()

        def visit(one: Any) -> None:
            names = self.namespace_of(one)
            read = read_by_class(one) if isinstance(one, type) else read_by(one)
            made = [names.get(name) for name in sorted(read)]
            made += [own for own in named_in(one) if isinstance(own, type)]  # attention.MultiHead(…), of another file
            made += self._handed(names) if one is thing and _is_handed_parts(one) else []
            for function in filter(inspect.isfunction, () if isinstance(one, type) else named_in(one)):
                if function not in seen:  # get_model(config) calls build_model(…)
                    seen.add(function)
                    visit(function)
            for base in one.__mro__[1:] if isinstance(one, type) else ():
                if base not in seen and _is_of_a_learner(base):  # whose constructor makes its parts, in its own file
                    seen.add(base)
                    visit(base)
            for part in (*made, *self.given_parts.get(one, ()), *construct.annotated(one)):
                if isinstance(part, type) and part not in self.guesses and _is_of_a_learner(part):
                    self.add(part, self._kinds_of_part(part))
                if not isinstance(part, type) or part is thing or part in seen or part in self.checked:
                    continue
                if self.guesses.get(part) and not any(part is other for other in own):
                    seen.add(part)
                    visit(part)
                    found.append(part)

        visit(thing)
        return found

    def _kinds_of_part(self, part: type) -> tuple[str, ...]:
        """What a class of another file may be; nothing, if it is called attention and attends to nothing."""
        kinds = guess.kinds_of(part.__name__, part, self.kinds)
        return () if kinds and foreign.attends_to_nothing(part, kinds[0]) else kinds

    def _handed(self, names: Mapping[str, Any]) -> list[type]:
        """The classes of other files among some names, which may be handed to what is made of parts."""
        classes = (value for value in names.values() if isinstance(value, type) and self.guesses.get(value))
        return [cls for cls in classes if _is_of_a_learner(cls) and cls.__module__ != names.get("__name__")]

    def whole_sublayers(self, thing: Any) -> dict[type, str]:
        """The attentions and networks that a class is made of, and that have their residual inside -> their kinds."""
        found: dict[type, str] = {}
        waiting, seen = [thing], {thing}
        while waiting:
            one = waiting.pop()
            for part in self._made_by(one) - seen:
                seen.add(part)
                diagnosis = self.diagnoses.get(part)
                if diagnosis is not None and re.search(r"residual.* inside", diagnosis.design):
                    found[part] = diagnosis.kind
                waiting.append(part)
        return found

    def unclear_parts(self, thing: Any) -> dict[type, str]:
        """The classes that a class is made of, however deep, and that nothing explained -> their kinds."""
        found: dict[type, str] = {}
        waiting, seen = [thing], {thing}
        while waiting:
            one = waiting.pop()
            names = self.namespace_of(one)
            for name in read_by_class(one) if isinstance(one, type) else ():
                part = names.get(name)
                if not isinstance(part, type) or part in seen or part not in self.guesses:
                    continue
                seen.add(part)
                diagnosis = self.diagnoses.get(part)
                is_open = diagnosis is None or diagnosis.verdict == "unknown mismatch"
                if part in self.checked and is_open and not supplied.is_whole_sublayer(part, self.guesses[part][0]):
                    in_encoder = "enc" in plain(getattr(thing, "__name__", ""))  # what hides nothing there
                    kind = self.guesses[part][0]
                    found[part] = "SelfAttention" if in_encoder and kind == "CausalSelfAttention" else kind
                else:
                    waiting.append(part)
        return found

    def conventions(self, part: Any, kind: str) -> tuple[bool, ...]:
        """Whether a part gives the positions alone, to be added by whoever calls it; both where that is not known."""
        if kind != "PositionalEncoding":
            return (False,)
        known = self.resolved.get(part)
        said = alone.returns_alone(part) if known is None or known.kind.name != kind else known.returns_alone
        return (False, True) if said is None else (said,)

    @contextlib.contextmanager
    def supplying(
        self, name: str, part: Any, kind: str, settings: Mapping[str, Any], pair: bool, is_alone: bool = False
    ) -> Iterator[None]:
        """The reference in place of a part, wherever the learner's code names it."""
        new = self._stand_in_for(kind, part, pair, is_alone, settings)
        self.supplied.append(name)
        try:
            with self._standing_in({part: new}):
                yield
        finally:
            self.supplied.remove(name)

    def _stand_in_for(self, kind: str, part: Any, pair: bool, is_alone: bool, settings: Mapping[str, Any]) -> type:
        """The class that makes the reference in its place: one and the same for the same question."""
        asked_for = kind, part, pair, is_alone, *settings.items()
        if asked_for not in self._stand_ins:
            self._stand_ins[asked_for] = supplied.class_of(self.kinds[kind], settings, pair, part=part, alone=is_alone)
        return self._stand_ins[asked_for]

    @contextlib.contextmanager
    def _standing_in(self, lent: Mapping[Any, type]) -> Iterator[None]:
        """These classes in place of the learner's."""
        modules = {getattr(thing, "__module__", "") for thing in self.guesses} if lent else ()
        namespaces = [vars(sys.modules[module]) for module in modules if module in sys.modules]
        before = self.stand_ins
        self.stand_ins = {**before, **lent}
        try:
            with contextlib.ExitStack() as places:
                for part, new in lent.items():
                    places.enter_context(supplied.in_place(namespaces, part, new))
                yield
        finally:
            self.stand_ins = before

    def _adopt(self, made: Any, kind: Kind, settings: Mapping[str, Any], changes: Mapping[str, Any]) -> Candidate:
        """Something built again, called as before; its weights are looked for anew, by name only, where they differ."""
        from scratch_transformer.kit.resolve.build import instance
        from scratch_transformer.kit.resolve.weights import align
        from scratch_transformer.kit.resolve.weights.layout import Layout, Parameters, prepare

        cls = type(around.within(made))
        before = self.resolved.get(cls)
        if before is None:
            raise KeyError(f"{cls.__name__} is not known yet")
        prepare(made)
        settings = {**{name: settings[name] for name in settings if name in kind.defaults}, **_extra(settings)}
        candidate = Resolved(kind, made, settings, before.plan)
        candidate.post, candidate.last_of = before.post, before.last_of
        told = forwards.told_otherwise(made) if isinstance(made, nn.Module) else None
        candidate.function = held.of_held(made) or told or made
        parameters = candidate.parameters = Parameters(made)

        def look() -> tuple[Layout, frozenset[str]]:
            try:
                shapes = self.trial(kind, instance.settings_of_instance(made, kind, settings, settings), made).shapes
            except (AssertionError, ValueError, RuntimeError):  # refused by the reference: 3 heads for d_model = 14
                shapes = {}
            layout: Layout = {}
            if changes.keys() == {"dropout"} and before.kind is kind and parameters.are_placed_as(before.parameters):
                layout = before.layout
            elif shapes:
                options = align.layouts(parameters, shapes, kind.complete(settings), self.kind_of_class, self.choices)
                layout = next(iter(options), ("", layout))[1]
            return layout, frozenset(shapes.keys() - layout.keys())

        candidate.look_for_layout = look  # most are only asked for their parameters, or called as they are
        return candidate


def _is_handed_parts(thing: Any) -> bool:
    """Whether a constructor is to be given what is no setting: def __init__(self, attention, feed_forward)."""
    required = [p for p in parameters_of(thing) if isinstance(thing, type) and p.default is p.empty]
    return any(not settings_of(p.name) and p.annotation in (p.empty, nn.Module) for p in required)


def _is_of_a_learner(cls: type) -> bool:
    return issubclass(cls, nn.Module) and is_own(cls) and not cls.__module__.startswith("scratch_transformer.")


def _extra(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in ("dropout", "bias") if name in settings}
