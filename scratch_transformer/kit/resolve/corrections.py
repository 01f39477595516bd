"""Where what a class is told and does speaks against its name: what it is rather, before anything is built."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from torch import nn

from scratch_transformer.kit.definitions import leads_to, names_in, parameters_called
from scratch_transformer.kit.kind import NETWORKS, Kind
from scratch_transformer.kit.resolve import structure
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.fitness import fitness, names_within, takes, takes_mask
from scratch_transformer.kit.resolve.names.inputs import is_segment
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain, words

ATTENTIONS = (
    "MultiheadAttention",
    "CausalSelfAttention",
    "SelfAttention",
    "CrossAttention",
    "ScaledDotProductAttention",
    "CausalRotaryAttention",
    "RotaryAttention",
)
BLOCKS = ("EncoderLayer", "DecoderOnlyLayer", "DecoderLayer", "LlamaBlock", "MaskedLlamaBlock")
LAYERS = ("EncoderLayer", "DecoderOnlyLayer")
NORMS = ("LayerNorm", "RMSNorm")
STACKS = ("TokenDecoder", "Decoder", "TokenEncoder", "Encoder")
SUMS = ("ResidualConnection",)
WHOLE = structure.WHOLE

NORMALIZES = re.compile(r"norm|mean|std|var|rms|parameter|^ln\d*$", re.IGNORECASE)
PARTS = re.compile(r"Embedding|Parameter|ModuleList|[Ee]ncoder|[Dd]ecoder|former|LSTM|GRU|RNN|Conv|[Bb]lock")
ATTENTIVE = re.compile(r"att|softmax|mha|mhsa|quer|qkv|heads|multi_?head|norm")
ENCODES = re.compile(r"bert|classif|sentiment")
EMBEDS = re.compile(r"embed|stack|encoder|decoder|former", re.IGNORECASE)
"""Parts of a whole model, which may have been handed in ready made."""
SAYS_LAYER = re.compile(r"(en|de)coder(layer|block)|transformer(layer|block)")
"""In the name of what is no network, though no word in it tells that it attends."""


def corrected(found: list[str], word: str, thing: type, kinds: Mapping[str, Kind]) -> list[str]:
    """The kinds that a class's name suggests, the likeliest first, with those before them that it is rather.

    word: its name in small letters, without anything between words.
    """
    best = _with_tables_and_readers(found, word, thing)
    for correction in CORRECTIONS:
        is_such = best and (correction.taken_for is None or best[0] in correction.taken_for)
        if is_such and correction.where(thing):
            rather = correction.rather(thing, kinds)
            best = rather if correction.is_sure else first(rather, best)
    return best


def first(rather: Iterable[str], best: Iterable[str]) -> list[str]:
    """The same kinds with some before them, each once."""
    return list(dict.fromkeys([*rather, *best]))


def _with_tables_and_readers(best: list[str], word: str, thing: type) -> list[str]:
    """With what else the same name may say: of a table that it is looked up by position, of GPT's kin that it reads."""
    names = names_in(thing)
    if "swiglu" in word:  # a sigmoid there is no other design
        best = [kind for kind in best if kind != "FeedForward"]
    if "InputEmbedding" in best and {"sin", "cos"} <= names:
        best = first(best, ["PositionalEncoding"])  # a table that is looked up by position
    if "PositionalEncoding" in best and {"Embedding", "sin", "cos"} <= names:
        best = first(best, ["EmbeddingWithPositions"])  # which is given ids
    encodes = "bert" in word or (ENCODES.search(word) and takes_mask(thing)) or _is_told_segments(thing)
    if "DecoderOnly" in best and encodes:
        best = [kind for kind in best if kind != "TokenEncoder"]
        best.insert(best.index("DecoderOnly"), "TokenEncoder")  # BertModel
    return best


# ---- What a class is ----


def _is_told_segments(thing: type) -> bool:
    """Which of two sentences a token is of, as what reads both is told, and what writes is not."""
    return any(is_segment(parameter.name) for parameter in parameters_called(thing))


