"""What may be given for a parameter of a constructor, by its annotation, its default, its name and its use."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scratch_transformer import functional
from scratch_transformer.kit.definitions import is_module_class, is_of_torch, source_of
from scratch_transformer.kit.discover.silent import Silent
from scratch_transformer.kit.resolve.build import config
from scratch_transformer.kit.resolve.build.config import Unknown
from scratch_transformer.kit.resolve.build.literals import is_of_samples, literal_of
from scratch_transformer.kit.resolve.build.reading import Use
from scratch_transformer.kit.resolve.build.tokenizer import KNOWS, Tokenizer, is_tokenizer
from scratch_transformer.kit.resolve.build.values import Values
from scratch_transformer.kit.resolve.names.inputs import FILLED, first_or_last, is_fill
from scratch_transformer.kit.resolve.names.settings import (
    EITHER,
    FLAG,
    FLAGS,
    FRACTIONS,
    OUT,
    PROCESSES,
    ROTARY_BASE,
    SCALES,
    SHARING,
    SOURCE,
    TARGET,
    is_setting,
    settings_of,
)
from scratch_transformer.kit.resolve.names.words import plain, words

TABLE = re.compile(
    r"(full|whole|fixed|max)?((pe|pos(itional|ition)?(enc(odings?)?|emb(eddings?)?))(table|matrix|tensor)?"
    r"|(pos(itional|itions?)?|sin(usoid(al|s)?)?(enc(oding)?|emb(edding)?)?)(table|matrix))"
)
"""A table of positions that is given ready made, where no module of the file is called so."""
REPORTS = re.compile(r"(logger|writer|tracker|optimi[sz]er|scheduler|profiler|callbacks?)$")
"""What reports or trains: a model computes the same with something that does nothing."""
INDEX = re.compile(r"i|idx|index|(layer|block|blk)_?(i|idx|id|index|no|num|number)")
"""Of a layer in its stack."""
COUNTS = ("no", "num", "number")
"""How a name ends that is a layer's number in one of them, and how many there are in a stack: layer_no."""
Part = Callable[[str], list[Callable[[], Any]]]
"""A parameter's name -> ways to make the submodule that it may mean."""
MODULE_LIKE = ("Module", "Block", "Layer", "Attention", "Encoder", "Decoder", "Embedding", "Norm", "FeedForward")
CLASSES: tuple[tuple[set[str], Callable[..., Any]], ...] = (
    ({"norm", "ln", "normalization"}, nn.LayerNorm),
    ({"act", "activation", "nonlinearity", "relu", "gelu"}, nn.ReLU),
    ({"dropout", "drop"}, nn.Dropout),
    ({"linear", "proj", "projection"}, nn.Linear),
)
"""Words of names, and what is passed to be made there: norm_layer=nn.LayerNorm."""


SIDES = (("src_", SOURCE), ("tgt_", TARGET))
LEAST_WIDTH = 2
"""Of a default that is a width, and no axis: the toy model that is worked through by hand has d_model=2."""
WIDTHS = {"d_model", "d_ff", "d_out", "vocab_size"}
"""What a linear layer's sizes may be."""


OR_NONE = re.compile(r"\bOptional\[|\bNone\b")
"""In the annotation of what may be left out."""
OF_NUMBERS = ("dtype", "datatype")
"""What a type of numbers is called."""


@dataclass(frozen=True)
class Lazy:
    """Something that is made when it is needed."""

    make: Callable[[], Any]

    def __call__(self) -> Any:
        return self.make()


SIZES = {"d_model", "d_ff", "num_heads", "num_layers", "max_len", "vocab_size"}
"""What is a number whatever its annotation says, d_model: str."""


