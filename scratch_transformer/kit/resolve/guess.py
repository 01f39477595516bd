"""Which kinds a class or function may be, by its name and what its forward takes, before anything is built."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import leads_to, names_in, nodes_of, parameters_called, source_of
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve import structure
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.call import forwards
from scratch_transformer.kit.resolve.corrections import (
    ATTENTIONS,
    BLOCKS,
    LAYERS,
    corrected,
    first,
    is_told,
    projects_to_words,
)
from scratch_transformer.kit.resolve.fitness import (
    INSIDE,
    TODAY,
    fitness,
    may_turn,
    of_today,
    required_of,
    takes,
    takes_mask,
    takes_two_sides,
)
from scratch_transformer.kit.resolve.functions import (
    letters,
    mask_makers,
    mask_outputs,
    of_modules,
    padded,
    schedules,
    training,
    windows,
    writing,
)
from scratch_transformer.kit.resolve.functions.grouping import makes_groups
from scratch_transformer.kit.resolve.functions.schedules import is_cosine, is_linear, is_schedule, is_warmup
from scratch_transformer.kit.resolve.functions.sizes import is_table
from scratch_transformer.kit.resolve.functions.tokenizing import is_tokenizer
from scratch_transformer.kit.resolve.functions.weighted import weights_of
from scratch_transformer.kit.resolve.likeness import ADAPTER, HEAD, NAMED, by_last_word, likeness
from scratch_transformer.kit.resolve.names.inputs import is_mask
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain, words

NO_COMPONENTS = (
    "config", "args", "dataset", "dataloader", "tokenizer", "trainer", "batch", "vocab", "collate", "translator", "lit",
    "datamodule", "prenorm", "postnorm", "wrapper", "callback", "logger", "metric", "timer", "accumulator", "animator",
    "cache", "hyperparameters", "segmentembedding", "segmentembeddings", "tokentypeembedding", "tokentypeembeddings",
    "scalenorm", "batchnorm", "batchnorm1d", "groupnorm", "instancenorm", "weightnorm", "adaptivelayernorm",
)  # fmt: skip
NOTHING = ("no", "without", "identity", "null", "dummy")
MOST = 4

EMBEDDINGS = ("Embedding", "InputEmbedding", "EmbeddingWithPositions")
FAMILIES = (
    ATTENTIONS,
    ("EncoderLayer", "DecoderOnlyLayer", "DecoderLayer", "LlamaBlock", "MaskedLlamaBlock"),
    ("SwiGLU", "FeedForward"),
    ("Encoder", "TokenEncoder"),
    ("Decoder", "TokenDecoder", "DecoderOnly", "LlamaModel", "Encoder"),
    ("Transformer", "DecoderOnly", "TokenEncoder", "LlamaModel"),
    ("Loss", "LossOfLogProbabilities"),
    ("LayerNorm", "RMSNorm"),
    ("WarmupSchedule", "CosineSchedule"),
    EMBEDDINGS,
)  # fmt: skip
"""Kinds that go by the same names; what the forward takes tells more."""


ALONE = (
    "DecoderOnly",
    "LlamaModel",
    "DecoderOnlyLayer",
    "LlamaBlock",
    "MaskedLlamaBlock",
    "TokenEncoder",
    "EncoderLayer",
    "Encoder",
)
"""What is given one sequence."""


def are_related(kind: str, other: str) -> bool:
    """Whether both go by the same names."""
    return any(kind in family and other in family for family in FAMILIES)


def kinds_of(name: str, thing: Any, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """Names of kinds, the likeliest first; () for what is no component.

    By its name; by what it is made of, where the name says nothing.
    """
    if mask_outputs.is_output(thing):
        return mask_outputs.kinds_of(thing)
    found = kinds_by_name(name, thing, kinds)
    if found and found[0] in INSIDE and structure.is_one_layer(thing):  # class Encoder, of one layer
        layers = ("DecoderLayer",) if takes(thing, "memory") else ("EncoderLayer", "DecoderOnlyLayer")
        return tuple(dict.fromkeys([*(kind for kind in layers if kind in kinds), *found]))
    if found and found[0] in ATTENTIONS and structure.surrounds_attention(thing):
        around = (*(["DecoderLayer"] if takes(thing, "memory") else []), *LAYERS)  # CrossAttentionBlock
        return tuple(dict.fromkeys([*(kind for kind in around if kind in kinds), *found]))
    if found and found[0] in BLOCKS and takes(thing, "key", "value") and structure.is_one_sublayer(thing):
        return tuple(dict.fromkeys([*(kind for kind in ("MultiheadAttention",) if kind in kinds), *found]))
    if found and found[0] in structure.WHOLE and structure.is_one_layer(thing):  # class Transformer, of one layer
        made = tuple(kind for kind in structure.kinds_of(thing) if kind in BLOCKS and kind in kinds)
        return tuple(dict.fromkeys([*made, *found]))
    if found and found[0] in BLOCKS and structure.is_one_layer(thing):  # a norm at its end makes no stack of it
        found = tuple(kind for kind in found if kind not in INSIDE)
    is_attention = bool(found) and found[0] in ATTENTIONS
    if set(found) & set(structure.WHOLE) and not is_attention:
        return found
    made = tuple(kind for kind in structure.kinds_of(thing) if kind in kinds)
    is_whole = made[:1] != () and made[0] in structure.WHOLE  # AttentionIsAllYouNeed, CrossAttentionSeq2Seq
    is_whole = is_whole and not (is_attention and structure.attends_alone(thing))
    if set(found) & set(structure.WHOLE):
        return tuple(dict.fromkeys([*made, *found])) if is_whole else found
    if made == ("ResidualConnection",) and found and found[0] in ("LayerNorm", "RMSNorm"):
        return made  # ResidualWithLayerNorm: it calls what it is given
    if not found and any(plain(name).endswith(other) for other in NO_COMPONENTS):
        return made if plain(name).endswith("translator") and made[:1] == ("Transformer",) else found
    if "bert" in plain(name):
        made = tuple(sorted(made, key=lambda kind: kind != "TokenEncoder"))
    if not made and not found and isinstance(thing, type) and projects_to_words(thing):
        return ("Projection",)  # LogSoftmax(d_model, vocab_size)
    return made if is_whole or not found else found


WRITERS = ("GreedyDecoding", "BeamSearch", "Sampling")
WITHOUT_WEIGHTS = (
    *("Loss", "LossOfLogProbabilities", "softmax", "log_softmax", "GELU", "SiLU", "PositionalEncoding"),
    *("RotaryEmbedding", "ScaledDotProductAttention"),
)
"""What a plain class may be whose forward is called by its name."""
OF_PLACES = re.compile(r"sinus|pos|timing|encod")
"""In the name of what makes a table of sines, and none of angles to turn by."""
WEIGHTED = {"Linear", "Embedding", "Parameter", "MultiheadAttention", "LayerNorm"}


def kinds_by_name(name: str, thing: Any, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """The same, by the name alone and what its forward takes."""
    name = name.removeprefix(ADAPTER) if inspect.isfunction(thing) else name
    wrapped = re.sub(r"_?[wW]rapper$", "", name)  # MultiHeadAttentionWrapper, SublayerWrapper
    if wrapped != name and (structure.joins_heads(thing) or structure.adds_what_it_holds(thing)):
        name = wrapped
    word = plain(name)
    is_one = writing.is_greedy(thing) or is_tokenizer(thing)  # generate_with_cache(…)
    is_one = is_one or letters.numbers(thing) or windows.draws(thing)
    is_none = not is_one and any(word.endswith(other) for other in NO_COMPONENTS)
    is_none = is_none or ("pos" in word and words(name)[0] in NOTHING)  # NoPositionalEncoding, of a study
    if is_none or inspect.isabstract(thing) or _is_container(thing) or _reads_a_file(thing):
        return ()
    is_class = isinstance(thing, type)
    is_called = is_class and "__call__" in vars(thing) and "mask" not in word  # MaskGenerator projects nothing
    if is_class and not (issubclass(thing, nn.Module) or is_called):
        own = {
            **dict.fromkeys(schedules.KINDS, is_schedule(thing)),
            **dict.fromkeys(training.OPTIMIZERS, training.is_optimizer(thing)),
            "Tokenizer": is_tokenizer(thing),
            "LetterTokenizer": letters.numbers(thing),
            **dict.fromkeys(WITHOUT_WEIGHTS, inspect.isfunction(vars(thing).get("forward"))),
            **({made: True} if (made := mask_makers.kind_of(thing)) else {}),
        }
        kinds = {name: kind for name, kind in kinds.items() if own.get(name)}
    if is_class and structure.is_adapted(thing):
        return ()
    scored = [(_score(name, kind, thing), order, kind.name) for order, kind in enumerate(kinds.values())]
    found = sorted((-score, order, kind) for score, order, kind in scored if score > 0)
    if not is_class and word.endswith(("mask", "masks")):  # extend_attention_mask is no attention
        found = [entry for entry in found if entry[2].endswith("Mask")]
    if is_class and names_in(thing) & WEIGHTED:  # DecoderMaskedAttentionDemo makes no mask
        found = [entry for entry in found if not entry[2].endswith("Mask")]
    made = mask_makers.kind_of(thing)
    if made in kinds and (not found or (made == "CausalMask" and found[0][2] == "TargetMask")):
        found = [(0.0, 0, made)]  # get_tgt_mask(size)
    if made == "TargetMask" and found and found[0][2] == "PaddingMask":
        found = [(0.0, 0, made), *found]  # target_pad_mask(ids, pad), which hides the future too
    table = kinds.get("PositionalEncoding")
    is_open = not found or (not is_class and found[0][2] in EMBEDDINGS)  # sinusoidal_embeddings(n, d)
    if is_open and table and OF_PLACES.search(word) and {"sin", "cos"} <= names_in(thing) and is_table(thing, table):
        found = [(0.0, 0, table.name)]  # sinusoid(max_len, d)
    if "PaddingMask" in kinds and padded.is_of_lengths(thing):
        found = [(0.0, 0, "PaddingMask")]  # length_to_mask(lengths, max_len=None)
    if "GreedyDecoding" in kinds and not (found and found[0][2] in WRITERS) and writing.is_greedy(thing):
        found = [(0.0, 0, "GreedyDecoding")]  # predict(model, src, max_len)
    best = [kind for _, _, kind in found[:MOST]]
    family = next((family for family in FAMILIES if best and best[0] in family), ())
    relatives = sorted((name for name in family if name in kinds), key=lambda name: -fitness(kinds[name], thing))
    if family and not any(score < -9 for score, _, _ in found):  # the name does not tell which of them
        best = [*relatives, *best]
    best = list(dict.fromkeys([*best, *relatives]))
    if not _may_embed_plainly(thing):
        best = [kind for kind in best if kind != "Embedding"]
    best = corrected(best, word, thing, kinds) if is_class else _with_what_it_makes(best, thing, kinds)
    # What says that it is causal, or is given keys, must be more than right for one sequence that sees all of itself.
    is_given_all = takes(thing, "key", "value")
    hides = ("causal" in word or "masked" in word) and not takes_mask(thing)
    alike = {
        "SelfAttention": hides or takes(thing, "key"),
        "CrossAttention": is_given_all,
        "CausalSelfAttention": is_given_all and takes_mask(thing),
        **dict.fromkeys(ALONE, (takes(thing, "memory") and len(required_of(thing)) > 1) or takes_two_sides(thing)),
        "EmbeddingWithPositions": best[:1] != ["EmbeddingWithPositions"] and not structure.has_positions(thing),
    }
    is_alone = _takes_one_sequence(thing)
    best.sort(key=lambda kind: is_alone and "memory" in kinds[kind].inputs)
    best.sort(key=lambda kind: ("Rotary" in kind and not may_turn(thing)) or of_today(kinds[kind], thing) < 0)
    return tuple(kind for kind in best if not alike.get(kind))


def _with_what_it_makes(best: list[str], function: Any, kinds: Mapping[str, Kind]) -> list[str]:
    """Before the kinds that a function's name suggests, those of a whole model that it returns."""
    made = forwards.made_by(function)
    if made is not None and best:  # transformer_block(d_model, vocab_size, …)
        best = first(kinds_of(made.__name__, made, kinds), best)
    sides = {setting for p in parameters_of(function) for setting in settings_of(p.name)}
    if {"src_vocab_size", "tgt_vocab_size"} <= sides and (best or _puts_together(made, kinds)):
        best = first(["Transformer"], best)  # build_model(src_vocab, tgt_vocab)
    if any("rope_base" in settings_of(p.name)[:1] for p in parameters_of(function)):
        best = first([kind for kind in best if kind in TODAY], best)  # run_transformer_block(…, theta, weights, x)
    if best and best[0] in ATTENTIONS and (of_modules.attends(function) or _is_without_heads(function, kinds)):
        best = first(["ScaledDotProductAttention"], best)  # dot_attention(query, key, value)
    return best


