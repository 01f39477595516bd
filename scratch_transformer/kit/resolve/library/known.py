"""What is known about a learner's code while it is checked: which class is what, and what was found out."""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import sys
import traceback
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from scratch_transformer.kit import clock
from scratch_transformer.kit.arrays.classes import as_module
from scratch_transformer.kit.arrays.libraries import reached
from scratch_transformer.kit.definitions import is_module_class, is_of_torch, namespace_of
from scratch_transformer.kit.judge.stops import undefined
from scratch_transformer.kit.kind import Diagnosis, Finding, Kind
from scratch_transformer.kit.kinds.inputs import EPS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.resolve.build import globals as outside
from scratch_transformer.kit.resolve.build.config import is_number
from scratch_transformer.kit.resolve.call import beside, calling
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.functions import decoders, rotations
from scratch_transformer.kit.resolve.functions.weighted import Weighted
from scratch_transformer.kit.resolve.library import supplied
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.trial import MISTAKEN, NOTHING, Trial
from scratch_transformer.kit.resolve.weights.layout import walk

MOST_HEARD = 40
NORMS = (nn.LayerNorm, nn.RMSNorm)
SHOWN: dict[type, tuple[str, Mapping[str, Any]]] = {
    nn.LayerNorm: ("LayerNorm", {"norm_kind": "norm"}),
    nn.RMSNorm: ("RMSNorm", {"norm_kind": "rms"}),
    nn.ReLU: ("FeedForward", {"activation": "relu"}),
    nn.SiLU: ("FeedForward", {"activation": "silu"}),
}
"""What torch's own modules show of the whole that they are in."""


