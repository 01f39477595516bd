"""Config objects: a learner's own dataclass filled by synonym, or a stand-in that answers to any known name."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Collection, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Protocol

from scratch_transformer.kit.definitions import (
    is_module_class,
    is_own,
    leads_to,
    namespace_of,
    parameters_of,
    source_of,
)
from scratch_transformer.kit.resolve.build.fields import neutral, one_of
from scratch_transformer.kit.resolve.build.literals import is_looked_into, is_read_within, is_section, literal_of
from scratch_transformer.kit.resolve.names.inputs import first_or_last
from scratch_transformer.kit.resolve.names.settings import (
    FLAG,
    FLAGS,
    FRACTIONS,
    PROCESSES,
    SCALES,
    SHARING,
    SWITCH,
    is_setting,
    settings_of,
)
from scratch_transformer.kit.resolve.names.words import plain

NAMES = {
    "config", "cfg", "args", "conf", "hparams", "hp", "params", "configuration", "opt", "settings", "modelargs", "c",
    "modelconfig", "hyperparameters", "hyperparams", "options", "opts", "gptconfig", "kwargs", "param",
}  # fmt: skip
PRESETS = ("modeltype", "modelname", "preset", "pretrained")
"""What names a set of sizes."""
WORDS: dict[str, Any] = {
    "act": "gelu",
    "activation": "gelu",
    "hiddenact": "gelu",
    "device": "cpu",
    "dtype": None,
    "multipleof": 1,
    "batch": 2,
    **dict.fromkeys(PRESETS, None),  # sizes are given one by one
}
CAUSAL = re.compile(r"(is|use)?causal(mask|attention|attn)?")
"""A flag of what writes, in all likelihood: what hides nothing has no use for one."""
INITIAL = re.compile(r"init\w*(range|std|scale|gain|var)|^std$|stddev")
"""How far initial weights are from zero."""
SEGMENTS = re.compile(r"(n|num|max|numberof)?(seg(ment)?s?(types?)?|tokentypes?)(num|size)?")
"""How many segments a token may be of: a first and a second sentence, as BERT has them."""
FILE = re.compile(r"^path|path$")
ENDINGS = ("config", "args", "hparams", "params", "cfg", "hyperparameters", "hyperparams")
SECTIONS = (
    "model",
    "transformer",
    "network",
    "arch",
    "architecture",
    "encoder",
    "decoder",
    "attention",
    "hyperparameters",
)
"""Of configs: config.model.n_heads."""


UNKNOWN = re.compile(r"(src|source|tgt|trg|target)?(unk|unknown|mask|sep|cls)(tok(en)?|symb(ol)?)?(id|idx|index)")
"""The id of a word that is in no vocabulary, and others that a text is made with besides its words."""
LAST_OF_IDS = 3
"""Behind those of padding, and of what texts begin and end with."""


class Value(Protocol):
    """A parameter's name -> its value, or `Unknown`."""

    def __call__(self, name: str) -> Any: ...

    def fixes(self, name: str) -> bool:
        """Whether it has been told this value, which then goes before the config's own."""


class Unknown(Exception):
    """No value is known for a parameter."""


def is_config(parameter: inspect.Parameter) -> bool:
    """A parameter that takes a config object, by its name or by the name of its type."""
    kind = (
        parameter.annotation if isinstance(parameter.annotation, str) else getattr(parameter.annotation, "__name__", "")
    )
    return plain(parameter.name) in NAMES or "config" in plain(parameter.name) or "config" in plain(kind)


def _may_be_none(name: str, owner: Any) -> bool:
    """Whether a class asks if there is such a value: config.model_type is not None."""
    return owner is not None and re.search(rf"\.{name} is (not )?None", source_of(owner)) is not None


