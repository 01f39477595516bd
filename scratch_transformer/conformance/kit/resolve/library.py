"""What is known about a learner's code while it is checked: which class is what, and how each was built."""

from __future__ import annotations

import copy
import functools
import inspect
import re
import sys
import time
import types
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from scratch_transformer.conformance.kit.kind import Candidate, Diagnosis, Kind
from scratch_transformer.conformance.kit.resolve import arrays, config, construct, decoders, sizes
from scratch_transformer.conformance.kit.resolve.candidate import Resolved
from scratch_transformer.conformance.kit.resolve.layout import walk
from scratch_transformer.conformance.kit.resolve.synonyms import plain, settings_of
from scratch_transformer.conformance.kit.resolve.trial import MISTAKEN, NOTHING, Trial
from scratch_transformer.conformance.kit.resolve.weights import Weighted

PARTS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("srcattn", "crossatt", "encdecatt", "memoryatt", "encatt"), ("MultiheadAttention", "CrossAttention")),
    (("attn", "attention", "mha", "selfatt"), ("MultiheadAttention", "SelfAttention", "CausalSelfAttention")),
    (("feedforward", "ffn", "ff", "mlp", "posffn", "positionwise", "pointwise"), ("FeedForward",)),
    (("norm", "ln"), ("LayerNorm", "RMSNorm")),
    (("encoderlayer", "encoderblock"), ("EncoderLayer",)),
    (("decoderlayer", "decoderblock"), ("DecoderLayer", "DecoderOnlyBlock")),
    (("encoder",), ("Encoder", "TokenEncoder")),
    (("decoder",), ("Decoder", "TokenDecoder")),
    (("pos",), ("PositionalEncoding",)),
    (("embed", "emb"), ("Embedding", "InputEmbedding")),
    (("generator", "projection", "proj", "output", "linear"), ("Projection",)),
)
"""What a constructor's parameter may mean: words in its name -> kinds."""
WITHIN: dict[str, tuple[str, ...]] = {
    "EncoderLayer": ("FeedForward", "MultiheadAttention"),
    "DecoderLayer": ("FeedForward", "MultiheadAttention"),
    "DecoderOnlyLayer": ("FeedForward", "CausalSelfAttention"),
}
"""What a layer is made of, for a required parameter whose name says nothing."""
NO_PART = re.compile(
    r"^(return|output|log|use|using|need|with|is|has|num|save|store|verbose|share|tie)(?!put)|"
    r"(weights?|types?|modes?|names?|dropout|drop|prob|sizes?|dims?|len|length|scores?|maps?|probs)$"
)
"""Names that speak of a part without asking for one: attention_dropout, embed_size, log_attention_weights."""
OUTPUTS = ("generator", "projection", "projectionlayer", "proj", "output", "outputlayer")
LAYERS = ("layers", "layer", "blocks", "block")


