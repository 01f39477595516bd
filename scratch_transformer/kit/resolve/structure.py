"""Which kinds a module may be whose name says nothing: by the settings that it is told and what its code does."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from typing import Any

from scratch_transformer.kit.definitions import (
    is_module_class,
    is_of_torch,
    leads_to,
    named_in,
    names_in,
    nodes_of,
    parameters_called,
    source_of,
)
from scratch_transformer.kit.resolve import halves
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.build.options import is_table_of_positions
from scratch_transformer.kit.resolve.build.reading import uses_of
from scratch_transformer.kit.resolve.names.inputs import input_of, is_mask, is_segment
from scratch_transformer.kit.resolve.names.settings import settings_beside, settings_of
from scratch_transformer.kit.resolve.names.words import plain, words
from scratch_transformer.kit.syntax import is_of_self

ATTENDS = re.compile(
    r"^(softmax|log_softmax|scaled_dot_product_attention|flash_attn\w*|MultiheadAttention)$", re.IGNORECASE
)
OF_TORCH = re.compile(r"Transformer((En|De)coder(Layer)?)?$")
"""Names of torch.nn's layers and stacks, which attend."""
ROTATES = re.compile(r"rope|rotary|freqs", re.IGNORECASE)
OF_TODAY = re.compile(r"rope|rotary|freqs|rms_?norm|swiglu|geglu|silu", re.IGNORECASE)
ATTENTIONS = ("SelfAttention", "CausalSelfAttention", "MultiheadAttention")
ROTARY = ("CausalRotaryAttention", "RotaryAttention")
LAYERS = ("EncoderLayer", "DecoderOnlyLayer")
LLAMA = ("LlamaBlock", "MaskedLlamaBlock")
MODELS = ("DecoderOnly", "TokenEncoder")
WHOLE = ("Transformer", "LlamaModel", *MODELS, "TokenDecoder")


def kinds_of(thing: Any) -> tuple[str, ...]:
    """Names of kinds, the likeliest first; () for what shows no likeness to a part of a Transformer."""
    if not is_module_class(thing):
        return ()
    forward = getattr(thing, "forward", None)
    if not inspect.isfunction(forward) or is_of_torch(forward) or is_adapted(thing):
        return ()
    told, tensors = _told(thing), _tensors(forward)
    within = made_of(thing)
    if tensors == 2 and adds_what_it_calls(thing):
        return ("ResidualConnection",)
    if half := halves.kinds_of(thing, told, tensors):
        return half
    if tensors == 1 and any(map(has_softmax, within)) and _looks_up_and_projects(thing):
        return MODELS
    if tensors == 2 and joins_two_sides(thing):
        return ("Transformer",)
    if "d_model" not in told or not 1 <= tensors <= 3:
        return ()
    if tensors == 1 and any("vocab" in setting for setting in told) and _looks_up_with_positions(thing):
        return ("EmbeddingWithPositions",)
    names = {name for one in (thing, *within) for name in (one.__name__, *names_in(one))}
    attends = has_softmax(thing) or any(map(has_softmax, within)) or any(map(OF_TORCH.match, names))
    turns, is_of_today = (any(map(words.search, names)) for words in (ROTATES, OF_TODAY))
    if any("vocab" in setting for setting in told):
        pair = ("TokenDecoder",) if _reads_a_memory(forward) and "src_vocab_size" not in told else ("Transformer",)
        found: tuple[str, ...] = pair if tensors == 2 else ("LlamaModel", *MODELS) if is_of_today else MODELS
        return found if attends and told & {"num_heads", "num_layers"} else ()
    if "num_heads" in told and has_softmax(thing) and not told & {"d_ff", "num_layers"}:
        several = ("MultiheadAttention",) if tensors == 3 else ("CrossAttention",) if tensors == 2 else ()
        return several or ((*ROTARY, *ATTENTIONS) if turns else ATTENTIONS)
    if "num_heads" in told and attends and "num_layers" not in told:
        several = ("DecoderLayer",) if tensors == 2 else ()
        return several or ((*LLAMA, *LAYERS) if is_of_today else LAYERS) if tensors < 3 else ()
    is_network = told <= {"d_model", "d_ff", "d_ff/d_model", "dropout", "d_out"} and not attends and tensors == 1
    return ("FeedForward", "SwiGLU") if is_network and linears(thing) in (2, 3) else ()


def joins_two_sides(cls: type) -> bool:
    """Whether it is given an encoder and a decoder, and ids for both: Translator(encoder, decoder)."""
    given = [plain(p.name) for p in parameters_of(cls) if p.default is p.empty and not settings_of(p.name)]
    sides = [[name for name in given if re.match(side, name)] for side in ("enc", "dec")]
    names = [p.name for p in parameters_called(cls)]
    is_pair = all(any(input_of(name, (side,)) for name in names) for side in ("src", "tgt"))
    return all(sides) and is_pair and not any(map(RECURRENT.search, map(str.lower, names_in(cls))))