class Known:
    """Classes with their kinds, in the order in which they were found.

    given: constructor arguments that a person has fixed. diagnoses: of what was diagnosed already.
    """

    def __init__(self, kinds: Mapping[str, Kind], given: Mapping[str, Any] | None = None) -> None:
        self.kinds = kinds
        self.given = dict(given or {})
        self.guesses: dict[Any, tuple[str, ...]] = {}
        self.resolved: dict[Any, Resolved] = {}
        self.choices: dict[type, int] = {}
        self.given_parts: dict[type, list[type]] = {}
        """Of classes whose constructors are given parts: those of files beside theirs that may be meant."""
        self.designs: dict[Any, str] = {}
        """Of what is of a design that is not known here, which; what has it is of that, too."""
        self.diagnoses: dict[Any, Diagnosis] = {}
        self.replaced: list[tuple[Any, str, int]] = []
        """What was tried with the reference in place of its unclear parts, as which kind, and how many tiers far."""
        self.rewritten: dict[Any, str] = {}
        """Classes that have a size written in which ours took the place of, with a sentence on it."""
        self.most_weights = 0
        """Of what was made of the component at hand."""
        self.silent: list[Diagnosis] = []
        """Of parts that have no report of their own."""
        self.checked: set[Any] = set()
        """What was looked at, whatever came of it."""
        self._globals: dict[tuple[str, int], set[str]] = {}
        self._written: dict[str, dict[str, Any]] = {}
        """Module -> the numbers that its file gives to the globals that are set to ours."""
        self._trials: dict[Any, Trial] = {}
        self._building: list[Any] = []
        self._tables: dict[Any, list[tuple[Tensor, ...]]] = {}
        self.supplied: list[str] = []
        """What the reference stands in for at the moment."""
        self._stand_ins: dict[Any, type] = {}
        self.stand_ins: dict[Any, Any] = {}
        """Part -> the class that makes the reference in its place, at the moment."""
        self.gives_targets = False
        """Whether language models are only called with targets, as in training."""
        self.leaves_out = False
        """Whether the network that a model has besides its layers is left out."""
        self.one_length = False
        """Whether what is tried works with one length alone: then what it stops with says nothing."""
        self.heard: dict[Any, BaseException] = {}
        """What the component at hand stopped with, in whatever ways it was built and called."""
        self.answers = 0
        """How many of all ways to call something gave numbers so far."""
        self.stopped: dict[Any, Any] = {}
        """What came of the component at hand where every way to build and call it stops, however far one looks."""
        self.thorough = True
        self.hurries = False
        """Whether the file's time is long over: then nothing gets more of it for a second attempt."""
        self.deadline = float("inf")

    # ---- Effort ----

    def allow(self, seconds: float, thorough: bool) -> None:
        """So much computing from now on. thorough: look for mistakes also, beyond what is right and its parts' ones."""
        self.deadline, self.thorough = clock.now() + seconds, thorough

    def begin(self) -> None:
        """With another component, or with the same one as its code is now."""
        self.heard.clear()
        self.stopped.clear()
        self.most_weights = 0

    @property
    def most_tiers(self) -> int:
        """Tiers of a trial to look through."""
        return NOTHING if self.thorough else MISTAKEN

    @property
    def is_late(self) -> bool:
        """Whether the time for the component at hand is used up."""
        return clock.now() > self.deadline

    def hear(self, error: BaseException) -> None:
        """Note what a way to build or call the component at hand stopped with, while no part is the reference's."""
        if not self.supplied and len(self.heard) < MOST_HEARD:
            place = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)][-3:]
            self.heard.setdefault((type(error), *place), error)

    def note_size(self, made: Any) -> None:
        """Note how many weights the component at hand has, as it is built."""
        if isinstance(made, nn.Module):
            own = (values.numel() for values in made.parameters() if not is_lazy(values))
            self.most_weights = max(self.most_weights, sum(own))

    # ---- What is known ----

    def add(self, thing: Any, kinds: tuple[str, ...]) -> None:
        """A class or function of the learner's; what may be nothing is left out."""
        if kinds:
            self.guesses[thing] = kinds

    def kind_of_class(self, cls: type) -> str | None:
        if issubclass(cls, (Weighted, supplied.Supplied)):
            return cls.kind_name
        if cls in self.resolved:
            return self.resolved[cls].kind.name
        guesses = self.guesses.get(cls)
        return guesses[0] if guesses else None

    def is_called_by_module(self, function: Any) -> bool:
        """Whether a method of one of the learner's modules calls a function, or has it: then it is given batches."""
        name = getattr(function, "__name__", "")
        modules = (cls for cls in self.guesses if is_module_class(cls))
        here = [cls for cls in modules if cls.__module__ == getattr(function, "__module__", None)]
        has_it = any(getattr(vars(cls).get(name), "__func__", None) is function for cls in here)
        return bool(name) and (has_it or any(name in read_by_class(cls) for cls in here))

    def parts_of(self, made: Any, idle: Collection[type] = ()) -> tuple[Diagnosis, ...]:
        """What was found out about the classes of a module's submodules, and the functions that it calls.

        idle: classes that are left out.
        """
        function = made.function if isinstance(made, Weighted) else made
        if inspect.isfunction(function):
            called = [one for one in reached(function) if one is not inspect.unwrap(function)]
            return tuple(self.diagnoses[one] for one in called if one in self.diagnoses)
        if not isinstance(made, nn.Module):
            return ()
        classes = dict.fromkeys(type(part) for _, part in walk(made))
        read = {name for cls in classes if cls in self.guesses for name in read_by_class(cls)}
        functions = [thing for thing in self.diagnoses if not isinstance(thing, type) and thing.__name__ in read]
        parts = [thing for thing in (*classes, *functions) if thing is not type(made) and thing not in idle]
        return tuple(self.diagnoses[thing] for thing in parts if thing in self.diagnoses)

    def known_of(self, made: Any) -> tuple[Diagnosis, ...]:
        """The same, and what the norms in it are told: their ε."""
        modules = list(made.modules()) if isinstance(made, nn.Module) else []
        norms = [(kind, part) for part in modules if part is not made and (kind := self._norm_of(type(part)))]
        told = dict.fromkeys((kind, eps) for kind, norm in norms for eps in _eps_of(norm) if eps != EPS)
        along = any(self._counts_rows(type(part)) or _is_length_first(part) for part in modules if part is not made)
        return (*self.parts_of(made), *(_of_eps(*one) for one in told), *_of_torch(modules), *([ROWS] if along else []))

    def _counts_rows(self, cls: type) -> bool:
        """Whether it takes positions along the first dimension: in a whole that is batch first, along the batch."""
        one = self.resolved.get(cls)
        return one is not None and one.kind.name == "PositionalEncoding" and one.plan.order == "sequence first"

    def _norm_of(self, cls: type) -> str:
        """The kind of a normalization; "" for anything else."""
        kind = cls.__name__ if issubclass(cls, NORMS) else self.kind_of_class(cls) or ""
        return kind if kind in ("LayerNorm", "RMSNorm") else ""

    def polarities(self, made: Any) -> list[str]:
        """Of the masks that a module's parts take."""
        classes = {type(part) for _, part in walk(made)} if isinstance(made, nn.Module) else set()
        plans = [candidate.plan for cls, candidate in self.resolved.items() if cls in classes]
        return list(dict.fromkeys(form.polarity for plan in plans for _, form in plan.masks.values()))

    def trial(self, kind: Kind, settings: Mapping[str, Any], made: Any = None) -> Trial:
        """The trial for something that was made, its parts' mistakes and designs known."""
        parts = self.known_of(made)
        key = (
            kind.name,
            kind.today is None,
            tuple(sorted((n, str(v)) for n, v in settings.items())),
            tuple((part.kind, part.recipe) for part in parts),
        )
        if key not in self._trials:
            self._trials[key] = Trial(kind, settings, parts)
        self._trials[key].until = self.deadline
        self._trials[key].one_length = self.one_length
        return self._trials[key]

    def tables(self, function: Any, settings: Mapping[str, Any]) -> list[tuple[Tensor, ...]]:
        """Of angles, for a forward that takes one: those that the learner's code makes, then the usual ones."""
        heads = settings.get("num_heads") or 1
        d_k = settings.get("d_k") or settings.get("d_model", 4 * heads) // heads
        rows, base = int(settings.get("max_len", calling.ROWS)), float(settings.get("rope_base", 10000.0))
        module = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__module__", "") or ""
        key = module, rows, d_k, base
        if key not in self._tables:
            namespace = vars(sys.modules.get(module, types.ModuleType("none")))
            own = rotations.made_by(namespace, module, rows, d_k, base)
            self._tables[key] = [*own, *beside.usual(rows, d_k, base)] if d_k % 2 == 0 else own
        return self._tables[key]

    def namespace_of(self, thing: Any) -> dict[str, Any]:
        """The globals of its file; a class of NumPy's arrays as the class of modules that stands for it."""
        own = namespace_of(thing).items()
        return {name: as_module(value) if isinstance(value, type) else value for name, value in own}

    @property
    def head_logs(self) -> bool | None:
        """Whether the projection that was found ends in log_softmax; None without one."""
        found = [c for c in self.resolved.values() if c.kind.name == "Projection"]
        return any(decoders.gives_log_probabilities(c.made, c.settings["d_model"]) for c in found) if found else None

    # ---- Globals ----

    def set_globals(self, thing: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Sets the module-level hyperparameters that the code of a class reads to our settings.

        Returns the values of those that say what padding is.
        """
        pads, sides = dict[str, Any](), dict[str, Any]()
        for module in self._modules_of(thing):
            namespace = vars(module)
            if (module.__name__, len(namespace)) not in self._globals:
                missing = undefined.never_defined(module)  # a size that is written without its self. stops
                self._globals[module.__name__, len(namespace)] = _global_names(namespace) - missing
            names = self._globals[module.__name__, len(namespace)]
            numbers = {name: namespace[name] for name in names & namespace.keys() if is_number(namespace[name])}
            self._written.setdefault(module.__name__, numbers)
            changed = outside.override(namespace, names, settings, set(namespace))
            of_padding = [value for name, value in changed.items() if "pad" in settings_of(name)]
            pads |= dict.fromkeys(["pad"], of_padding[-1]) if of_padding else {}
            sides |= {side: value for name, value in changed.items() for side in {*SIDES} & {*settings_of(name)[:1]}}
        return sides if sides.keys() == {*SIDES} else pads

    @contextlib.contextmanager
    def globals_of(self, thing: Any, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> Iterator[None]:
        """Meanwhile the hyperparameters outside of constructors are these, then the usual ones again."""
        self.set_globals(thing, settings)
        try:
            yield
        finally:
            self.set_globals(thing, usual)

    @contextlib.contextmanager
    def globals_as_written(self, thing: Any) -> Iterator[bool]:
        """Meanwhile the numbers outside of constructors are the file's own; whether there are such that were others."""
        modules = [module for module in self._modules_of(thing) if module.__name__ in self._written]
        own = [(vars(module), self._written[module.__name__]) for module in modules]
        before = [{name: namespace[name] for name in numbers} for namespace, numbers in own]
        for namespace, numbers in own:
            namespace.update(numbers)
        try:
            yield any(numbers != ours for (_, numbers), ours in zip(own, before, strict=True))
        finally:
            for (namespace, _), ours in zip(own, before, strict=True):
                namespace.update(ours)

    def classes_beside(self, thing: Any) -> list[type]:
        """The learner's other classes, among them configs."""
        values = [value for module in self._modules_of(thing) for value in vars(module).values()]
        return [one for one in values if isinstance(one, type) and not is_of_torch(one)]

    def _modules_of(self, thing: Any) -> list[types.ModuleType]:
        """The one that defines it, and those of the learner's that this takes something from."""
        own = sys.modules.get(getattr(thing, "__module__", ""))
        if own is None:
            return []
        folder = str(Path(getattr(own, "__file__", None) or "/nowhere/at.all").parent)
        found = [own]
        for module in found:
            names = dict.fromkeys(str(getattr(value, "__module__", "")) for value in list(vars(module).values()))
            others = (sys.modules[name] for name in names if name in sys.modules)
            beside = (one for one in others if str(Path(getattr(one, "__file__", None) or "/").parent) == folder)
            found += [one for one in beside if one not in found]
        return found


SIDES = ("src_pad", "tgt_pad")
"""What two globals say padding is, SRC_PAD_IDX and TGT_PAD_IDX; one alone says it of both languages."""
ROWS = Diagnosis("PositionalEncoding", "mistake", 0.0, "the reference",
                 (Finding(MISTAKES["P4"], "Its table has a row for each of the first dimension."),),
                 recipe=RIGHT.with_({"position_axis": "batch"}))  # fmt: skip


def _of_eps(kind: str, eps: float) -> Diagnosis:
    form = f"{eps:g}".replace("e-0", "e-")
    finding = Finding(MISTAKES["LN3"], f"It is built with eps={form}.", form)
    recipe = RIGHT.with_({"eps": eps, "norm_kind": "rms" if kind == "RMSNorm" else "norm"})
    return Diagnosis(kind, "harmless deviation", 0.0, f"torch.nn.{kind}", (finding,), recipe=recipe)


def _global_names(namespace: Mapping[str, Any]) -> set[str]:
    """Globals that the functions and methods of a module read."""
    names: set[str] = set()
    for value in list(namespace.values()):
        if isinstance(value, type):
            names |= read_by_class(value)
        else:
            names |= read_by(value)
    return names


def read_by_class(cls: type) -> set[str]:
    """The globals that the methods of a class read."""
    members = (m.__func__ if isinstance(m, staticmethod | classmethod) else m for m in vars(cls).values())
    return {name for member in members for name in read_by(member)}


def read_by(function: Any) -> set[str]:
    """The globals that a function reads; none for anything else."""
    return set(_globals_of(function.__code__)) if isinstance(function, types.FunctionType) else set()


@functools.lru_cache(maxsize=4096)
def _globals_of(code: types.CodeType) -> frozenset[str]:
    read = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            read |= {i.argval for i in dis.get_instructions(constant) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return frozenset(str(name) for name in read)


def _eps_of(norm: nn.Module) -> Iterator[float]:
    """What a norm adds to the variance, as far as an attribute tells."""
    values = [norm.eps] if isinstance(norm, NORMS) else [vars(norm)[n] for n in vars(norm) if "eps" in settings_of(n)]
    yield from (value for value in values if isinstance(value, float))


def _is_length_first(part: nn.Module) -> bool:
    """Whether it is torch's attention without batch_first=True, which what counts positions may not know of."""
    return isinstance(part, nn.MultiheadAttention) and not part.batch_first


def _of_torch(modules: Sequence[nn.Module]) -> tuple[Diagnosis, ...]:
    """The choices that torch's own norms and activations show."""
    found = dict.fromkeys(type(part) for part in modules if type(part) in SHOWN)
    shown = [(SHOWN[type_][0], RIGHT.with_(SHOWN[type_][1])) for type_ in found]
    return tuple(Diagnosis(kind, "matches the builtin", 0.0, kind, recipe=recipe) for kind, recipe in shown)