class Library:
    """Classes with their kinds, in the order in which they were found.

    given: constructor arguments that a person has fixed. diagnoses: of what was diagnosed already.
    """

    def __init__(self, kinds: Mapping[str, Kind], given: Mapping[str, Any] | None = None) -> None:
        self.kinds = kinds
        self.given = dict(given or {})
        self.guesses: dict[Any, tuple[str, ...]] = {}
        self.resolved: dict[Any, Resolved] = {}
        self.choices: dict[type, int] = {}
        self.diagnoses: dict[Any, Diagnosis] = {}
        self._trials: dict[Any, Trial] = {}
        self._building: list[Any] = []
        self.thorough = True
        self._deadline = float("inf")

    # ---- Effort ----

    def allow(self, seconds: float, thorough: bool) -> None:
        """So much computing from now on. thorough: look for mistakes also, beyond what is right and its parts' ones."""
        self._deadline, self.thorough = time.process_time() + seconds, thorough

    @property
    def most_tiers(self) -> int:
        """Tiers of a trial to look through."""
        return NOTHING if self.thorough else MISTAKEN

    @property
    def is_late(self) -> bool:
        """Whether the time for the component at hand is used up."""
        return time.process_time() > self._deadline

    # ---- What is known ----

    def add(self, thing: Any, kinds: tuple[str, ...]) -> None:
        self.guesses[thing] = kinds

    def kind_of_class(self, cls: type) -> str | None:
        if issubclass(cls, Weighted):
            return cls.kind_name
        if cls in self.resolved:
            return self.resolved[cls].kind.name
        guesses = self.guesses.get(cls)
        return guesses[0] if guesses else None

    def parts_of(self, made: Any) -> tuple[Diagnosis, ...]:
        """What was found out about the classes of a module's submodules, and the functions that it calls."""
        function = made.function if isinstance(made, Weighted) else made
        if inspect.isfunction(function):
            called = [one for one in arrays.reached(function) if one is not inspect.unwrap(function)]
            return tuple(self.diagnoses[one] for one in called if one in self.diagnoses)
        if not isinstance(made, nn.Module):
            return ()
        classes = dict.fromkeys(type(part) for _, part in walk(made))
        read = {name for cls in classes if cls in self.guesses for name in _read_by_class(cls)}
        functions = [thing for thing in self.diagnoses if not isinstance(thing, type) and thing.__name__ in read]
        parts = [thing for thing in (*classes, *functions) if thing is not type(made)]
        return tuple(self.diagnoses[thing] for thing in parts if thing in self.diagnoses)

    def polarities(self, made: Any) -> list[str]:
        """Of the masks that a module's parts take."""
        classes = {type(part) for _, part in walk(made)} if isinstance(made, nn.Module) else set()
        plans = [candidate.plan for cls, candidate in self.resolved.items() if cls in classes]
        return list(dict.fromkeys(form.polarity for plan in plans for _, form in plan.masks.values()))

    def trial(self, kind: Kind, settings: Mapping[str, Any], made: Any = None) -> Trial:
        """The trial for something that was made, its parts' mistakes and designs known."""
        parts = self.parts_of(made)
        key = (kind.name, tuple(sorted((n, str(v)) for n, v in settings.items())), tuple(map(id, parts)))
        if key not in self._trials:
            self._trials[key] = Trial(kind, settings, parts)
        return self._trials[key]

    def namespace_of(self, thing: Any) -> dict[str, Any]:
        return vars(sys.modules.get(getattr(thing, "__module__", ""), types.ModuleType("none")))

    @property
    def head_logs(self) -> bool | None:
        """Whether the projection that was found ends in log_softmax; None without one."""
        found = [c for c in self.resolved.values() if c.kind.name == "Projection"]
        return any(decoders.gives_log_probabilities(c.made, c.settings["d_model"]) for c in found) if found else None

    # ---- Parts ----

    def parts(self, kind: Kind, thing: Any = None) -> construct.Part:
        """For the constructor of a composite: ways to make the submodule that a parameter's name asks for."""
        parameters = construct.parameters_of(thing) if thing is not None else []
        alone = any("pos" in plain(p.name) for p in parameters)
        second = {p.name for p in parameters if p.default is None} if "memory" not in kind.inputs else set()

        def options(name: str) -> list[Callable[[], Any]]:
            word = plain(name)
            if NO_PART.search(word) and word not in OUTPUTS:
                return []
            if word in LAYERS or word.endswith(("layers", "blocks")):
                return self._layers(kind, word)
            if word in ("srcembed", "tgtembed", "srcemb", "tgtemb", "embedding", "embed"):
                return self._embeddings("tgt_vocab_size" if word.startswith("tgt") else "src_vocab_size", alone)
            if kind.name == "Transformer" and word in OUTPUTS:
                size = kind.defaults["tgt_vocab_size"]
                return [functools.partial(self.fresh, cls, vocab_size=size) for cls in self._classes(("Projection",))]
            if name in second and any(other in word for other in PARTS[0][0]):
                return []  # a layer that can be one of the decoder's too, if it is given this
            for words, kinds in PARTS:
                if any(word.startswith(w) or word.endswith(w) or w in word for w in words if len(w) > 2 or w == word):
                    return [self._maker(cls) for cls in self._classes(kinds)]
            if settings_of(name) or word in construct.FLAGS or config.is_config_name(name):
                return []
            return [self._maker(cls) for cls in self._classes(WITHIN.get(kind.name, ()))]

        return options

    def _embeddings(self, vocabulary: str, alone: bool) -> list[Callable[[], Any]]:
        """An embedding, alone and followed by the positions."""
        embeddings, positions = self._classes(("InputEmbedding",)), self._classes(("PositionalEncoding",))
        size = self.kinds["Transformer"].defaults[vocabulary]
        single: list[Callable[[], Any]] = [functools.partial(self.fresh, cls, vocab_size=size) for cls in embeddings]
        if alone:
            return single
        joined = self._classes(("EmbeddingWithPositions",))
        if joined:
            return [functools.partial(self.fresh, cls, vocab_size=size) for cls in joined]
        return [*(functools.partial(self._positioned, e, p, size) for e in embeddings for p in positions), *single]

    def _positioned(self, embedding: Any, positions: Any, size: int) -> nn.Module:
        return nn.Sequential(self.fresh(embedding, vocab_size=size), self.make(positions))

    def _layers(self, kind: Kind, word: str) -> list[Callable[[], Any]]:
        sides = {"Encoder": ("EncoderLayer",), "Decoder": ("DecoderLayer", "DecoderOnlyBlock")}
        kinds = sides.get(kind.name, ("DecoderOnlyBlock", "EncoderLayer", "DecoderLayer"))
        classes = self._classes(kinds)
        side = sides.get(kind.name, ("",))[0]
        if word in ("layer", "block"):
            return [functools.partial(self.make, cls, side) for cls in classes]
        return [lambda cls=cls: nn.ModuleList([self.make(cls, side), self.make(cls, side)]) for cls in classes]  # type: ignore[misc]

    def _classes(self, kinds: tuple[str, ...]) -> list[Any]:
        good = [
            cls for name in kinds for cls, c in self.resolved.items() if c.kind.name == name and isinstance(cls, type)
        ]
        classes = [(cls, guess) for cls, guess in self.guesses.items() if isinstance(cls, type)]
        first = [cls for name in kinds for cls, guess in classes if name == guess[0]]
        rest = [cls for name in kinds for cls, guess in classes if name in guess]
        return list(dict.fromkeys([*good, *first] or rest))[:2]

    def _maker(self, cls: Any) -> Callable[[], Any]:
        return lambda: self.make(cls)

    def fresh(self, cls: Any, **settings: Any) -> Any:
        """An instance with other settings than usual."""
        kind = self.kinds[self.guesses[cls][0]]
        wanted = {**kind.defaults, **settings}
        return next(construct.attempts(cls, wanted, self.namespace_of(cls), self.parts(kind), {})).build()

    def make(self, cls: Any, side: str = "") -> Any:
        """An instance: a copy of the one that was resolved, or the first that can be built.

        side: the kind of layer that is wanted, of a class that can be several.
        """
        side = side if side in self.guesses.get(cls, ()) else ""
        if cls in self.resolved and (not side or self.resolved[cls].kind.name == side):
            return copy.deepcopy(self.resolved[cls].made)
        if cls in self._building:
            raise RecursionError(f"{cls.__name__} needs itself")
        self._building.append(cls)
        try:
            kind = self.kinds[side or self.guesses[cls][0]]
            for attempt in construct.attempts(cls, kind.defaults, self.namespace_of(cls), self.parts(kind, cls), {}):
                self.set_globals(cls, kind.defaults)
                return attempt.build()
        finally:
            self._building.pop()
        raise LookupError(f"{cls.__name__} cannot be built")

    # ---- Building again ----

    def rebuilder(self, made: Any, kind: Kind, settings: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Candidate]:
        """Builds the same class with other settings. Whatever its constructor raises is passed on."""
        cls = made if isinstance(made, types.FunctionType) else type(made)

        def rebuild(changes: Mapping[str, Any]) -> Candidate:
            if not isinstance(cls, type) or isinstance(made, Weighted):
                if changes.keys() == {"d_model"} and sizes.widened(made, changes["d_model"]):
                    return self.resolved[made]
                raise KeyError(f"{kind.name} is a function")
            parameters = construct.parameters_of(cls)
            known = {name for p in parameters for name in (*settings_of(p.name), plain(p.name))}
            if not known >= changes.keys() and not any(config.is_config(p) for p in parameters):
                raise KeyError(f"{cls.__name__} has no {', '.join(changes)}")
            wanted = {**settings, **changes}
            flags = {name: value for name, value in changes.items() if name not in construct.GENERAL}
            kept = {n: v for n, v in self.given.items() if not changes.keys() & {*settings_of(n), plain(n)}}
            given = {**kept, **flags}
            attempt = next(construct.attempts(cls, wanted, self.namespace_of(cls), self.parts(kind), given))
            again = attempt.build()
            if not known | attempt.used.keys() >= changes.keys():
                raise KeyError(f"the config of {cls.__name__} has no {', '.join(changes)}")
            return self._adopt(again, kind, wanted)

        return rebuild

    def _adopt(self, made: Any, kind: Kind, settings: Mapping[str, Any]) -> Candidate:
        """Something built again, called as before; its weights are looked for anew, by name only."""
        from scratch_transformer.conformance.kit.resolve import adjust, align
        from scratch_transformer.conformance.kit.resolve.layout import Parameters, prepare

        before = self.resolved.get(type(made))
        if before is None:
            raise KeyError(f"{type(made).__name__} is not known yet")
        prepare(made)
        settings = {**{name: settings[name] for name in settings if name in kind.defaults}, **_extra(settings)}
        candidate = Resolved(kind, made, settings, before.plan)
        candidate.post = before.post
        candidate.function = made
        try:
            shapes = self.trial(kind, adjust.settings_of_instance(made, kind, settings, settings), made).shapes
        except (AssertionError, ValueError, RuntimeError):  # refused by the reference: 3 heads for d_model = 10
            shapes = {}
        parameters = Parameters(made)
        options = align.layouts(parameters, shapes, kind.complete(settings), self.kind_of_class, self.choices)
        candidate.layout = next(iter(options), ("", {}))[1] if shapes else {}
        candidate.parameters = parameters
        candidate.update_missing()
        return candidate

    # ---- Globals ----

    def set_globals(self, thing: Any, settings: Mapping[str, Any]) -> None:
        """Sets the module-level hyperparameters that the code of a class reads to our settings."""
        namespace = self.namespace_of(thing)
        names = _global_names(namespace)
        construct.override_globals(namespace, names, settings, set(namespace))


def _extra(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in ("dropout", "bias") if name in settings}


def _global_names(namespace: Mapping[str, Any]) -> set[str]:
    """Globals that the functions and methods of a module read."""
    names: set[str] = set()
    for value in list(namespace.values()):
        if isinstance(value, type):
            names |= _read_by_class(value)
        else:
            names |= _read_by(value)
    return names


def _read_by_class(cls: type) -> set[str]:
    return {name for member in vars(cls).values() for name in _read_by(getattr(member, "__func__", member))}


def _read_by(function: Any) -> set[str]:
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return set()
    import dis

    read = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            read |= {i.argval for i in dis.get_instructions(constant) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return {str(name) for name in read}