class Config(dict):
    """Answers to config.n_embd, config["emb_dim"] and config.get("emb_dim"), whatever the name, as `value` knows it."""

    def __init__(self, value: Value, real: Any = None, owner: Any = None) -> None:
        """real: the learner's own, for what is no setting. owner: the class that is built with it."""
        super().__init__()
        self.__dict__.update(_value=value, _real=real, _owner=owner)

    def _find(self, name: str) -> Any:
        real, value = self.__dict__["_real"], self.__dict__["_value"]
        own = real.get(name, Unknown) if isinstance(real, Mapping) else getattr(real, name, Unknown)
        if own is Unknown and plain(name) in SCALES and not value.fixes(name):
            found = _scale(name, self.__dict__["_owner"], value)
            if found is not None:
                return found
        if own is Unknown and is_looked_into(self.__dict__["_owner"], name):
            return Config(value, None, self.__dict__["_owner"])
        is_flag = is_flag_by_name(name) and own in (Unknown, None)
        if value.fixes(name) or (
            settings_of(name) and not is_flag and is_number(own, Unknown, None) and fits(name, own)
        ):
            try:
                return value(name)
            except Unknown:
                pass
        if plain(name) in PRESETS and _may_be_none(name, self.__dict__["_owner"]):
            return None
        if own is not Unknown:
            return Config(value, own) if isinstance(own, Mapping) or dataclasses.is_dataclass(own) else own
        return self._supposed(name)

    def _supposed(self, name: str) -> Any:
        """For what neither the settings nor the learner's config have: what its file says, flags, usual words."""
        word, owner = plain(name), self.__dict__["_owner"]
        known = literal_of(owner, name) if owner is not None else []
        if known:
            return Config(self.__dict__["_value"], known[0]) if isinstance(known[0], Mapping) else known[0]
        if word in FLAGS:
            return FLAGS[word]
        if not settings_of(name) and (usual := _by_default(owner, name)) is not Unknown:
            return usual
        if word in WORDS or PROCESSES.fullmatch(word):
            return WORDS.get(word, 1)
        if (end := first_or_last(word)) is not None:
            return end
        if UNKNOWN.fullmatch(word):
            return LAST_OF_IDS
        is_upper = name.isupper() and len(name) > 1
        if word in SECTIONS or word.endswith(ENDINGS) or (is_upper and is_section(owner, name)):
            return Config(self.__dict__["_value"], None, owner)
        if not settings_of(name) and is_read_within(owner, name, NAMES):
            return Config(self.__dict__["_value"], None, owner)
        if is_upper:
            return None
        if INITIAL.search(word):
            return 0.02
        if SEGMENTS.fullmatch(word):
            return 2
        if FLAG.match(word) or is_flag_by_name(name):
            return CAUSAL.fullmatch(word) is not None
        if FILE.search(word):
            return name  # of a file that is not there
        raise Unknown(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._find(name)
        except Unknown as error:
            raise AttributeError(f"the config has no {name}") from error

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __getitem__(self, name: str) -> Any:
        try:
            return self._find(name)
        except Unknown as error:
            if not isinstance(name, str) or settings_of(name) or not plain(name).endswith(SECTIONS):
                raise KeyError(name) from error
            return Config(self.__dict__["_value"], None, self.__dict__["_owner"])  # args["self_attention"]["d_k"]

    def get(self, name: str, default: Any = None) -> Any:
        if isinstance(default, bool) and not self.__dict__["_value"].fixes(name):
            own = self.__dict__["_real"]
            return own[name] if isinstance(own, Mapping) and name in own else FLAGS.get(plain(name), default)
        try:
            found = self._find(name)
        except Unknown:
            return default
        return default if isinstance(default, bool) and not isinstance(found, bool) else found  # a flag is no size

    def __contains__(self, name: object) -> bool:
        return self.get(str(name), Unknown) is not Unknown

    def __iter__(self) -> Iterator[str]:
        """What the learner's own has, for {**config, "d_model": 8} and dict(config): a dictionary's would be none."""
        return iter(self._own())

    def __len__(self) -> int:
        return len(self._own())

    def _own(self) -> Mapping[str, Any]:
        real = self.__dict__["_real"]
        return real if isinstance(real, Mapping) else {}

    def keys(self) -> Any:
        return KeysView(self)

    def values(self) -> Any:
        return ValuesView(self)

    def items(self) -> Any:
        return ItemsView(self)

    def copy(self) -> Config:
        return Config(self.__dict__["_value"], self.__dict__["_real"], self.__dict__["_owner"])

    def __or__(self, others: Any) -> dict[str, Any]:  # type: ignore[override]
        return {**self, **others}

    def __deepcopy__(self, memo: object) -> Config:
        return self

    def __reduce__(self) -> Any:
        return Config, (self.__dict__["_value"], self.__dict__["_real"], self.__dict__["_owner"])


def instances(
    parameter: inspect.Parameter, namespace: Mapping[str, Any], value: Value, read: Collection[str], owner: Any
) -> list[Any]:
    """Config objects to try: of the annotated class, of one that says config and has what is read, a stand-in for any.

    read: the attributes or keys that the owner reads from it.
    """
    annotation, own = parameter.annotation, parameter.default
    if isinstance(annotation, str):
        annotation = namespace.get(annotation)
    if annotation is parameter.empty and holds_values(own) and not isinstance(own, Mapping):
        annotation = type(own)
    classes = [annotation] if inspect.isclass(annotation) and annotation not in (parameter.empty, dict) else []
    others = [c for n, c in namespace.items() if inspect.isclass(c) and plain(n).endswith(ENDINGS) and c not in classes]
    classes += sorted(others, key=lambda cls: (_lacks(cls, read), _spares(cls, read)))
    made: list[Any] = []
    for cls in classes[:3]:
        one = _instance(cls, value, owner)
        if one is not None and not _lacks(one, read):
            made = [one]
            break  # before what another class's config asks for, a dropout say, seems to be asked for here
        made += [] if one is None else [one]
    present = [own] if isinstance(own, Mapping) else []
    present += [d for name, d in namespace.items() if is_config_name(name) and holds_values(d)]
    present = sorted(present, key=lambda one: _lacks(one, read))
    real = next((one for one in [*made, *present] if not _lacks(one, read)), next(iter([*made, *present]), None))
    return [*made[:2], *(Config(value, d, owner) for d in present[:2]), Config(value, real, owner)]


def of_one_class(namespace: Mapping[str, Any], value: Value, read: Collection[str], owner: Any) -> list[Any]:
    """An object of the one class of a file that has all that is read from an argument, some of which is no setting:
    parallel.rank, parallel.all_reduce. [] where none has it, or several.
    """
    if all(map(settings_of, read)):
        return []
    classes = [c for c in dict.fromkeys(filter(inspect.isclass, namespace.values())) if is_own(c) and c is not owner]
    likely = [cls for cls in classes if not is_module_class(cls) and _lacks(cls, read) < len(read)]
    made = [_instance(cls, value, owner) for cls in likely]
    found = [one for one in made if one is not None and not _lacks(one, read)]
    return found if len(found) == 1 else []


def is_flag_by_name(name: str) -> bool:
    """Whether a name says that it is True or False, though its end is one of a setting: use_rotary_emb, no_pos_emb."""
    return SWITCH.match(name) is not None and not is_setting(name)


def holds_values(thing: Any) -> bool:
    """A dictionary, or an object made of one: not a class, a function or a module."""
    is_object = hasattr(thing, "__dict__") and not callable(thing) and not inspect.ismodule(thing)
    return isinstance(thing, Mapping) or is_object


def _lacks(config: Any, read: Collection[str]) -> int:
    """How many of the names it does not have."""
    if isinstance(config, Mapping):
        return sum(name not in config for name in read)
    fields = getattr(config, "__annotations__", {})
    return sum(not hasattr(config, name) and name not in fields for name in read)


def _spares(cls: type, read: Collection[str]) -> int:
    """How many fields it has besides: of two configs, that of a class which takes no dropout has none."""
    return len({name for one in cls.__mro__ for name in vars(one).get("__annotations__", ())} - set(read))


def is_config_name(name: str) -> bool:
    """Whether a global of this name holds hyperparameters."""
    return any(word in plain(name) for word in ("config", "cfg", "hparam", "args")) and not name.startswith("__")


def is_number(value: Any, *others: Any) -> bool:
    """A number that is no truth value, or one of the others."""
    return type(value) in (int, float) or any(value is other for other in others)


def fits(name: str, own: Any) -> bool:
    """Whether a setting of this name may stand in place of a value: no whole number for a fraction."""
    is_fraction = isinstance(own, float) and not own.is_integer()
    return not is_fraction or any(setting in FRACTIONS for setting in settings_of(name))


def _instance(cls: type, value: Value, owner: Any) -> Any:
    """A config of this class, every field that is known by its name filled; None if it cannot be made."""
    if _is_made_of_fields(cls):
        fields = [field for field in dataclasses.fields(cls) if field.init]
        names, given = [field.name for field in fields], {}
        missing = dataclasses.MISSING
        open_ = [f.name for f in fields if f.default is missing and f.default_factory is missing]
    else:
        try:
            kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            parameters = [p for p in inspect.signature(cls).parameters.values() if p.kind in kinds]
        except (TypeError, ValueError):
            return None
        names, open_ = [p.name for p in parameters], [p.name for p in parameters if p.default is p.empty]
        given = {p.name: p.default for p in parameters if p.default is not p.empty}
    known = _known(names, cls, value, given)
    known |= _sections(cls, value, owner) if _is_made_of_fields(cls) else {}
    stand_in = Config(value, None, owner)
    for way in (functools.partial(one_of, cls), stand_in.get, functools.partial(neutral, cls)):
        known |= {name: way(name) for name in open_ if known.get(name) is None}
    try:
        made = cls(**known)
    except Exception:
        return None
    for name in {name for one in (*cls.__mro__, made) for name in getattr(one, "__dict__", ())} - set(names):
        if not name.startswith("_") and _holds_a_number(made, name):
            for found in _known([name], cls, value).values():
                _try_to_set(made, name, found)
    return made


def _sections(cls: type, value: Value, owner: Any) -> dict[str, Any]:
    """Of a dataclass, the fields that are dataclasses, filled like it: attention: AttentionConfig."""
    found, missing = dict[str, Any](), dataclasses.MISSING
    for field in dataclasses.fields(cls):
        kind: Any = field.default_factory if field.default_factory is not missing else type(field.default)
        if field.default is missing and field.default_factory is missing:
            kind = namespace_of(cls).get(field.type) if isinstance(field.type, str) else field.type
        made = _instance(kind, value, owner) if inspect.isclass(kind) and dataclasses.is_dataclass(kind) else None
        found |= {field.name: made} if made is not None and field.init else {}
    return found


def _holds_a_number(made: Any, name: str) -> bool:
    try:
        return isinstance(getattr(made, name, None), (int, float))
    except Exception:  # a property may raise anything
        return False


def _is_made_of_fields(cls: type) -> bool:
    """Whether its constructor is that of a dataclass: a base may be one, whose fields are not what it takes."""
    maker = next((one for one in cls.__mro__ if "__init__" in vars(one)), object)
    return dataclasses.is_dataclass(cls) and "__dataclass_fields__" in vars(maker)


def _known(names: list[str], cls: type, value: Value, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """given: the defaults of its constructor, where they are no attributes of the class."""
    known: dict[str, Any] = {}
    for name in names:
        default = getattr(cls, name, (given or {}).get(name))
        if default is True and SHARING.search(plain(name)) and not value.fixes(name):
            known[name] = False  # vocabularies of two sizes cannot share their embeddings
            continue
        is_open = is_number(default, None) or inspect.isdatadescriptor(default)
        if value.fixes(name) or (settings_of(name) and is_open and fits(name, default)):
            try:
                known[name] = value(name)
            except Unknown:
                continue
    return known


def _by_default(owner: Any, name: str) -> Any:
    """What a part of a class takes by default under this name, Part(normed=cfg["normed"]), or under that which it is
    handed on by, Part(normed=cfg["use_it"]); Unknown if nothing.
    """
    parts = leads_to(owner) if isinstance(owner, type) else ()
    read = rf"""(\w+) ?= ?[\w.]+(?:\.{name}\b|\[['"]{name}['"]\])(?! *[-+*/%(.\[])"""
    names = {name, *(found for part in (owner, *parts) for found in re.findall(read, source_of(part)))}
    asked = [p.default for part in parts for p in parameters_of(part) if p.name in names]
    return next((default for default in asked if default is not inspect.Parameter.empty), Unknown)


def _try_to_set(made: Any, name: str, value: Any) -> None:
    try:
        setattr(made, name, value)
    except Exception:  # a property, or a frozen dataclass: then the class computes it
        return


def _scale(name: str, owner: Any, value: Value) -> float | None:
    """√d_k or 1/√d_k, by what a class, or one that it is made of, does with it; None if it does neither."""
    scales, operation = getattr(value, "scales", None), _operation(name, owner)
    if operation is None or scales is None:
        return None
    divisor = float(max(scales(plain(name))))
    return divisor if operation == "/" else 1 / divisor


@functools.lru_cache(maxsize=64)
def _operation(name: str, owner: Any) -> str | None:
    """What is done with an attribute beside a softmax: * or /. A config is asked for it at every attempt to build."""
    code = "".join(map(source_of, (owner, *leads_to(owner)))) if isinstance(owner, type) else ""
    with_it = rf"([*/]) ?(?:\w+\.)?{name}\b"
    used = re.search(rf"softmax[\s\S]*{with_it}|{with_it}[\s\S]*softmax", code)
    return used[1] or used[2] if used else None
