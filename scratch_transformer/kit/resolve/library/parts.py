"""What a composite is made of: the learner's own parts, for the arguments of its constructor."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_of_torch, leads_to
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve import likeness
from scratch_transformer.kit.resolve.build import config, construct
from scratch_transformer.kit.resolve.build.reading import Use, uses_of
from scratch_transformer.kit.resolve.call import beside, held
from scratch_transformer.kit.resolve.candidate import source_of
from scratch_transformer.kit.resolve.library import supplied
from scratch_transformer.kit.resolve.library.around import WRITING, within
from scratch_transformer.kit.resolve.library.known import Known, read_by_class
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.settings import FLAGS, SOURCE, TARGET, settings_of
from scratch_transformer.kit.resolve.names.words import plain, words
from scratch_transformer.kit.resolve.weights.layout import copied

ATTENTIONS = ("MultiheadAttention", "SelfAttention", "CausalSelfAttention", "RotaryAttention", "CausalRotaryAttention")
PARTS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("srcattn", "crossatt", "encdecatt", "memoryatt", "encatt"), ("MultiheadAttention", "CrossAttention")),
    (("attn", "attention", "mha", "selfatt"), ATTENTIONS),
    (
        ("feedforward", "ffn", "ff", "mlp", "posffn", "positionwise", "pointwise", "fullyconnected"),
        ("FeedForward", "SwiGLU"),
    ),
    (("norm", "ln"), ("LayerNorm", "RMSNorm")),
    (("rope", "rotary", "rotaryemb", "rotaryembedding"), ("RotaryEmbedding",)),
    (("encoderlayer", "encoderblock"), ("EncoderLayer",)),
    (("decoderlayer", "decoderblock"), ("DecoderLayer", "DecoderOnlyLayer", "LlamaBlock")),
    (("encoder",), ("Encoder", "TokenEncoder")),
    (("decoder",), ("Decoder", "TokenDecoder")),
    (("transformer",), ("Transformer",)),
    (("pos",), ("PositionalEncoding",)),
    (("embed", "emb"), ("Embedding", "InputEmbedding")),
    (("generator", "projection", "proj", "output", "linear"), ("Projection",)),
)
"""What a constructor's parameter may mean: words in its name -> kinds."""
WITHIN: dict[str, tuple[str, ...]] = {
    "EncoderLayer": ("FeedForward", "MultiheadAttention"),
    "DecoderLayer": ("FeedForward", "MultiheadAttention"),
    "DecoderOnlyLayer": ("FeedForward", "CausalSelfAttention"),
    "LlamaBlock": ("SwiGLU", "FeedForward", "CausalRotaryAttention", "CausalSelfAttention"),
    "MaskedLlamaBlock": ("SwiGLU", "FeedForward", "RotaryAttention", "SelfAttention"),
}
"""What a layer is made of, for a required parameter whose name says nothing."""
OF_MODELS = {"Transformer": ("PositionalEncoding", "Projection", "InputEmbedding")}
"""The same for a model, if nothing else is asked to be that."""
NO_PART = re.compile(
    r"^(return|output(?!emb|pos|enc)|log|use|using|need|with|is|has|num|save|store|verbose|share|tie)(?!put)|"
    r"(weights?|types?|modes?|names?|dropout|drop|prob|sizes?|dims?|len|length|scores?|maps?|probs|theta|base|scaling|"
    r"args|config|cfg|params|hparams|kwargs|opts?|device|dtype|act|activation|actfn|nonlinearity)$"
)
"""Names that speak of a part without asking for one: attention_dropout, embed_size, mlp_activation."""
NUMBERS = {"rate", "dim", "dims", "size", "num", "number", "n", "mult", "multiple", "multiplier", "ratio", "factor",
           "dropout", "drop", "prob", "len", "length", "max", "mode", "bias", "eps", "theta", "scale", "idx", "index",
           "id", "d", "seq"}  # fmt: skip