def _puts_together(made: type | None, kinds: Mapping[str, Kind]) -> bool:
    """Whether a model that is made is handed its parts: what it is told itself is judged where it is defined."""
    told = {setting for p in parameters_of(made) for setting in settings_of(p.name)} if made is not None else set()
    is_told = any("vocab" in setting for setting in told)
    return made is not None and not is_told and kinds_of(made.__name__, made, kinds)[:1] == ("Transformer",)


def _is_without_heads(function: Any, kinds: Mapping[str, Kind]) -> bool:
    """Whether a function has no weights, and nothing in it or in what it calls speaks of heads."""
    names = {plain(name) for one in (function, *leads_to(function)) for name in (one.__name__, *names_in(one))}
    is_bare = not any(name == "linear" or "head" in name or "multi" in name for name in names)
    return is_bare and not weights_of(function, kinds["MultiheadAttention"])


def _takes_one_sequence(thing: Any) -> bool:
    """Whether the forward of a class can be given nothing but one sequence and masks: what an encoder gives is none."""
    given = [p for p in parameters_called(thing) if not is_mask(p.name)] if isinstance(thing, type) else []
    return len(given) == 1


def _may_embed_plainly(thing: Any) -> bool:
    """Whether it is one like PyTorch's, no model's: Embedding(num_embeddings, …), or an assignment's run_embedding.

    Or whatever is called so, and looks up rows of a table of its own: it is PyTorch's, written again.
    """
    is_adapter = inspect.isfunction(thing) and thing.__name__.startswith(ADAPTER)
    is_told = any(plain(p.name) == "numembeddings" for p in parameters_of(thing))
    return is_adapter or is_told or (isinstance(thing, type) and _is_torchs_again(thing))