def makes_both_sides(cls: type) -> bool:
    """Whether it is told of words, must be given two sequences, and makes an encoder and a decoder: Model(a, b)."""
    made = [one.__name__.lower() for one in named_in(cls) if is_module_class(one)]
    sides = [[name for name in made if side in name and "pos" not in name] for side in ("encoder", "decoder")]
    is_of_words = any("vocab" in setting for setting in _told(cls))
    return all(sides) and is_of_words and _tensors(cls.forward) >= 2  # type: ignore[attr-defined]


def _reads_a_memory(forward: Any) -> bool:
    return any(input_of(p.name, ("memory",)) and not input_of(p.name, ("tgt",)) for p in parameters_of(forward))


def adds_what_it_calls(cls: type) -> bool:
    """Whether its forward calls what it is given, adds another of its inputs, and normalizes: x + f(norm(x))."""
    forward: Any = cls.forward  # type: ignore[attr-defined]
    nodes, given = nodes_of(forward), {p.name for p in parameters_of(forward)}
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return bool(called & given) and _adds(nodes, given - called) and _normalizes(cls)


def adds_what_it_holds(cls: Any) -> bool:
    """The same of a sublayer that its constructor is given: x + self.sublayer(self.norm(x), *others)."""
    if not is_module_class(cls):
        return False
    nodes, given = nodes_of(cls.forward), {p.name for p in parameters_of(cls.forward)}
    called = {node.func.attr for node in nodes if isinstance(node, ast.Call) and is_of_self(node.func)}
    is_held = called & {p.name for p in parameters_of(cls)}
    return bool(is_held) and _adds(nodes, given) and _normalizes(cls)


def _adds(nodes: Iterable[ast.AST], names: set[str]) -> bool:
    """Whether one of these is a summand."""
    sums = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)]
    return any(isinstance(side, ast.Name) and side.id in names for node in sums for side in (node.left, node.right))


def _normalizes(cls: type) -> bool:
    return any(map(NORMS.search, {name for one in (cls, *leads_to(cls)) for name in names_in(one)}))


def _looks_up_and_projects(cls: type) -> bool:
    """Whether it has a table of words, and a linear layer that gives their scores, wherever its sizes come from."""
    names = names_in(cls)
    is_one = {"Embedding", "Linear"} <= names and any("vocab" in name.lower() for name in names)
    return is_one and not any(map(OTHERWISE.search, names))


def _looks_up_with_positions(cls: type) -> bool:
    """Whether it has a table of words and positions, and nothing that computes: neither matrices nor layers."""
    names = names_in(cls)
    return "Embedding" in names and has_positions(cls) and not any(map(COMPUTES.search, names)) and not has_softmax(cls)


def has_positions(thing: Any) -> bool:
    """Whether a class speaks of positions, computes waves, or is given a table of them."""
    names = names_in(thing) if isinstance(thing, type) else frozenset[str]()
    given = parameters_of(thing.forward)[1:] if isinstance(thing, type) and hasattr(thing, "forward") else []
    is_given = any(is_table_of_positions(parameter.name) for parameter in given)
    return is_given or any("pos" in plain(name) for name in names) or {"sin", "cos"} <= names


def joins_heads(cls: Any) -> bool:
    """Whether it has a list of the learner's modules that attend, and joins what they give."""
    return is_module_class(cls) and {"ModuleList", "cat"} <= names_in(cls) and any(map(has_softmax, made_of(cls)))  # type: ignore[arg-type]


OTHERWISE = re.compile(r"LSTM|GRU|RNN|Conv")
RECURRENT = re.compile(r"hidden|teacher|lstm|gru|rnn|cell|random")
COMPUTES = re.compile(rf"{OTHERWISE.pattern}|Linear|[Ee]ncoder|[Dd]ecoder|former|[Bb]lock|ModuleList|Sequential")
NORMS = re.compile(r"norm", re.IGNORECASE)
NETWORK = re.compile(r"feed_?forward|ffn|mlp", re.IGNORECASE)
SUMS = re.compile(r"residual|sub_?layer|add_?(and_?)?norm|skip_?conn", re.IGNORECASE)
MANY = re.compile(r"^(ModuleList|ModuleDict|clones|deepcopy|add_module|Embedding)$|clones|clone_?[a-z]|layers|blocks")