@dataclass(frozen=True)
class Wish:
    """What is known of a parameter before a value is looked for. text: of its annotation; hint: what that is."""

    parameter: inspect.Parameter
    text: str
    hint: Any
    use: Use
    owner: Any
    namespace: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def word(self) -> str:
        return plain(self.parameter.name)

    @property
    def default(self) -> Any:
        return self.parameter.default

    @property
    def is_required(self) -> bool:
        return self.parameter.default is self.parameter.empty

    @property
    def wants_class(self) -> bool:
        """A class to make something of: norm_cls, Type[nn.Module], norm(dim)."""
        typed = typing.get_origin(self.hint) is type or self.hint is type or "Type[" in self.text
        named = self.name.endswith(("_cls", "_class", "_type")) or self.word.endswith("cls")
        named &= self.word not in OF_NUMBERS
        named &= not is_module_class(self.hint)  # rope_class: Rope is a rope
        named &= not any(isinstance(value, str) for value in self.use.compared)  # attn_type == "self"
        return (
            typed
            or (named and self.hint is not str and not isinstance(self.default, str))
            or (self.use.called and bool(made_by_name(self)))
        )

    @property
    def wants_module(self) -> bool:
        if self.is_named_config and not is_module_class(self.hint):
            return False  # AttentionParams
        if self.use.is_config and not self.use.called and any(map(settings_of, self.use.attributes)):
            return False
        return is_module_class(self.hint) or (
            not isinstance(self.hint, type) and any(text in self.text for text in MODULE_LIKE)
        )

    @property
    def wants_config(self) -> bool:
        is_class = isinstance(self.hint, type) and self.hint.__module__ not in ("builtins", "torch")
        return self.is_named_config or (
            self.use.is_config and self.is_required and (is_class or not settings_of(self.name))
        )

    @property
    def is_named_config(self) -> bool:
        return config.is_config(self.parameter) and self.hint not in (int, float, str, bool)

    @property
    def wants_fraction(self) -> bool:
        """A float and no whole number: annotated so, or by its default."""
        return isinstance(self.default, float) or ("float" in self.text and "int" not in self.text)

    @property
    def wants_text(self) -> bool:
        is_size = bool({*settings_of(self.name)[:1]} & SIZES) and not any(isinstance(v, str) for v in self.use.compared)
        return isinstance(self.default, str) or (self.hint is str and not is_size) or "Literal" in self.text


def wish(parameter: inspect.Parameter, use: Use | None, owner: Any, namespace: Mapping[str, Any]) -> Wish:
    """For one parameter of a constructor."""
    annotation, hint = parameter.annotation, parameter.annotation
    if isinstance(annotation, str):
        try:
            hint = eval(annotation, dict(namespace))
        except Exception:  # a name that only type checkers see
            hint = None
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = "" if annotation is parameter.empty else text if typing.get_origin(hint) is None else str(annotation)
    return Wish(parameter, text, None if hint is parameter.empty else hint, use or Use(), owner, namespace)