def _is_torchs_again(cls: type) -> bool:
    """Whether a class Embedding has a parameter in place of torch's table, and multiplies by nothing."""
    is_own = "Parameter" in names_in(cls) and not TORCHS_TABLE.search(source_of(cls))
    nodes = nodes_of(getattr(cls, "forward", None)) if is_own and REWRITTEN.fullmatch(cls.__name__) else ()
    return bool(nodes) and not any(isinstance(node, (ast.Mult, ast.Div)) for node in nodes)


REWRITTEN = re.compile(r"(My|Custom)?_?Embedding")
TORCHS_TABLE = re.compile(r"(?<!class )\bEmbedding\(")


PATHS = re.compile(r"path|^(file|dir|folder|url)|(file|dir|name|folder|url)$|checkpoint|ckpt")


def _reads_a_file(thing: Any) -> bool:
    """Whether a function must be given nothing but where a file is: load_model(path)."""
    required = [p for p in parameters_of(thing) if p.default is p.empty] if inspect.isfunction(thing) else []
    return bool(required) and all(PATHS.search(plain(p.name)) for p in required)


def _is_container(thing: Any) -> bool:
    """Whether it hands on whatever it is given, class SequentialEncoder(nn.Sequential): forward(self, *inputs)."""
    is_one = isinstance(thing, type) and issubclass(thing, (nn.Sequential, nn.ModuleList, nn.ModuleDict))
    return is_one and "forward" in vars(thing) and not parameters_called(thing)