def is_told(thing: Any, setting: str) -> bool:
    """Whether a class's constructor has a parameter for this setting."""
    return isinstance(thing, type) and any(setting in settings_of(p.name) for p in parameters_of(thing))


def _embeds_words(thing: type) -> bool:
    """Whether it looks up in a table that is told how many words there are: PositionalEmbedding(length, words, d)."""
    return "Embedding" in names_in(thing) and any("voc" in plain(p.name) for p in parameters_of(thing))


def _is_table(thing: type) -> bool:
    """Whether it has a table of words and nothing else that computes: SharedEmbeddingLayer, which projects by it."""
    return _embeds_words(thing) and "embed" in plain(thing.__name__) and not structure.linears(thing)


def _repeats_a_layer(thing: type) -> bool:
    """Whether a constructor must be given one layer, and how many of it to make: EncoderBlock(layer, N)."""
    required = [p for p in parameters_of(thing) if p.default is p.empty]
    is_list = any("num_layers" in settings_of(p.name)[:1] for p in parameters_of(thing))
    return is_list and any(words(p.name)[-1:] in (("layer",), ("block",)) and not settings_of(p.name) for p in required)


def _embeds_and_repeats(thing: type) -> bool:
    """Whether it has a table of words, and layers."""
    return "Embedding" in names_in(thing) and is_told(thing, "num_layers")


def _is_one_linear_layer(thing: type) -> bool:
    """Whether it is a head, and no network: ClassificationLayer."""
    return structure.linears(thing) == 1 and _is_bare(thing)


def _is_network(thing: type) -> bool:
    """Whether a block attends to nothing: it has no norm either, or linear layers of its own beside it."""
    called = [one for one in leads_to(thing) if inspect.isfunction(one)]
    names = names_within(thing).union(*map(names_in, called))
    found = [word for name in names for word in ATTENTIVE.findall(name.lower())]
    is_no_layer = not SAYS_LAYER.search(plain(thing.__name__))
    return is_no_layer and (not found or ({*found} == {"norm"} and "Linear" in names_in(thing)))


def _is_head_of_layers(thing: type) -> bool:
    """TransformerAnswerHead: what a model ends with, of several linear layers, and called after that."""
    return words(thing.__name__)[-1:] == ("head",) and _has_linears(thing) and _is_bare(thing)


def _has_linears(thing: type) -> bool:
    """Whether it has more linear layers than one: T5DenseReluDense, NormedResidualLayer."""
    return structure.linears(thing) > 1


def _is_told_heads(thing: type) -> bool:
    """AttentionSublayer(d_model, num_heads), which adds."""
    return is_told(thing, "num_heads")


def _normalizes_nothing(thing: type) -> bool:
    """x + f(x) alone, which leaves the norm to others."""
    return not any(map(NORMALIZES.search, names_in(thing)))


def projects_to_words(thing: type) -> bool:
    """Whether it is one linear layer, to as many scores as there are words, and a log_softmax."""
    is_told_both = is_told(thing, "d_model") and is_told(thing, "vocab_size")
    return issubclass(thing, nn.Module) and is_told_both and structure.linears(thing) == 1 and _ends_in_logs(thing)


def _ends_in_logs(thing: type) -> bool:
    """Whether it has a linear layer, a log_softmax and nothing else, as far as names tell."""
    names = names_within(thing)
    found = {word for name in names for word in ATTENTIVE.findall(name.lower())}
    is_one = "Linear" in names and bool(names & {"log_softmax", "LogSoftmax"}) and found == {"softmax"}
    return is_one and not any(EMBEDS.search(name) for name in names - {thing.__name__}) and not _has_layers(thing)


def _only_projects(thing: type) -> bool:
    """Whether it is one linear layer, and perhaps a softmax of that: PredictionLayer, OutputBlock, BertMLM."""
    if _ends_in_logs(thing):
        return True
    return _is_bare(thing) and structure.linears(thing) == 1 and is_told(thing, "vocab_size")