def options(wish: Wish, values: Values, parts: Part) -> list[Any]:
    """What a parameter may be, the likeliest first; [] to leave it at its default, or if nothing is known."""
    name, word, default = wish.name, wish.word, wish.default
    if default is None and ("Callable" in wish.text or word.endswith(("factory", "fn"))):
        return []
    if table := _table(wish, values):
        return [*table, *([None] if default is None else [])]
    if wish.is_required and REPORTS.search(word):
        return [Silent()]
    if wish.wants_class:
        return _classes(wish, parts) if wish.is_required else []
    if wish.use.called and wish.is_required and wish.hint is None and (classes := _classes(wish, parts)):
        return classes  # what makes something in the constructor is a class
    is_number = (
        not (wish.is_required or default is None)
        or wish.hint in (int, float)
        or re.search(r"\b(int|float)\b", wish.text)
    )
    if wish.is_required and any(isinstance(value, str) for value in wish.use.compared) and not is_setting(name):
        return _texts(wish)
    if wish.is_required and wish.use.flags and wish.word not in FLAGS:
        return [wish.use.flags[0], not wish.use.flags[0]]  # remove_norm is no norm
    submodules: list[Any] = [] if is_number else [Lazy(make) for make in parts(name)]
    if wish.use.listed and wish.is_required and not wish.use.applied:
        count = int(values.settings["num_layers"])
        submodules = [Lazy(functools.partial(_several, make, count)) for make in submodules] + submodules
    if wish.is_required and submodules and not wish.wants_module and (wide := _sizes_handed_on(wish, values)):
        return [*wide, *submodules]
    if wish.is_required and (fields := parts_within(wish)):
        return [Lazy(functools.partial(_bundle, wish.hint, fields, parts))]
    if wish.wants_module:
        if submodules and default is None:
            return [*submodules, None]  # what turns heads, or not
        return submodules or (numbers(wish, values) if wish.hint is None else _of_torch(wish, values))
    asked = wish.use.attributes | wish.use.keys
    if wish.is_required and asked and not wish.is_named_config and not submodules and all(map(KNOWS.search, asked)):
        return [vocabulary(name, values)]
    is_nameless = wish.is_required and wish.hint is None and not (wish.is_named_config or wish.use.keys or submodules)
    if is_nameless and asked and (own := config.of_one_class(wish.namespace, values, asked, wish.owner)):
        return own
    has_config = not wish.is_required and config.holds_values(default)  # config=Config(), of a size to be trained
    is_open = wish.is_required or default is None or has_config
    if wish.wants_config and (wish.is_named_config or not submodules) and is_open:
        read = wish.use.attributes | wish.use.keys
        found = config.instances(wish.parameter, wish.namespace, values, read, wish.owner)
        return [*found, default] if has_config else found
    if default is True and SHARING.search(word):
        return [False]
    if word in SCALES and values.is_attention:
        return values.scales(word) if wish.is_required else []
    if isinstance(default, bool) or (wish.hint is bool and not isinstance(default, float)):  # dropout: bool = 0.0
        both = [False, True] if re.search("mask|causal", word) else [True, False]
        return [FLAGS[word]] if word in FLAGS else (both if wish.is_required else [])
    meant = settings_of(name)[0] if settings_of(name) else ""
    least = {"pad": default, "d_model": LEAST_WIDTH}.get(meant, 0)
    if type(default) is int and default < least:
        return []  # an axis, batch_dim=0, or all; ignore_index=-100 is told the padding's id
    if wish.wants_text:
        return _texts(wish) if wish.is_required else []
    if callable(default) and not wish.is_required:
        return []
    if wish.is_required and (first := first_or_last(word)) is not None:
        return [first]
    if wish.is_required and is_fill(name):
        return [FILLED]
    if wish.is_required and PROCESSES.fullmatch(word):
        return [1]
    if wish.is_required and INDEX.fullmatch(word) and not (word.endswith(COUNTS) and "num_layers" in values.own):
        return [0]
    if word in ("dropout", "drop") and wish.use.applied and not wish.wants_fraction:
        return [Lazy(nn.Dropout)]
    if word == "device" or wish.hint is torch.device:
        return ["cpu"] if wish.hint is not torch.device else [torch.device("cpu")]
    if wish.is_required and (wish.hint is np.random.Generator or word == "rng"):
        return [np.random.default_rng(0)]
    if word in OF_NUMBERS or wish.hint is torch.dtype:
        return [torch.float64] if wish.is_required else []
    if not submodules and (shape := sizes_by_place(wish, values)):
        return [shape]
    if not submodules and (widths := _widths_in_turn(wish, values)):
        return [widths]
    if not submodules and isinstance(default, (list, tuple)) and not default:
        return []  # inner_widths=[]: a number is no list
    if wish.is_required and meant == "d_ff/d_model" and "d_ff" in values.names and OR_NONE.search(wish.text):
        return [None]  # beside the width itself, of which it need say nothing
    found = [] if submodules and (wish.use.listed or not is_setting(name)) else numbers(wish, values)
    if word == "eps" and isinstance(default, float) and not found:
        return []
    if found or submodules:
        if default is None and not found:
            return []
        return [*submodules, *found] if wish.use.applied else [*found, *submodules]
    if not wish.is_required:
        return []
    return [FLAGS[word]] if word in FLAGS else _guesses(wish, values)


def _sizes_handed_on(wish: Wish, values: Values) -> list[int]:
    """Of what nothing applies, and what it is made of takes as a size: ffn, of Layer(…, ffn_dim=ffn), or of what makes
    nn.Linear(d_model, ffn) of it, whatever it is called.
    """
    use = wish.use
    is_part = use.applied or use.called or use.listed or use.attributes
    handed = [name for name in sorted(use.handed) if is_setting(name)]
    named = [wish.name] if handed and is_setting(wish.name) else handed  # hidden=ffn_hidden: it says more itself
    is_width = use.meant and not set(use.meant) - WIDTHS
    sizes = [] if is_part else [values(name) for name in named] or (_guesses(wish, values) if is_width else [])
    return [size for size in dict.fromkeys(sizes) if type(size) is int]