SIZE = re.compile(r"\w{3,}_sz?$")
"""How the name of a number ends: embedding_s is none of the embeddings."""
LAYER = ("MultiheadAttention", "FeedForward", "LayerNorm")
LENT: dict[str, tuple[str, ...]] = {
    "Transformer": ("Encoder", "Decoder"),
    "EncoderLayer": LAYER,
    "DecoderLayer": LAYER,
    "Encoder": ("EncoderLayer", *LAYER),
    "Decoder": ("DecoderLayer", *LAYER),
    "ResidualConnection": ("LayerNorm",),
}
"""Parts that the reference lends to a composite."""
SUBLAYERS = ("attention", "attn", "feed", "ffn", "mlp", "norm", "emb", "pos", "proj", "output", "input", "linear")
STACKS = {"Encoder", "Decoder", "TokenEncoder", "TokenDecoder", "Transformer"}
OUTPUTS = ("generator", "projection", "projectionlayer", "proj", "output", "outputlayer")
IN, OUT = SOURCE | {"input", "inputs"}, TARGET | {"output", "outputs"}
"""Words of an embedding's side in a model."""
OF_ROPE = re.compile(r"rope|rotary|posemb|positional")
LAYER_KINDS = ("EncoderLayer", "DecoderLayer", "DecoderOnlyLayer", "LlamaBlock", "MaskedLlamaBlock")
EMBEDDINGS = ("InputEmbedding", "Embedding", "EmbeddingWithPositions")
LAYERS = ("layers", "layer", "blocks", "block", "encoders", "decoders")


LINEAR = {"fc", "linear", "lin", "dense", "proj", "projection"}
"""Words of a matrix that attention or a network is given ready made: out_fc."""
NO_USE = Use()


def _is_said(short: str, name: str) -> bool:
    """Whether a name that means no size says a part by two letters alone: ff_block, for that ff_hidden is one."""
    return short in words(name) and not settings_of(name)


def _linear(whole: Kind, name: str, parameters: list[inspect.Parameter]) -> list[Callable[[], Any]]:
    """PyTorch's matrix for attention that is given its projections, and for a network that is given both of its own."""
    free = [
        p.name for p in parameters if p.default is p.empty and not settings_of(p.name) and set(words(p.name)) & LINEAR
    ]
    if name not in free or not whole.name.endswith(("Attention", "FeedForward")) or "d_model" not in whole.defaults:
        return []
    d_model = whole.defaults["d_model"]
    widths = (d_model, whole.defaults.get("d_ff", d_model))
    return [functools.partial(nn.Linear, *(widths if name == free[0] else widths[::-1]))]


def _left_in(whole: Kind, parameters: list[inspect.Parameter]) -> tuple[str, ...]:
    """The kinds of a model's parts that none of its parameters' names asks for."""
    names = [plain(p.name) for p in parameters]
    asked = {kind for known, kinds in PARTS if any(w in name for name in names for w in known) for kind in kinds}
    return tuple(kind for kind in OF_MODELS.get(whole.name, ()) if kind not in asked)


def _turns(settings: Mapping[str, Any]) -> list[Callable[[], nn.Module]]:
    """What makes the reference's rotation of heads, in either order of features."""
    base = float(settings.get("rope_base", 10000.0))
    return [functools.partial(beside.Turn, base, order) for order in ("interleaved", "halves")]


def _is_model(cls: type) -> bool:
    """Whether its name says that it is no encoder or decoder of another model."""
    word = plain(cls.__name__)
    return word.endswith(("transformer", "model", "gpt")) and not re.search("encoder|decoder", word)


def _calls_a_given(function: Any) -> bool:
    """Whether a function, or a module or a part of it, calls what turns heads that it is given: rope(q)."""
    made = getattr(function, "__self__", None)
    classes = {type(part) for part in made.modules()} if isinstance(made, nn.Module) else set()
    methods = [m for cls in classes if not is_of_torch(cls) for m in vars(cls).values()]
    methods += [inspect.unwrap(function), *leads_to(inspect.unwrap(function))] if made is None else []
    given = [(m, p.name) for m in methods if inspect.isfunction(m) for p in construct.parameters_of(m)]
    asked = [(method, name) for method, name in given if OF_ROPE.search(plain(name))]
    return any(re.search(rf"\b{name}(\.\w+)?\(", source_of(method)) for method, name in asked)


