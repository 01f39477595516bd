"""How well what a forward takes, and what a class speaks of, fits a kind."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_module_class, leads_to, named_in, names_in, parameters_called
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.call.plan import MASKS
from scratch_transformer.kit.resolve.functions.of_heads import is_of_heads
from scratch_transformer.kit.resolve.functions.weighted import weights_of
from scratch_transformer.kit.resolve.names.inputs import input_of, is_mask, is_segment
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

TODAY = ("RotaryEmbedding", "CausalRotaryAttention", "RotaryAttention", "LlamaBlock", "MaskedLlamaBlock", "LlamaModel")
TODAY_ALONE = ("RMSNorm", "SwiGLU", "RotaryEmbedding", "CausalRotaryAttention", "RotaryAttention")
"""What the models of the paper have none of."""
# not in dropEmbedding, property, normSource or transforms
ROTARY = re.compile(r"(?<![dp])rope|rotary")
OF_TODAY_BESIDES = re.compile(r"^rms|rms(layer)?norm|swiglu|silu")
OF_TODAY = re.compile(
    rf"{ROTARY.pattern}|freqs?cis|freqscomplex|tokenpositions|cossin|rotatehalf|{OF_TODAY_BESIDES.pattern}"
)
GATED = re.compile(r"glu$|^(w|fc|lin|linear|proj|mlp|ff|ffn)?gate(w|fc|lin|linear|proj|layer)?\d?$|gated")
OFFERS = re.compile(r"activation|act(fn|func|function)?$")
"""In the name of a function that gives whatever activation it is asked for, F.glu among others."""
ANGLES = re.compile(r"^(sin|cos|polar|viewascomplex|theta|angles?)$|rotat|freq")
TRIANGLE = re.compile(r"^tri[lu]$|causalmask|lookahead|subsequent|futuremask")
MASKING = re.compile(r"^tri[lu]$|mask|causal|lookahead|subsequent|future|^gpt|decoder")
VOCABULARY = re.compile(r"voc|numtokens|ntokens?$|dictsize")
EMBEDS = re.compile(r"embeddings?$|^wte$|embedtokens|tokemb")
OF_WORDS = re.compile(r"emb|voc|tok|wte|word|onehot|ids$")
INSIDE = ("Encoder", "Decoder", "TokenEncoder", "TokenDecoder")
LABELS = ("y", "targets", "output", "outputs")
"""Names of a target that may be what a language model is to predict."""


def fitness(kind: Kind, thing: Any) -> float:
    """Whether a forward has the tensors and masks that a kind has: 2 for all, less for others."""
    parameters = parameters_called(thing)
    taken = weights_of(thing, kind) if inspect.isfunction(thing) else []
    required = [p for p in required_of(thing) if p.name not in taken]
    if kind.name.endswith("Mask"):  # which may be made for every head anew
        required = [p for p in required if not is_of_heads(p.name)]
    tensors = [name for name in kind.inputs if name not in MASKS]
    fit = 2.0 - abs(len(required) - len(tensors))
    if any(is_mask(p.name) for p in parameters) != any(name in MASKS for name in kind.inputs):
        fit -= 0.5
    named = [input_of(p.name, tuple(tensors)) for p in required]
    return (
        fit
        + _embeds(kind, thing)
        + of_today(kind, thing)
        + hides_the_future(kind, thing)
        + 0.5 * sum(name is not None for name in named) / max(len(tensors), 1)
    )


def _embeds(kind: Kind, thing: Any) -> float:
    """A constructor that is told a vocabulary makes the embeddings itself: it is given ids.

    What speaks of no embedding, and of no words, is rather given vectors, whatever it calls them.
    """
    if kind.name in ("DecoderOnly", "LlamaModel") and isinstance(thing, type):
        names = {plain(name) for name in names_within(thing)}
        return 0.0 if any(EMBEDS.search(name) or VOCABULARY.search(name) for name in names) else -1.0
    if kind.name not in INSIDE or not isinstance(thing, type):
        return 0.0
    if not kind.name.startswith("Token"):
        return 0.0
    told = any(VOCABULARY.search(plain(p.name)) for p in parameters_of(thing))
    return 1.5 if told else 0.0 if any(map(_is_of_words, names_within(thing))) else -1.0


def _is_of_words(name: str) -> bool:
    """Whether a name may be that of something with ids, or with a table of words: embed, not embed_dim."""
    return OF_WORDS.search(plain(name)) is not None and "d_model" not in settings_of(name)


def of_today(kind: Kind, thing: Any) -> float:
    """What speaks of rotary positions, RMSNorm or gates is more likely a part of Llama than of GPT-2."""
    if kind.name not in TODAY or kind.name == "RotaryEmbedding" or not isinstance(thing, type):
        return 0.0
    words = OF_TODAY_BESIDES if _turns_if_told(thing) else OF_TODAY
    return 1.0 if any(words.search(plain(name)) for name in (thing.__name__, *names_within(thing))) else -0.6


def _turns_if_told(thing: Any) -> bool:
    """Whether a constructor has a flag for rotary positions that is off by default: use_rope=False."""
    return isinstance(thing, type) and any(p.default is False and _is_of_rotation(p.name) for p in parameters_of(thing))


def _is_of_rotation(name: str) -> bool:
    return ROTARY.search(plain(name)) is not None


def is_turned_off(made: Any) -> bool:
    """Whether a module, or a part of it, keeps that it is to turn nothing: self.use_rope is False."""
    parts = made.modules() if isinstance(made, nn.Module) else ()
    return any(value is False and _is_of_rotation(name) for part in parts for name, value in vars(part).items())


def speaks_of_gates(thing: Any) -> bool:
    """Whether a class has a name, or names in its code, that tell of a gate: what it has one linear layer more for."""
    names = {getattr(thing, "__name__", ""), *names_in(thing)}
    return any(GATED.search(word) or word in ("silu", "swish") for word in map(plain, names))


def speaks_of_today(made: Any) -> bool:
    """Whether a module, or a part of it, is of a class that speaks of rotary positions, RMSNorm or gates."""
    classes: set[Any] = {type(part) for part in made.modules()} if isinstance(made, nn.Module) else set()
    return nn.RMSNorm in classes or any(_is_of_today(cls) for cls in classes)


@functools.lru_cache(maxsize=512)
def _is_of_today(cls: type) -> bool:
    if cls.__module__.startswith(("torch.", "scratch_transformer.")):
        return False
    called = [one for one in leads_to(cls) if not isinstance(one, type) and not OFFERS.search(plain(one.__name__))]
    names = {cls.__name__, *(name for one in (cls, *called) for name in (one.__name__, *names_in(one)))}
    return any(OF_TODAY.search(word) or GATED.search(word) for word in map(plain, names))


def hides_the_future(kind: Kind, thing: Any) -> float:
    """Attention whose own methods make a triangle is causal by itself, though it may take a mask of padding too.

    A layer around torch's own attention is not, where nothing speaks of masks: that hides nothing by itself.
    """
    if kind.name == "DecoderOnlyLayer" and isinstance(thing, type) and "MultiheadAttention" in names_in(thing):
        return 0.0 if any(MASKING.search(plain(name)) for name in names_in(thing)) else -0.6
    if kind.name not in ("CausalSelfAttention", "CausalRotaryAttention") or not isinstance(thing, type):
        return 0.0
    given = {parameter.name for parameter in parameters_called(thing)}
    return 0.8 if any(TRIANGLE.search(plain(name)) for name in names_in(thing) - given) else 0.0


def may_turn(thing: Any) -> bool:
    """Whether anything in a class or function speaks of angles: without, no rotary positions explain it."""
    if not isinstance(thing, type) and not inspect.isfunction(thing):
        return True
    if _turns_if_told(thing):
        return False
    within = names_within(thing) if isinstance(thing, type) else frozenset[str]()
    called = [one for one in (thing, *leads_to(thing)) if inspect.isfunction(one)]
    names = {plain(name) for name in within.union(*({one.__name__, *names_in(one)} for one in called))}
    return any(OF_TODAY.search(name) or ANGLES.search(name) for name in names)


@functools.lru_cache(maxsize=512)
def names_within(cls: type, depth: int = 4) -> frozenset[str]:
    """The same of a class and of those that it makes, of other files too: layers.Attention(…)."""
    made: list[type] = [one for one in named_in(cls) if is_module_class(one)]
    own = [part for part in made if depth and part not in cls.__mro__]
    return names_in(cls).union(*(names_within(part, depth - 1) for part in own))


def takes(thing: Any, *names: str) -> bool:
    """Whether its forward must be given keys beside queries, or values beside keys: it is judged with others then."""
    return all(any(input_of(p.name, (name,)) for p in required_of(thing)) for name in names)


def takes_two_sides(thing: Any) -> bool:
    """Whether its forward must be given a source and a target: forward(encoder_input, decoder_input)."""
    names = [p.name for p in required_of(thing)]
    return takes(thing, "src", "tgt") and any(input_of(n, ("tgt",)) and plain(n) not in LABELS for n in names)


def optional_memory(thing: Any) -> str:
    """The parameter of a forward that takes what an encoder gives, None by default; "" if there is none."""
    names = [p.name for p in parameters_called(thing) if p.default is None and not is_mask(p.name)]
    return next((n for n in names if len(plain(n)) > 2 and input_of(n, ("memory",))), "")


def takes_mask(thing: Any) -> bool:
    """Whether it can be given a mask."""
    return any(is_mask(p.name) for p in parameters_called(thing))


def required_of(thing: Any) -> list[inspect.Parameter]:
    """Those that are no mask, and no segments, and have no default."""
    needed = [p for p in parameters_called(thing) if p.default is p.empty]
    return [p for p in needed if not (is_mask(p.name) or is_segment(p.name))]