ROWS_CUT = re.compile(r"self\.\w+\[ *:[^,\n]*, *: *\]")
"""As many rows of a table are taken as the sequence is long: self.scale[: x.shape[1], :]."""
AS_SHAPE = ("batch_size", "max_len", "d_model")
"""The sizes of a tensor of tokens."""


def sizes_by_place(wish: Wish, values: Values) -> tuple[Any, ...]:
    """What a constructor takes apart by numbers, shape[1]: sizes by the names that they are given, else as a tensor has
    them; () if nothing says that it is such.
    """
    if wish.is_required and wish.word.endswith("shape") and ROWS_CUT.search(source_of(wish.owner)):
        return values("max_len"), values("d_model")  # weights for each place of a sequence, and each of its features
    places, default = wish.use.places, wish.default
    is_open = wish.is_required or (isinstance(default, (tuple, list)) and all(type(one) is int for one in default))
    named = {place: next((n for n in names if settings_of(n)), "") for place, names in places.items()}
    if not is_open or not any(named.values()) or wish.use.measured or wish.use.applied:
        return ()
    count = max(*(place + 1 if place >= 0 else -place for place in places), 1 if wish.is_required else len(default))
    names = [*("batch_size",) * (count - len(AS_SHAPE)), *AS_SHAPE[-count:]]
    for place, name in named.items():
        names[place] = name or names[place]
    try:
        return tuple(values(name) for name in names)
    except Unknown:
        return ()


def _widths_in_turn(wish: Wish, values: Values) -> list[int]:
    """Of a network whose widths are a list by default, dim_feedforward=[512, 2048, 512]: the tokens', one between."""
    default = wish.default
    is_list = isinstance(default, (list, tuple)) and len(default) > 1 and all(type(one) is int for one in default)
    if not is_list or settings_of(wish.name)[:1] != ("d_ff",):
        return []
    return [values.settings["d_model"], values(wish.name), values.settings["d_model"]]


def parts_within(wish: Wish) -> list[str]:
    """The fields of a NamedTuple or dataclass of modules alone: blocks.attention, blocks.feed_forward."""
    is_bundle = isinstance(wish.hint, type) and (hasattr(wish.hint, "_fields") or dataclasses.is_dataclass(wish.hint))
    try:
        hints = typing.get_type_hints(wish.hint) if is_bundle else {}
    except Exception:  # names that only type checkers see
        hints = {}
    return list(hints) if all(map(is_module_class, hints.values())) else []


def _bundle(cls: Callable[..., Any], fields: Sequence[str], parts: Part) -> Any:
    """An instance of it, each field the part that its name asks for."""
    return cls(**{name: next(iter(parts(name)))() for name in fields})


def _several(make: Callable[[], Any], count: int) -> Any:
    """A list of parts, for what goes through one."""
    made = make()
    is_list = isinstance(made, (nn.ModuleList, nn.Sequential, list))
    return made if is_list else nn.ModuleList([made, *(make() for _ in range(count - 1))])


def vocabulary(name: str, values: Values) -> Tokenizer:
    """A vocabulary or tokenizer, of the size that its name says: of the source's words, of the target's."""
    side = next((s for s, of_side in SIDES if of_side & set(words(name))), "")
    sizes = (f"{side}vocab_size", "vocab_size", "src_vocab_size")
    return Tokenizer(1, 2, next(values(size) for size in sizes if size in values.settings))


def _is_vocabulary(wish: Wish) -> bool:
    """Whether a parameter that is no setting is one: by its name, or by what it is asked for."""
    asked = wish.use.attributes | wish.use.keys
    return (is_tokenizer(wish.name) or wish.use.measured) and all(map(KNOWS.search, asked))