def is_one_layer(thing: Any) -> bool:
    """Whether a class attends and has norms of its own, and makes or is given no number of layers."""
    if not is_module_class(thing):
        return False
    whole: Any = thing
    names = names_in(whole)
    given = [parameter.name for parameter in parameters_of(thing)]
    told = {setting for name in given for setting in settings_beside(name, given)}
    if told & {"num_layers", "vocab_size", "src_vocab_size", "tgt_vocab_size"} - _of_widths(given):
        return False
    made = made_of(thing)
    has_sums = any(SUMS.search(one.__name__) for one in made)  # of which a layer has a list
    norms = _names_with_sublayers(whole)
    if any(MANY.search(n) for n in (*(names if not has_sums else ()), *given)) or not any(map(NORMS.search, norms)):
        return False
    of_layers = [one for one in made if not has_softmax(one) and any(map(has_softmax, made_of(one)))]
    of_layers += [one for one in made if has_softmax(one) and any(SUMS.search(part.__name__) for part in made_of(one))]
    has_layer = any(any(map(NORMS.search, _names_with_sublayers(one))) for one in of_layers)
    return (has_softmax(thing) or any(map(has_softmax, made))) and not has_layer


def surrounds_attention(thing: Any) -> bool:
    """Whether a class adds a norm and a network of its own to a part that attends: AttentionEncoder is a layer then."""
    is_around = is_one_layer(thing) and any(map(has_softmax, made_of(thing)))
    return is_around and (linears(thing) > 1 or any(NETWORK.search(name) for name in names_in(thing)))


def is_one_sublayer(thing: Any) -> bool:
    """Whether a class adds a norm to a part that attends, and nothing else: no network, whose maps are a layer's."""
    is_around = is_one_layer(thing) and any(map(has_softmax, made_of(thing)))
    others = [one for one in (made_of(thing) if is_around else ()) if not has_softmax(one)]
    has_network = any(map(NETWORK.search, names_in(thing))) if is_around else False
    return is_around and not has_network and sum(map(linears, (thing, *others))) < 2


def _names_with_sublayers(cls: type) -> set[str]:
    """The names in a class, and in its residual connections and networks, which may have its norms."""
    within = [one for one in made_of(cls) if SUMS.search(one.__name__) or _is_network(one)]
    return {*names_in(cls), *(name for one in within for name in names_in(one))}


def _is_network(cls: type) -> bool:
    return NETWORK.search(cls.__name__) is not None and not has_softmax(cls)


def made_of(cls: type) -> list[type]:
    """The learner's modules that a class makes."""
    return [one for one in leads_to(cls) if is_module_class(one)]


def _of_widths(names: list[str]) -> set[str]:
    """What names may mean that mean a width first: hidden_size is no vocabulary's."""
    return {setting for name in names if settings_of(name)[:1] == ("d_model",) for setting in settings_of(name)}


def _told(thing: type) -> set[str]:
    """The settings of its constructor's parameters, and of what it reads from a config."""
    uses = uses_of(thing)
    names = [parameter.name for parameter in parameters_of(thing)]
    names += [name for use in uses.values() for name in (*use.attributes, *use.keys)]
    return {setting for name in names for setting in settings_beside(name, names)[:1]}


def _tensors(forward: Any) -> int:
    """How many inputs its forward must be given, masks and segments aside."""
    own = parameters_called(forward)
    return sum(p.default is p.empty and not (is_mask(p.name) or is_segment(p.name)) for p in own)


def has_softmax(cls: type) -> bool:
    """Whether it, or a function that it calls, has a softmax."""
    called = [one for one in named_in(cls) if inspect.isfunction(one)]
    return any(ATTENDS.search(name) for one in (cls, *called) for name in names_in(one))


def attends_alone(cls: type) -> bool:
    """Whether its own code attends, and nothing in it looks words up, though it is told how many there are."""
    has_table = any(EMBEDS.search(name) for one in (cls, *leads_to(cls)) for name in names_in(one))
    return has_softmax(cls) and not has_table


EMBEDS = re.compile(r"^Embedding$|^embedding$|one_hot")
ADAPTED = re.compile(r"(?i)lora|adapter|low_?rank")


def is_adapted(cls: type) -> bool:
    """Whether it is a linear layer with the product of two narrow ones beside it: LoRALayer(in_features, …).

    Or is given one, LoRALinear(linear, rank): as one narrow matrix begins with 0, it gives the numbers of that.
    """
    told = [words(p.name) for p in parameters_of(cls)]
    ends = {end for name in told for end in ("in", "out") if end in name}
    is_linear = (len(ends) == 2 or any("linear" in name for name in told)) and not has_softmax(cls)
    return is_linear and any(map(ADAPTED.search, (cls.__name__, *names_in(cls))))


MATRIX = re.compile(r"Parameter\(\s*torch\.\w+\(\s*\(?[\w. *]+,\s*[\w. *]+[,)]")
ACTIVATES = re.compile(r"relu|gelu|silu|act(?!ual)", re.IGNORECASE)


def has_bare_layers(cls: type) -> bool:
    """Whether it has two matrices or more, as its constructor is written, and an activation, as no linear layer has."""
    return len(MATRIX.findall(source_of(cls))) > 1 and any(map(ACTIVATES.search, names_in(cls)))


def linears(cls: type) -> int:
    """How many linear layers it makes, as its constructor is written."""
    return len(re.findall(r"(?<!class )\b\w*Linear(Layer)?\(", source_of(cls)))