def _is_bare(thing: type) -> bool:
    """Whether nothing in it attends, normalizes or embeds, and no part of it is a layer, as far as names tell."""
    names = names_within(thing)
    return not any(ATTENTIVE.search(name.lower()) for name in names) and not _has_layers(thing)


def _has_layers(thing: type) -> bool:
    """Whether any part of it is a layer or a table, as far as names tell."""
    return any(PARTS.search(name) for name in names_within(thing) - {thing.__name__})


def _is_given_sublayers(thing: type) -> bool:
    """Whether a constructor must be given an attention and a feed-forward network: DecoderModule is a layer then."""
    if any("num_layers" in settings_of(p.name)[:1] for p in parameters_of(thing)):
        return False  # a list of each
    given = [plain(p.name) for p in parameters_of(thing) if p.default is p.empty and p.annotation not in (int, float)]
    named = [[word for word in given if re.search(part, word)] for part in (r"att(?!.*drop)", r"ff(?!.*dim)|feedf|mlp")]
    return all(named) and not any(settings_of(word) for some in named for word in some)


def _has_two_halves(thing: type) -> bool:
    """Whether a class of modules has no forward, but methods encode and decode."""
    has_forward = getattr(thing, "forward", None) is not nn.Module.forward
    return issubclass(thing, nn.Module) and not has_forward and hasattr(thing, "encode") and hasattr(thing, "decode")


# ---- What it is rather ----

Kinds = Callable[[type, Mapping[str, Kind]], list[str]]


def _always(*names: str) -> Kinds:
    return lambda thing, kinds: list(names)


def _for_sides(one: tuple[str, ...], two: tuple[str, ...]) -> Kinds:
    """Others for what is given the encoder's output, too."""
    return lambda thing, kinds: list(two if takes(thing, "memory") else one)


def _head_or_nothing(thing: type, kinds: Mapping[str, Kind]) -> list[str]:
    return ["Projection"] if _only_projects(thing) else []


def _attentions(thing: type, kinds: Mapping[str, Kind]) -> list[str]:
    return sorted((name for name in ATTENTIONS if name in kinds), key=lambda name: -fitness(kinds[name], thing))


class Correction(NamedTuple):
    """What is taken for one of these and is like that is rather this: before what its name suggests, or instead."""

    taken_for: Collection[str] | None
    """None: of anything."""
    where: Callable[[type], bool]
    rather: Kinds
    is_sure: bool = False


CORRECTIONS = (
    Correction(("PositionalEncoding",), _embeds_words, _always("EmbeddingWithPositions")),
    Correction(BLOCKS, _repeats_a_layer, _for_sides(("Encoder", "TokenEncoder"), ("Decoder", "TokenDecoder"))),
    Correction(BLOCKS, _embeds_and_repeats, _for_sides(("TokenEncoder",), ("TokenDecoder",))),
    Correction(BLOCKS, _is_table, _always("InputEmbedding")),
    Correction(BLOCKS, _is_one_linear_layer, _head_or_nothing, is_sure=True),
    Correction(BLOCKS, _is_network, _always(*NETWORKS)),
    Correction((*STACKS, *WHOLE), _is_head_of_layers, _always(*NETWORKS)),
    Correction(("Linear", *NORMS), _has_linears, _always(*NETWORKS)),
    Correction(("Linear",), structure.has_bare_layers, _always(*NETWORKS)),
    Correction(SUMS, _is_told_heads, _attentions),
    Correction(SUMS, _normalizes_nothing, _always(), is_sure=True),
    Correction(("Linear", *BLOCKS, *STACKS, *WHOLE), _only_projects, _always("Projection")),
    Correction((*STACKS, "DecoderOnly", "LlamaModel"), _is_given_sublayers, _for_sides(LAYERS, ("DecoderLayer",))),
    Correction(None, _has_two_halves, _always("Transformer")),
    Correction((*STACKS, *WHOLE), structure.makes_both_sides, _always("Transformer")),
)
"""In this order: one may correct what another says."""