BY_CONTENT = {
    "CosineSchedule": is_cosine,
    "LinearSchedule": is_linear,
    "WarmupSchedule": is_warmup,
    "DecayGroups": makes_groups,
    "GradientClipping": training.clips,
    "Sampling": training.draws,
    "Tokenizer": is_tokenizer,
    "LetterTokenizer": letters.numbers,
    "TextBatches": windows.draws,
}
"""What is known by what it does and is given, whatever it is called."""
ALONE_IN_THIS = {
    "Tokenizer": is_tokenizer,
    "LetterTokenizer": letters.numbers,
    "Adam": lambda thing: training.kind_of_optimizer(thing) == "Adam",
    "AdamW": lambda thing: training.kind_of_optimizer(thing) == "AdamW",
    "DecayGroups": makes_groups,
    "LinearSchedule": is_linear,
    "TextBatches": windows.draws,
}
"""What is of this kind if it looks like that, and of no other."""


def _score(name: str, kind: Kind, thing: Any) -> float:
    """How well the name fits a kind; 0 if it does not, or if the forward cannot take the kind's inputs."""
    score = max((likeness(plain(name), plain(synonym)) for synonym in kind.synonyms), default=0.0)
    if isinstance(thing, type):
        score = max(score, by_last_word(name, kind))
    if (
        kind.name == "FeedForward"
        and plain(name) in ACTIVATIONS
        and all(is_told(thing, s) for s in ("d_model", "d_ff"))
    ):
        score = NAMED  # class SiLU(d_model, d_ff) is a network
    if kind.name in BY_CONTENT and BY_CONTENT[kind.name](thing):
        score = 10.0  # whatever it is called
    if score == 0 or not callable(thing):
        return 0.0
    if kind.name == "Embedding" and not _may_embed_plainly(thing):
        return 0.0
    if kind.name == "Projection" and structure.joins_heads(thing):
        return 0.0  # class MultiHeadAttentionProjection
    if kind.name.startswith("Loss") and any(CRITERION.match(plain(p.name)) for p in required_of(thing)):
        return 0.0  # it is given the loss
    if inspect.isfunction(thing) and {"next_logits", "steps"} & {*kind.inputs} and _is_command(thing):
        return 0.0
    if kind.name == "Sampling" and not training.takes_logits(thing):
        return 0.0
    if kind.name == "GreedyDecoding" and "beam" in plain(name):
        return 0.0  # beam_translate
    if kind.name == "RepeatedHeads" and len(required_of(thing)) != len(kind.inputs):
        return 0.0  # keys and values at once: what it gives of the second would not be seen
    if plain(name) == HEAD and not (isinstance(thing, type) and any(ATTENDS.search(n) for n in names_in(thing))):
        return 0.0  # of a language model
    if kind.name == "RotaryEmbedding" and score < NAMED and is_told(thing, "num_heads"):
        return 0.0  # CausalMHAWithRoPE
    if any((kind.name == name) != is_one(thing) for name, is_one in ALONE_IN_THIS.items()):
        return 0.0
    # of Softmax(dim), an axis
    bare = ("SiLU", "GELU", "softmax", "log_softmax") if names_in(thing) & WEIGHTED else ("SiLU", "GELU")
    if kind.name in bare and isinstance(thing, type) and any(map(is_size, parameters_of(thing))):
        return 0.0  # SiLUFFN is a network
    fit = fitness(kind, thing)
    return score + fit if score >= 10 or fit > -1 else 0.0


COMMAND = {"args", "argv", "arguments", "opt", "opts", "options", "flags"}


def _is_command(function: Any) -> bool:
    """Whether a function is only given what was typed: cmd_generate(args), which ends in "rate" and is no schedule."""
    names = {plain(parameter.name) for parameter in required_of(function)}
    return bool(names) and names <= COMMAND


CRITERION = re.compile(r"crit|loss(fn|func|compute)|model")


ACTIVATIONS = ("silu", "swish", "gelu", "relu", "squaredrelu", "relusquared")


def is_size(parameter: inspect.Parameter) -> bool:
    """Whether a constructor must be told how wide its tokens are."""
    return parameter.default is parameter.empty and bool({"d_model", "d_ff"} & set(settings_of(parameter.name)))


ATTENDS = re.compile("softmax|scaled_dot_product", re.IGNORECASE)