class Parts(Known):
    """Knows the classes, and makes instances of them where a composite asks for them."""

    def parts(self, kind: Kind, thing: Any = None) -> construct.Part:
        """For the constructor of a composite: ways to make the submodule that a parameter's name asks for."""
        parameters = construct.parameters_of(thing) if thing is not None else []
        alone = any("pos" in plain(p.name) for p in parameters)
        free = {p.name for p in parameters if p.default is not p.empty}
        second = {p.name for p in parameters if p.default is None} if "memory" not in kind.inputs else set()
        uses = uses_of(thing) if thing is not None else {}
        checked = {name: use.checked for name, use in uses.items() if use.checked is not None}
        said = {n: cls for n, cls in {**checked, **construct.annotations_of(thing)}.items() if self.guesses.get(cls)}

        def is_second(name: str) -> bool:
            """Whether it is the later one of two of a class, and no name of them says which is the target's."""
            alike = [other for other, cls in said.items() if cls is said[name]]
            return len(alike) == 2 and name == alike[1] and not any(set(words(other)) & OUT for other in alike)

        def options(name: str) -> list[Callable[[], Any]]:
            own: list[Callable[[], Any]]
            word = plain(name)
            if kind.name == "ResidualConnection" and input_of(name, ("sublayer",)):
                return [held.Sublayer]
            if linear := _linear(kind, name, parameters):
                return linear
            is_said = name in said and said[name] is not thing
            is_number = NO_PART.search(word) or SIZE.match(name) or set(words(name)) & NUMBERS
            if is_number and word not in OUTPUTS and not is_said:
                return []
            if name in second and any(other in word for other in PARTS[0][0]):
                return []  # a layer that can be one of the decoder's too, if it is given this
            if is_said and self.guesses[said[name]][0] not in LAYER_KINDS:
                return self._of_class(said[name], kind, name, is_second(name))
            if name in checked and is_said:
                return [self._maker(said[name])]
            if word in LAYERS or word.endswith(("layers", "blocks")):
                is_count = "num_layers" in uses.get(name, NO_USE).meant  # range(nx_layers)
                return [] if is_count else self._layers(kind, word)
            is_applied = kind.name == "Transformer" and uses.get(name, NO_USE).applied
            said_last = [w for w in words(name) if w not in ("module", "instance", "template", "prototype")][-1:]
            is_layer = said_last in (["layer"], ["block"]) and not any(w in word for w in SUBLAYERS)
            if kind.name in STACKS and is_layer and not is_applied:
                return self._layers(kind, "layer")  # base_block
            sides = SOURCE | TARGET if "pos" in word else IN | OUT
            of_side = kind.name == "Transformer" and "emb" in word and set(words(name)) & sides
            if of_side or word in ("embedding", "embed"):
                is_target = bool(set(words(name)) & OUT)
                return self._embeddings("tgt_vocab_size" if is_target else "src_vocab_size", alone)
            if kind.name == "Transformer" and word in OUTPUTS:
                size = kind.defaults["tgt_vocab_size"]
                own = [functools.partial(self.fresh, cls, vocab_size=size) for cls in self._classes(("Projection",))]
                return own or [functools.partial(nn.Linear, kind.defaults["d_model"], size)]
            core = self._core_within(thing) if "att" in word else []
            if core:
                return core
            for known, kinds in PARTS:
                if any(w in word if len(w) > 2 else w == word or _is_said(w, name) for w in known):
                    turns = kinds == ("RotaryEmbedding",) and "num_heads" in kind.defaults
                    own = [
                        self._turning(cls, kind) if turns else self._sized(cls, kind, name)
                        for cls in self._classes(kinds)
                        if cls is not thing
                    ]
                    if turns and not own and name not in free and uses.get(name, NO_USE).applied:
                        return _turns(kind.defaults)
                    is_paired = uses.get(name, NO_USE).paired
                    return own or (self._lent(kind, kinds[0], parameters, is_paired) if name not in free else [])
            if settings_of(name) or word in FLAGS or config.is_config_name(name):
                return []
            is_open = name not in free and uses.get(name, NO_USE).applied
            kept = uses.get(name, NO_USE).kept
            if is_open and kept not in ("", name) and (own := options(kept)):
                return own  # self.encoder = enc
            left = WITHIN.get(kind.name, ()) or (_left_in(kind, parameters) if is_open else ())
            return [self._maker(cls) for cls in self._classes(left) if cls is not thing]

        return options

    def _is_of(self, cls: type | None, kinds: tuple[str, ...]) -> bool:
        return bool(set(self.guesses.get(cls, ())) & set(kinds))

    def _of_class(self, cls: type, whole: Kind, name: str, is_second: bool) -> list[Callable[[], Any]]:
        """The class that a parameter is annotated with; in a model, of the vocabulary that it reads or writes."""
        if self._is_of(cls, ("RotaryEmbedding",)):
            return [self._turning(cls, whole)]
        return [self._sized(cls, whole, name, is_second)]

    def _sized(self, cls: type, whole: Kind, name: str, is_second: bool = False) -> Callable[[], Any]:
        """A part; of a model, one that reads or writes words has as many as that, on the side that a name says.

        is_second: where no name says it, the later one is the target's.
        """
        is_embedding, writes = self._is_of(cls, EMBEDDINGS), self._is_of(cls, ("Projection",))
        is_target = writes or is_second or bool(set(words(name)) & OUT)
        sizes = ("vocab_size", "tgt_vocab_size" if is_target else "src_vocab_size")
        size = next((whole.defaults[one] for one in sizes if one in whole.defaults), None)
        is_of_words = (is_embedding or writes) and whole.name in (*WRITING, "TokenEncoder", "TokenDecoder")
        return functools.partial(self.fresh, cls, vocab_size=size) if is_of_words and size else self._maker(cls)

    def _turning(self, cls: type, whole: Kind) -> Callable[[], Any]:
        """What turns one head of the whole: it is as wide as that."""
        d_k = whole.defaults.get("d_k") or whole.defaults["d_model"] // whole.defaults["num_heads"]
        return functools.partial(self.fresh, cls, d_model=d_k, d_k=d_k)

    def turning(self, function: Any, settings: Mapping[str, Any]) -> list[nn.Module]:
        """What turns heads, for a forward that is given such an object: the learner's own, then the reference's.

        [] if none of its parameters asks for that.
        """
        names = [p.name for p in construct.parameters_of(function)]
        if not settings.get("num_heads") or not any(OF_ROPE.search(plain(name)) for name in names):
            return []
        d_k = settings.get("d_k") or settings["d_model"] // settings["num_heads"]
        made: list[Any] = []
        for cls in self._classes(("RotaryEmbedding",)):
            with contextlib.suppress(Exception):  # the learner's code may raise anything
                made.append(self.fresh(cls, d_model=d_k, d_k=d_k))
        usual = [make() for make in _turns(settings)]
        return [one for one in made if isinstance(one, nn.Module)] or usual

    def tables_and_turning(self, function: Any, settings: Mapping[str, Any]) -> list[tuple[Tensor, ...] | nn.Module]:
        """What turns heads, and tables of angles; the tables first where nothing calls what is given."""
        turning, tables = self.turning(function, settings), self.tables(function, settings)
        is_called = bool(turning) and _calls_a_given(function)
        return [*turning, *tables] if is_called else [*tables, *turning]

    def _core_within(self, thing: Any) -> list[Callable[[], Any]]:
        """The core of attention, for what makes the heads around it itself."""
        made = read_by_class(thing) if isinstance(thing, type) else set()
        if not any(cls.__name__ in made for cls in self._classes(ATTENTIONS)):
            return []
        return [self._maker(cls) for cls in self._classes(("ScaledDotProductAttention",)) if cls is not thing]

    def _lent(self, whole: Kind, kind: str, parameters: list[inspect.Parameter], pair: bool) -> list[Callable[[], Any]]:
        """The reference, for what a composite must be given and nobody has defined."""
        if kind not in LENT.get(whole.name.removeprefix("Token"), ()):
            return []
        settings = {**self.kinds[kind].defaults, **whole.defaults}
        if whole.name == "Transformer" and not any("emb" in plain(p.name) for p in parameters):
            side = "tgt" if kind == "Decoder" else "src"
            settings |= {"vocab_size": settings[f"{side}_vocab_size"], "pad": settings[f"{side}_pad"]}
            kind = f"Token{kind}"
        return [functools.partial(supplied.lent, self.kinds[kind], settings, pair)]

    def _embeddings(self, vocabulary: str, alone: bool) -> list[Callable[[], Any]]:
        """An embedding, alone and followed by the positions."""
        embeddings, positions = self._classes(("InputEmbedding",)), self._classes(("PositionalEncoding",))
        size, d_model = (self.kinds["Transformer"].defaults[name] for name in (vocabulary, "d_model"))
        if not embeddings and not self._classes(("EmbeddingWithPositions",)):
            return [functools.partial(supplied.Embedding, size, d_model)]
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
        sides = {"Encoder": ("EncoderLayer",), "Decoder": ("DecoderLayer",)}
        kinds = sides.get(kind.name, ("DecoderOnlyLayer", "LlamaBlock", "EncoderLayer", "DecoderLayer"))
        classes = self._classes(kinds)
        side = sides.get(kind.name, ("",))[0]
        if not classes and side in LENT.get(kind.name, ()):
            settings = {**self.kinds[side].defaults, **kind.defaults}
            lend = functools.partial(supplied.lent, self.kinds[side], settings)
            return [lend if word in ("layer", "block") else lambda: nn.ModuleList([lend(), lend()])]
        if word in ("layer", "block"):
            return [functools.partial(self.make, cls, side) for cls in classes]
        return [lambda cls=cls: nn.ModuleList([self.make(cls, side), self.make(cls, side)]) for cls in classes]  # type: ignore[misc]

    def _classes(self, kinds: tuple[str, ...]) -> list[Any]:
        good = [cls for n in kinds for cls, c in self.resolved.items() if c.kind.name == n and isinstance(cls, type)]
        classes = [(cls, found) for cls, found in self.guesses.items() if isinstance(cls, type)]
        if STACKS & set(kinds) and not set(kinds) & set(WRITING):
            good = [cls for cls in good if not _is_model(cls)]
            classes = [(cls, found) for cls, found in classes if not _is_model(cls)]
        first = [cls for name in kinds for cls, found in classes if name == found[0]]
        rest = [
            cls
            for name in kinds
            for cls, found in classes
            if name in found and not self._is_other(cls, found[0], kinds)
        ]
        return list(dict.fromkeys([*good, *first] or rest))[:2]

    def _is_other(self, cls: type, kind: str, kinds: tuple[str, ...]) -> bool:
        """Whether a stack is asked for, and its name says that it is something else: a DecoderLayer is no decoder."""
        named = [name for name in (kind, *kinds) if likeness.is_named(cls.__name__, self.kinds[name])]
        return named == [kind] and bool(STACKS & set(kinds))

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
        if cls in self.stand_ins:
            return self.stand_ins[cls]()
        side = side if side in self.guesses.get(cls, ()) else ""
        if cls in self.resolved and (not side or self.resolved[cls].kind.name == side):
            made = within(self.resolved[cls].made)
            return copied(made) if isinstance(made, nn.Module) else copy.deepcopy(made)
        if cls in self._building:
            raise RecursionError(f"{cls.__name__} needs itself")
        self._building.append(cls)
        kind = self.kinds[side or self.guesses[cls][0]]
        try:
            names, parts = self.namespace_of(cls), self.parts(kind, cls)
            for attempt in construct.attempts(cls, kind.defaults, names, parts, {}, "memory" in kind.inputs):
                self.set_globals(cls, kind.defaults)
                return attempt.build()
        except RecursionError:
            raise
        except Exception:  # the learner's code may raise anything; what is wrong is said where it is checked itself
            return supplied.instance_of(kind)
        finally:
            self._building.pop()
        raise LookupError(f"{cls.__name__} cannot be built")