def numbers(wish: Wish, values: Values) -> list[Any]:
    """Of the settings that the name may mean; none that is whole where a fraction is wanted."""
    if not wish.is_required and settings_of(wish.name) == ("num_layers",) and "num_layers" not in values.own:
        return []  # of what has no layers, n=10000 is something else
    means_nothing = not {*values.own, "d_k"}.intersection(values.meanings(wish.name))
    if (means_nothing or wish.word in EITHER) and (heads := _heads_by_use(wish, values)):
        return heads
    try:
        number = values(wish.name)
    except Unknown:
        return []
    if wish.word.endswith("shape"):
        return [number, [number]]
    meant = values.meanings(wish.name)
    if meant[:1] == ("max_len",) and any("voc" in plain(name) for name in wish.use.handed):
        side = next((s for s, of_side in SIDES if of_side & set(words(wish.name))), "")
        return [values(f"{side}vocab_size"), number]  # one number for the length and for the words
    others = [values.settings[s] for s in meant if s in values.settings]
    if wish.word in OUT and values.is_attention:  # of every head, where their outputs are joined
        others.append(values.settings["d_k"])
    if meant[:1] == ("d_k",) and values.is_attention and "num_heads" not in values.names:
        others.append(values.settings["num_heads"])  # hidden_size // head_size may be either of them
    if meant[:1] == ("d_k",) and "num_heads" not in values.own and not {"d_model", "num_heads"} & values.names.keys():
        others.append(values.settings["d_model"])  # of what has no heads
    if meant[:1] == ("d_model",) and "d_k" in values.own and "d_model" not in values.own:
        others.append(values.settings["d_k"])  # of what is given one head
    if meant[:1] == ("d_k",) and values.is_attention and "d_model" in wish.use.meant and "d_out" not in wish.use.meant:
        number, others = values.settings["d_model"], [number, *others]  # what goes into nn.Linear(q_dim, embed_dim)
    elif values.is_attention and values.is_width_of_heads(wish.name):
        number, others = values.settings["d_k"], []  # as wide as the model, it would hide a scale by √d_model
    found = list(dict.fromkeys([number, *others]))
    if wish.wants_fraction and not values.fixes(wish.name):
        fractions = [s for s in meant if s in FRACTIONS and s in values.settings]
        own = [s for s in fractions if s in values.own]  # a loss's ε is no norm's
        return [float(values.settings[s]) for s in own or fractions]
    return found


def _heads_by_use(wish: Wish, values: Values) -> list[Any]:
    """For n, which means nothing here, or d_h=8, which may be a head's width, by which the width is divided."""
    is_number = wish.is_required or type(wish.default) is int
    if not (is_number and "num_heads" in wish.use.meant and "num_heads" in values.own) or "num_heads" in values.names:
        return []
    values.used["num_heads"] = values.settings["num_heads"]
    return [values.settings["num_heads"]]


def made_by_name(wish: Wish) -> list[Any]:
    """Classes that a name asks for: the learner's own that are just that, torch's, others of the learner's."""
    asked = {*words(wish.name), wish.word} - {"layer", "cls"}
    own = [
        value
        for name, value in wish.namespace.items()
        if is_module_class(value) and value is not wish.owner
        and not is_of_torch(value) and not plain(name).startswith(("base", "abstract"))
        and asked & set(words(name))
    ]  # fmt: skip
    just = [cls for cls in own if asked & {*words(cls.__name__)[-1:]}]
    others = [cls for cls in own if cls not in just]
    return [*just[:2], *(cls for names, cls in CLASSES if asked & names), *others[:2]]


def _classes(wish: Wish, parts: Part) -> list[Any]:
    """Classes that a name asks for, also the reference's where nobody has defined one."""
    return made_by_name(wish) or [Lazy(functools.partial(_class_of, make)) for make in parts(wish.name)]


def _class_of(make: Callable[[], Any]) -> type:
    return type(make())


def _of_torch(wish: Wish, values: Values) -> list[Any]:
    """An instance of the class of torch.nn that is annotated: nn.Embedding of the settings."""
    if not wish.hint.__module__.startswith("torch.nn") or wish.hint is nn.Module:
        return []
    required = [p.name for p in inspect.signature(wish.hint).parameters.values() if p.default is p.empty]
    try:
        return [Lazy(functools.partial(wish.hint, **{name: values(name) for name in required}))]
    except Unknown:
        return []


