"""The value of a setting for every name that may mean it: a parameter's, a field's of a config, a global's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scratch_transformer.kit.resolve.build.config import Unknown
from scratch_transformer.kit.resolve.build.tokenizer import FIRST, LAST
from scratch_transformer.kit.resolve.names.settings import (
    COUNT,
    SCALES,
    is_setting,
    settings_beside,
    settings_of,
    side_of,
)
from scratch_transformer.kit.resolve.names.words import plain, words

GENERAL: dict[str, Any] = {
    "d_model": 12, "num_heads": 3, "d_ff": 17, "eps": 1e-5, "dropout": 0.0, "vocab_size": 11, "src_vocab_size": 11,
    "tgt_vocab_size": 13, "num_layers": 2, "max_len": 19, "pad": 0, "label_smoothing": 0.0, "warmup": 40,
    "src_pad": 0, "tgt_pad": 1,
    "factor": 1.0, "d_ff/d_model": 2, "batch": 2, "rope_base": 10000.0,
}  # fmt: skip
"""For what a kind has no setting of its own."""


VOCABULARIES = {"vocab_size", "src_vocab_size", "tgt_vocab_size"}
COUNTS = {*VOCABULARIES, "num_layers"}
"""Of words and layers, which a table of positions has none of: what it is told as that is how many rows it has."""
EMBEDDINGS = {"embedding", "embeddings"}
OUTPUTS = {"out", "output", "outputs"}
ENDS = ("d_model", "d_out")
"""What a linear layer is told first, in whatever words: Linear(x, y)."""
WIDTHS = {"d_model", "d_k"}
AXIS = ("axis", "dim")
"""What is no width where nothing has one: of a softmax."""


class Values:
    """A parameter's name -> its value by the settings; records what was asked for. given: values fixed by name.

    of_head: of a class that is one head.
    """

    def __init__(self, settings: Mapping[str, Any], given: Mapping[str, Any], of_head: bool = False) -> None:
        self.of_head = of_head
        self.own = set(settings)
        self.settings = {**GENERAL, **settings}
        if "d_k" not in settings:
            self.settings["d_k"] = self.settings["d_model"] // self.settings["num_heads"]
        self.settings.setdefault("num_kv_heads", self.settings["num_heads"])
        self.settings["num_heads/num_kv_heads"] = self.settings["num_heads"] // (self.settings["num_kv_heads"] or 1)
        self.given = {plain(name): value for name, value in given.items()}
        self.used: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        """Setting -> the parameter that asked for it first."""
        self._inner: tuple[str, ...] = ()
        self._beside: tuple[str, ...] = ()
        """All names that it may be asked for."""
        self.has_vocabulary = False
        """Whether another name than num_embeddings is that of a vocabulary's size."""
        self._words: dict[str, str] = {}
        self._rows: tuple[str, ...] = ()
        self._ends: dict[str, str] = {}
        self._pads: dict[str, str] = {}

    def __call__(self, name: str) -> Any:
        if self.fixes(name):
            self.used[plain(name)] = self.given[plain(name)]
            return self.given[plain(name)]
        one_side = [setting[4:] for setting in settings_of(name) if setting[:4] in ("src_", "tgt_")]
        for setting in one_side:  # an encoder's source vocabulary is its vocabulary
            if setting in self.own:
                self.used[setting] = self.settings[setting]
                return self.settings[setting]
        known = self.own | ({"d_k"} if "d_k" in self.names and self._is_taken("d_model", name) else set())
        for setting in sorted(self.meanings(name), key=lambda one: (one not in known, self._is_taken(one, name))):
            if setting in self.settings:
                self.used[setting] = self.settings[setting]
                self.names.setdefault(setting, name)
                return _halved(name, self.settings[setting])
        raise Unknown(name)

    def fixes(self, name: str) -> bool:
        """Whether the value is given, and not one of the settings."""
        return plain(name) in self.given

    @property
    def is_attention(self) -> bool:
        """Whether the settings are those of an attention and nothing else."""
        return "num_heads" in self.own and "d_ff" not in self.own

    def scales(self, word: str) -> list[float]:
        """What scores are divided by, or multiplied with: both are tried."""
        divisor = float(self.settings["d_k"]) ** 0.5
        return [1 / divisor, divisor] if SCALES[word] else [divisor, 1 / divisor]

    def reserve(self, names: Iterable[str], compared: Iterable[str] = ()) -> None:
        """What can mean one thing only does: beside hid_dim, input_dim is the size of the vocabulary.

        compared: those that ids are compared with, which mean padding if their names say nothing.
        """
        names = list(names)
        self._pads = {name: side for name in compared if (side := self._padding(name))}
        self._beside = tuple(names)
        self.has_vocabulary = any("vocab" in plain(name) for name in names)
        for name in names:
            meanings = settings_of(name)
            if len(meanings) == 1 and is_setting(name) and not self.is_width_of_heads(name):
                self.names.setdefault(meanings[0], name)
        told = {setting for name in names for setting in settings_beside(name, names)[:1]}
        if self.own & {"vocab_size", "src_vocab_size"} and not any("vocab" in setting for setting in told):
            self._words = {n: s for n in names if (s := self._vocabulary(n))}
        if "max_len" in self.own and "max_len" not in told and not COUNTS & self.own:
            self._rows = tuple(name for name in names if _counts_rows(name, names))
        wide = [n for n in names if settings_of(n)[:1] == ("d_model",) and n not in self._words and is_setting(n)]
        if len(wide) == 1:
            self.names.setdefault("d_model", wide[0])  # hidden_dim, if nothing else is
        if self.own == {*ENDS} and not any({*settings_of(n)} & {*ENDS} for n in names[: len(ENDS)]):
            self._ends = dict(zip(names, ENDS, strict=False))
        if "d_model" in self.names and "d_ff" in self.own:
            self._inner = self._unclear(names) or self._second(names) or self._one_letter(names)

    def meanings(self, name: str) -> tuple[str, ...]:
        """The settings that a name may mean beside the other ones of its constructor."""
        if name in self._words:
            return (self._words[name],)
        if name in self._rows:
            return ("max_len",)
        if name in self._pads:
            return (self._pads[name],)
        if name in self._ends:
            return (self._ends[name],)
        if self.of_head and settings_of(name) == ("num_heads",):
            return ("d_k",)
        if self.is_width_of_heads(name):
            return ("d_k", "d_model")
        if "axis" in self.own and plain(name) in AXIS:
            return ("axis",)
        if _counts_embeddings(name) and (self.has_vocabulary or not self.own & VOCABULARIES):
            return ("d_model", *settings_of(name))  # the width of what embeds no words
        if _counts_outputs(name) and not self.own & VOCABULARIES:
            return ("d_out" if "d_out" in self.own else "d_model", *settings_of(name))
        return ("d_ff", *settings_of(name)) if name in self._inner else settings_beside(name, self._beside)

    def _padding(self, name: str) -> str:
        """The padding that ids may be compared with, unless the name says something: the end of a sentence, say."""
        said = set(words(name))
        if settings_of(name) or said & {*FIRST, *LAST}:
            return ""
        return f"{side_of(said)}pad"

    def _vocabulary(self, name: str) -> str:
        """The vocabulary that input_dim or tgt_dim is the size of, where nothing else is that."""
        if "vocab_size" not in settings_of(name)[1:] or plain(name) in ("size", "dim"):
            return ""
        side = side_of({*words(name)}) or ("tgt_" if "out" in plain(name) else "src_")
        return "vocab_size" if "vocab_size" in self.own else f"{side}vocab_size"

    def _unclear(self, names: Sequence[str]) -> tuple[str, ...]:
        """Beside embed_dim, and where nothing else is the width in between, expand_dim is: only its end is known.

        Beside hidden_dim, which may be either, it may be too.
        """
        known = {s for name in names if name != self.names["d_model"] for s in settings_of(name)[:1]}
        is_free = not known & {"d_ff", "d_ff/d_model"}
        return tuple(n for n in names if is_free and settings_of(n) == ("d_model",) and not is_setting(n))

    def _one_letter(self, names: Sequence[str]) -> tuple[str, ...]:
        """h is no number of heads where there are none, or another parameter is that."""
        heads = [n for n in names if settings_of(n)[:1] == ("num_heads",)]
        is_told = any("d_ff" in setting for n in names for setting in settings_of(n)[:1])
        return () if is_told or ("num_heads" in self.own and len(heads) < 2) else tuple(n for n in heads if n == "h")

    def _second(self, names: Sequence[str]) -> tuple[str, ...]:
        """Of two widths, input_dim and feature_dim, and none that is said to be in between, the second is that.

        Not d_model beside input_dim: that says which it is. Nor dim beside n_embd: configs have both for one width.
        """
        wide = [n for n in names if settings_of(n)[:1] == ("d_model",) and n not in self._words]
        wide.sort(
            key=lambda name: plain(name) != "nembd"
        )  # n_state may be what is told first, and a config's read last
        known = {s for name in names for s in settings_of(name)} & {"d_ff", "d_ff/d_model"}
        if len(wide) < 2 or known or settings_of(wide[-1]) != ("d_model",) or "model" in words(wide[-1]):
            return ()
        if {plain(name) for name in wide} == {"nembd", "dim"}:
            return ()
        self.names["d_model"] = wide[0]
        return (wide[-1],)

    def is_width_of_heads(self, name: str) -> bool:
        """Whether key_size is that of a head: beside the model's and their number, and no query_size."""
        others = [other for other in self._beside if other != name]
        told = {setting for other in others for setting in settings_of(other)[:1]}
        is_alone = not {"query", "value"} & {word for other in others for word in words(other)}
        is_of_keys = "key" in words(name) and bool(WIDTHS & {*settings_of(name)})
        return is_of_keys and is_alone and told >= {"d_model", "num_heads"}

    def _is_taken(self, setting: str, name: str) -> bool:
        """Another parameter means this: beside d_model, `hidden` is d_ff."""
        return self.names.get(setting, name) != name


def _counts_rows(name: str, names: Iterable[str]) -> bool:
    """vocab_len, n; size, beside d_model."""
    is_wide = any(settings_of(other) == ("d_model",) for other in names if other != name)
    return bool(COUNTS & {*settings_of(name)[: None if is_wide else 1]})


def _counts_embeddings(name: str) -> bool:
    """num_embeddings, n_embedding: how many words there are, or how many features a word has."""
    found = set(words(name))
    return bool(found & EMBEDDINGS) and found <= EMBEDDINGS | COUNT | {"of"} and settings_of(name) == ("vocab_size",)


def _counts_outputs(name: str) -> bool:
    """pw_num_outputs: how many words there are, or, of what has none, how many features come out."""
    return bool(OUTPUTS & set(words(name))) and settings_of(name) == ("vocab_size",)


def _halved(name: str, value: Any) -> Any:
    """half_dim = 8 beside dim = 2 * half_dim: as many pairs of a sine and a cosine."""
    return value // 2 if type(value) is int and "half" in words(name) else value