def _table(wish: Wish, values: Values) -> list[Any]:
    """torch's table where that and nothing else is annotated: of as many words as either side has, or of positions."""
    if wish.hint is not nn.Embedding:
        return []
    counts = ["max_len"] if "pos" in wish.word else [name for name in values.own if name.endswith("vocab_size")]
    rows = max((int(values.settings[name]) for name in counts), default=0)
    width = values.settings["d_model"]
    return [Lazy(functools.partial(nn.Embedding, rows, width))] if rows else []


def _texts(wish: Wish) -> list[Any]:
    """A required text: what its file gives, what it is compared with, what its annotation allows."""
    allowed = [value for value in typing.get_args(wish.hint) if isinstance(value, str)]
    told = [value for value in wish.use.compared if isinstance(value, str)]
    given = [value for value in literal_of(wish.owner, wish.name) if isinstance(value, str)]
    known = [*(value for value in given if value in told or not told), *told]
    usual = ["relu"] if "act" in wish.word or "nonlin" in wish.word else ["cpu"]
    return list(dict.fromkeys([*known, *allowed, *usual]))[:4]


def is_table_of_positions(name: str) -> bool:
    """Whether a parameter takes one, by its name."""
    return TABLE.fullmatch(plain(name)) is not None


def table_of_positions(owner: Any, name: str, settings: Mapping[str, Any]) -> Tensor | None:
    """What is given for a parameter that takes a table of positions, by its name; None for any other."""
    if not is_table_of_positions(name) or not {"max_len", "d_model"} <= settings.keys():
        return None
    length, width = int(settings["max_len"]), int(settings["d_model"])
    table = functional.sinusoidal_positions(length, width, dtype=torch.float64)
    table = table[None] if is_of_samples(owner, name) else table
    table.is_given = True  # type: ignore[attr-defined]
    return table


def _guesses(wish: Wish, values: Values) -> list[Any]:
    """A required parameter that no name explains: by its use, by what its file gives, by its annotation."""
    if _is_vocabulary(wish):
        return [vocabulary(wish.name, values)]
    if "act" in wish.word or "nonlin" in wish.word:
        return ["relu", nn.ReLU(), torch.relu]
    if "bool" in wish.text or FLAG.match(wish.word):
        return [False, True]
    if ROTARY_BASE.search(wish.word):
        return [10000.0]
    if (table := table_of_positions(wish.owner, wish.name, values.settings)) is not None:
        return [table]
    known = [value for value in literal_of(wish.owner, wish.name) if not isinstance(value, (list, dict))]
    meant = [values.settings[s] for s in wish.use.meant if s in values.settings]
    if "float" in wish.text:
        return [*[value for value in known if isinstance(value, (int, float))][:1], 0.0]
    if wish.use.compared and any(isinstance(value, str) for value in wish.use.compared):
        return _texts(wish)
    if wish.use.applied or wish.hint is nn.Module:
        return _left_out(wish)
    is_between = "d_model" in values.names and "d_ff" in values.own and "d_ff" not in values.names
    has_heads = "d_k" in values.own and "d_model" not in values.own  # what is given heads knows their width alone
    of_settings = [values.settings[n] for n in (*(["d_k"] if has_heads else []), "d_model", "num_heads", "max_len")]
    of_settings = [value for value in of_settings if value > 1]  # a mask of one row and column would hide nothing
    meant = [values.settings["d_ff"], *meant] if is_between and not set(wish.use.meant) - WIDTHS else meant
    return list(dict.fromkeys([*meant[:2], *known[:2], *of_settings, None]))


def _left_out(wish: Wish) -> list[Any]:
    """For what is called, and nobody knows: no number. A dropout drops nothing, and what may be None is."""
    may_be_none = rf"\b{wish.name} is (not )?None|\bif (not )?(self\.)?{wish.name}\b"
    if re.search("drop|identity", wish.word):
        return [Lazy(nn.Identity)]
    return [None] if re.search(may_be_none, source_of(wish.owner)) else []
