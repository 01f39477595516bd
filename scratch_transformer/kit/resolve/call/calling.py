"""Ways to call a learner's forward with the inputs of its kind, by the names and the number of its parameters."""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import nodes_of, source_of
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.build.config import is_config
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.build.options import table_of_positions
from scratch_transformer.kit.resolve.build.tokenizer import Words, is_table_of_words, is_tokenizer
from scratch_transformer.kit.resolve.call import batching, beside, caching, told
from scratch_transformer.kit.resolve.call.inert import NoDropout
from scratch_transformer.kit.resolve.call.plan import (
    FROM_ONE,
    LENGTH,
    LENGTH_FIRST,
    MASKS,
    SENTENCES,
    SHIFTED,
    CannotCall,
    Plan,
)
from scratch_transformer.kit.resolve.call.plan import ROWS as OF_ROWS
from scratch_transformer.kit.resolve.names.inputs import (
    CROSS_MASK,
    FILLED,
    INPUTS,
    KEEPING,
    LENGTHS,
    SOURCE_MASK,
    TARGET_MASK,
    input_of,
    is_fill,
    is_mask,
    is_segment,
    says_sides,
)
from scratch_transformer.kit.resolve.names.settings import SCALES, SOURCE, TARGET, is_setting, settings_of
from scratch_transformer.kit.resolve.names.words import plain, words
from scratch_transformer.kit.syntax import arguments_of, last_name, names_within

CONSTANTS: dict[str, Any] = {
    "training": False, "train": False, "returnattention": False, "returnattn": False, "needweights": False,
    "returnweights": False, "iscausal": False, "causal": False, "usecache": False, "returnattentionweights": False,
    "usekvcache": False, "usecaching": False,
}  # fmt: skip


COUNTS_THE_PAST = re.compile(r"\b(offset|start(_pos\w*)?) *= *(past|cache|kv)\w*")
"""What turns by a row behind those of the tokens before: rope(q, cos, sin, offset=past_len)."""
TURNED_WIDTH = re.compile(r"(rotary|rotated|rope|rot)n?(dims?|size|width)$")
"""How many features of a head are turned: all, unless it is told otherwise."""
CERTAIN = ("x", "input", "infeatures", "inputfeatures", "inqueryorkey")
"""Names of x wherever it stands: run_linear(d_in, d_out, weights, in_features)."""
ROWS = 23
"""Of a table of angles, where nothing says how long it is."""
USUAL = ("batch first", "sequence first")
OWN_MASK = re.compile(r"self_?(att|mask)")
ENCODERS = re.compile("^(enc|src|source)(?!.*(dec|tgt|trg|target|cross))")
"""The mask of what is the encoder's alone, in a model: encoder_self_attention_mask."""
OPTIONS = ("bos", "eos", "max_len", "beam_size", "positions")
"""Inputs that a function may also have a default for, or do without."""
FIXED: dict[str, Any] = {
    "factor": 1.0,
    "scale": 1.0,
    "dim": -1,
    "axis": -1,
    "i": -1,
    "dimension": -1,
    "dimi": -1,
    **dict.fromkeys(("dropout", "drop", "dropoutlayer", "dropoutfn", "dropoutmodule", "attndropout"), NoDropout(0.0)),
    "device": "cpu",
    "step": 1,
    **dict.fromkeys(("temperature", "repetitionpenalty", "penalty"), 1.0),
    "topk": None,
    "topp": None,
    "kvcache": None,
}
"""For required parameters of functions that are no settings of the kind."""


WITH_TABLES = (("x",), ("ids",), ("ids", "memory"), ("src", "tgt"))
"""The tensors of what may be given a table of positions besides."""
WORDS = re.compile(r"raw|ids$|tokens?$|^(src|source|seq|inputs?|words)$")
"""Ids beside the vectors that were made of them: forward(x, x_raw)."""
SKIPPED = re.compile(r"resid|skip(?!_?mask)|shortcut")
LONGEST = 64
"""Tokens that a function may be given at most, as it is told."""
MEANINGLESS = None
"""For a required parameter that is nothing of what the kind takes."""


def meaningless(function: Any, plan: Plan) -> list[str]:
    """The required parameters of which nobody knows what they take."""
    required = [p.name for p in parameters_of(function) if p.default is p.empty]
    known = {*plan.arguments, *plan.masks, *(name for name, *_ in plan.mask_parameters)}
    return [
        n for n in required if n not in known and plan.constants.get(n, FIXED) is MEANINGLESS and plain(n) not in FIXED
    ]


def _is_longest(name: str) -> bool:
    """Whether a name says how long sequences may be: max_seq_len, context_length."""
    return settings_of(name)[:1] == ("max_len",) and bool(re.match(r"max|context|ctx|n_?ctx|block", plain(name)))


OF_ROWS_ALONE = re.compile(r"1[dD]$")
"""In the name of a norm, as of torch's BatchNorm1d: it takes (N, features)."""
SAID_OF_ROWS = re.compile(r"(?i)\((n|b|batch|batch_size), *(c|d|dim|features|num_features)\)")
"""The same in its docstring; what else the file gives it may have another shape."""


def is_of_rows(function: Any) -> bool:
    """Whether the class of a norm's method says that it takes rows, by its name, or in words where nothing uses it."""
    name = getattr(function, "__qualname__", "").partition(".")[0]
    said = getattr(getattr(function, "__globals__", {}).get(name), "__doc__", None) or ""
    code = getattr(function, "__code__", None)
    lines = linecache.getlines(code.co_filename) if code is not None else []
    is_used = any(re.search(rf"\b{name}\(", line) and not line.lstrip().startswith("class ") for line in lines)
    return bool(OF_ROWS_ALONE.search(name) or (SAID_OF_ROWS.search(said) and not is_used))


OF_TEXTS = ("Tokenizer", "LetterTokenizer", "TextBatches")
OF_STEPS = ("CosineSchedule", "LinearSchedule")
"""What is told the number of a step, counted from 0."""


def orders(kind: Kind, is_function: bool, keeps: bool = False, rows: bool = False) -> tuple[str, ...]:
    """The orders of dimensions in which a component may take its tensors, the likeliest first.

    keeps: whether it keeps keys and values between calls. rows: whether it says that it takes these.
    """
    if rows and kind.name in ("LayerNorm", "RMSNorm"):
        return batching.ALONE, *USUAL
    if kind.name in ("Adam", "AdamW", "DecayGroups", "GradientClipping", "Sampling", *OF_TEXTS, *OF_STEPS):
        return ("batch first",)
    if kind.name == "CausalMask":  # square, so transposing it would hide a mistake
        return "batch first", "batch last"
    usual: tuple[str, ...] = USUAL
    if kind.name == "PositionalEncoding":
        usual = (*usual, "ids", "positions", LENGTH, FROM_ONE)
    if kind.name.startswith("Loss"):
        return "batch first", SENTENCES, SHIFTED
    if kind.name == "RepeatedHeads":
        return "batch first", "heads after the length"
    if kind.name == "RotaryEmbedding":
        usual = ("batch first", "heads after the length", LENGTH_FIRST, OF_ROWS)
    if kind.name == "ScaledDotProductAttention":
        usual = (*usual, "heads after the length")
    alone = batching.orders(kind) if {"x", "query", "ids", "src"} & set(kind.inputs) else ()
    by_modules = (batching.ALONE, batching.IN_A_BATCH)
    alone = tuple(order for order in alone if is_function or "head" in order or order in by_modules)
    return (*usual, *((caching.TOKENWISE,) if keeps and kind.name in caching.OF_TOKENS else ()), *alone)


def plans(
    function: Any,
    inputs: tuple[str, ...],
    settings: Mapping[str, Any],
    orders: Sequence[str] = ("batch first",),
    tables: Sequence[tuple[Tensor, ...] | nn.Module] = (),
) -> Iterator[Plan]:
    """Ways to call `function` with the inputs of its kind, the likeliest first.

    tables: of angles, and what turns by them, for a parameter that takes one.

    Raises CannotCall, with the parameter's name, if a required parameter means nothing here.
    """
    tensors = tuple(name for name in inputs if name not in MASKS)
    parameters = [p for p in parameters_of(function) if p.name != "self"]
    sources = _sources([p for p in parameters if not is_mask(p.name)], inputs)
    if "key" in tensors and sum(p.default is p.empty and not is_mask(p.name) for p in parameters) == len(tensors):
        sources = [p for p in sources if _is_compared(p.name, function)]  # one each, whatever they are called
    mask_like = [p for p in parameters if (is_mask(p.name) and not isinstance(p.default, bool)) or p in sources]
    mask_like = [p for p in mask_like if p.default is p.empty or not _is_table(p.name, function)]
    if "next_logits" in tensors or not set(inputs) & {*MASKS}:  # lengths of what is decoded, or of what hides nothing
        mask_like = [p for p in mask_like if not LENGTHS.search(plain(p.name))]
    if sum(p.default is p.empty for p in parameters if p not in mask_like) < len(tensors):  # m is an encoder's output
        mask_like = [p for p in mask_like if plain(p.name) != "m" or p.default is not p.empty]
    handed_on = [p.name for p in mask_like if LENGTHS.search(plain(p.name)) and _is_only_returned(p.name, function)]
    mask_like = [p for p in mask_like if p.name not in handed_on]
    others = [p for p in parameters if p not in mask_like]
    heads = int(settings.get("num_heads", 1))
    kept, mask_like = _kept(mask_like, function)
    counted = [p for p in mask_like if p.default is p.empty and "target" in tensors]
    mask_like = [p for p in mask_like if p not in counted]
    extra = {
        **{p.name: beside.counted(p.name, int(settings["pad"])) for p in counted},
        **_beside(others, tensors, tables, settings, inspect.unwrap(function)),
        **dict.fromkeys(kept, beside.KEPT),
        **{name: [beside.Lengths()] for name in handed_on},
    }
    others = [p for p in others if p.name not in extra]
    arguments, constants = _by_name(others, tensors, settings)
    masks = _mask_parameters(mask_like, inputs)
    may_hide = tuple(p.name for p in mask_like)
    constants |= dict.fromkeys(_guards(others, may_hide, function), beside.WithMask(may_hide))
    swapped = _swapped(arguments)
    last: list[Plan] = []
    for some in ([arguments, swapped], [_by_position(others, tensors), _of_outputs(arguments)]):
        named = [names for names in some if names is arguments or (names and names != arguments)]
        ways = itertools.product(beside.combinations(extra), orders, named)
        for more, order, names in sorted(ways, key=lambda way: way[1] == batching.IN_A_BATCH):
            is_single = order.startswith("one") and "head" in order
            plan = Plan(names, {**constants, **more}, {}, order, mask_parameters=masks, heads=1 if is_single else heads)
            if order == batching.IN_A_BATCH:
                last.append(plan)
            else:
                yield plan
        for names in named:
            first = {**constants, **next(beside.combinations(extra))}
            for order in USUAL if (again := _memory_again(names, constants, tensors)) else ():
                yield Plan(again, first, {}, order, mask_parameters=masks, heads=heads)
            if targets := _targets(others, names, tensors):
                yield Plan({**names, targets: "ids"}, first, {}, mask_parameters=masks, heads=heads)
    yield from last


def _is_compared(name: str, function: Any) -> bool:
    """Whether a forward compares what it is given with a number, as ids with that of padding: source != 0."""
    code = source_of(inspect.unwrap(function))
    return re.search(rf"\b{name}\b *([!=]=|\.(eq|ne)\()|\b(eq|ne)\({name}\b", code) is not None


def _beside(
    parameters: list[inspect.Parameter], tensors: tuple[str, ...], tables: Sequence[tuple[Tensor, ...] | nn.Module],
    settings: Mapping[str, Any], function: Any,
) -> dict[str, list[Any]]:  # fmt: skip
    """Parameters that take positions, tables of angles or lengths -> what they may be given; optional ones: tables."""
    is_of_words = "next_logits" in tensors or not {"x", "query", "ids", "src"} & set(tensors)
    found: dict[str, list[Any]] = {}
    code = source_of(function)
    counts_rows = "positions" in tensors and any(input_of(p.name, ("positions",)) for p in parameters)
    for parameter in parameters[1:] if not is_of_words else ():
        table = table_of_positions(function, parameter.name, settings) if parameter.default is parameter.empty else None
        if table is not None and tensors in WITH_TABLES and "rope_base" not in settings:
            found[parameter.name] = _tables_of_positions(table)
            continue
        is_base = "rope_base" in settings and settings_of(parameter.name) == ("rope_base",)  # rope_theta
        if is_base or ("positions" in tensors and input_of(parameter.name, ("positions",))):
            continue
        is_open = parameter.default is parameter.empty
        may_scale = is_open or parameter.default is None or (type(parameter.default) in (int, float))
        if may_scale and tensors == ("query", "key", "value") and plain(parameter.name) in SCALES:
            scales = _scales(plain(parameter.name), settings)
            found[parameter.name] = scales if is_open else [parameter.default, *scales]
            continue
        if is_open and "rope_base" in settings and TURNED_WIDTH.match(plain(parameter.name)):
            found[parameter.name] = [int(settings["d_k"])]
            continue
        values = beside.options(parameter.name, tables, int(settings.get("max_len", ROWS)))
        if re.search(rf"\w+, *\w+ *= *{parameter.name}\b", code):  # cos, sin = position_embeddings
            values.sort(key=lambda value: isinstance(value, beside.Table) and len(value.parts) != 2)
        if counts_rows or COUNTS_THE_PAST.search(code):  # of a table that begins with the first position
            values.sort(key=lambda value: isinstance(value, beside.Table) and not value.whole)
        turns = bool(values) and isinstance(values[0], (beside.Table, beside.Turning))
        counts = bool(values) and isinstance(values[0], beside.Positions) and "rope_base" in settings
        if not is_open and parameter.default is None and is_segment(parameter.name):
            found[parameter.name] = [*values, None]  # a mask may ask for them
            continue
        if values and (is_open or (parameter.default is None and (turns or counts))):
            # what may turn and need not, of no such kind
            first = [] if is_open or ("rope_base" in settings and not counts) else [None]
            last = [] if is_open or first or isinstance(values[0], beside.Table) else [None]
            found[parameter.name] = [*first, *values, *last]
    turning = [n for n, values in found.items() if isinstance(values[0], (beside.Table, beside.Turning))]
    counted = [n for n, values in found.items() if None in values and isinstance(values[-1], beside.Positions)]
    for name in counted if turning else ():  # what turns tells where, if it is not told
        found[name] = [*found[name][1:], None] if _is_handed_to(turning, name, function) else [None]
    return found


def _is_handed_to(called: Sequence[str], name: str, function: Any) -> bool:
    """Whether code calls what one of these is with a name: rope(q, token_positions)."""
    calls = nodes_of(function, ast.Call)
    return any(last_name(call.func) in called and name in names_within(arguments_of(call)) for call in calls)


def _tables_of_positions(table: Tensor) -> list[Any]:
    """All of it; as many of its rows as there are tokens, without a batch of one and with."""
    rows = table.reshape(-1, table.shape[-1])
    return [table, *(beside.Table((one,), len(rows)) for one in (rows, rows[None]))]


def _kept(masks: list[inspect.Parameter], function: Any) -> tuple[list[str], list[inspect.Parameter]]:
    """The masks that tokens are multiplied with, x * non_pad_mask, and the others, if there are any.

    One that may be left out is none of them where that is asked.
    """
    code = source_of(inspect.unwrap(function))
    required = [
        p for p in masks if p.default is p.empty or not re.search(rf"\b{p.name} is (not )?None|if {p.name}\b", code)
    ]
    of_padding = [p.name for p in required if "pad" in plain(p.name) or KEEPING.search(plain(p.name))]
    kept = [n for n in of_padding if re.search(rf"\*=? *{n}\b|\b{n}(\.\w+\([^()]*\)|\[[^\]]*\])* *\*(?!\*)", code)]
    return (kept, [p for p in masks if p.name not in kept]) if len(kept) < len(masks) else ([], masks)


def _guards(parameters: Iterable[inspect.Parameter], masks: Sequence[str], function: Any) -> list[str]:
    """Flags, False by default, without which no mask is looked at: if is_causal: scores.masked_fill(mask == 0, …)."""
    flags = [p.name for p in parameters if p.default is False]
    read = {id(node) for node in nodes_of(function, ast.Name) if node.id in masks} if flags else set()
    asked = [(ast.unparse(node.test), node.body) for node in nodes_of(function, ast.If)]
    within = {test: {id(one) for line in body for one in ast.walk(line)} for test, body in asked if test in flags}
    return [name for name, inside in within.items() if read and read <= inside]


def _is_only_returned(name: str, function: Any) -> bool:
    """Whether a function does nothing with what it is given but return it: return logits, lengths."""
    nodes = nodes_of(inspect.unwrap(function))
    returned = [node.value for node in nodes if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)]
    beside_it = {id(one) for value in returned for one in value.elts}
    read = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    return bool(read) and all(id(node) in beside_it for node in read)


def _is_table(mask: str, function: Any) -> bool:
    """Whether a forward reads masks by their names from what it is given, and makes its own without: mask["src"]."""
    return re.search(rf"""\b{mask}\[["']""", source_of(inspect.unwrap(function))) is not None


def reassigned(plan: Plan) -> Iterator[Plan]:
    """The plan with its masks the other way round: names do not always tell which is the source's."""
    names = [name for _, name, _ in plan.mask_parameters]
    own = "tgt_mask" if "tgt_mask" in names else "mask"
    of_target = tuple((p, own if CROSS_MASK.search(plain(p)) else name, n) for p, name, n in plan.mask_parameters)
    if of_target != plan.mask_parameters:
        yield replace(plan, mask_parameters=of_target)
    for other in dict.fromkeys(itertools.permutations(names)):
        if list(other) != names:
            taken = list(zip(plan.mask_parameters, other, strict=True))
            against = tuple(p for (p, before, _), name in taken if before != name and _says_side(p))
            parameters = tuple((p, name, needed) for (p, _, needed), name in taken)
            yield replace(plan, mask_parameters=parameters, exchanged=against)


def _says_side(name: str) -> bool:
    """Whether a mask's name says outright that it is the source's, or the target's."""
    return len({bool(set(words(name)) & side) for side in (SOURCE, TARGET)}) == 2 and not CROSS_MASK.search(plain(name))


def _scales(word: str, settings: Mapping[str, Any]) -> list[float]:
    """What the caller of an attention divides the scores by, or multiplies them with, or 1 if it does so itself."""
    divisor = float(settings.get("d_k") or settings["d_model"] // settings["num_heads"]) ** 0.5
    return [*((1 / divisor, divisor) if SCALES[word] else (divisor, 1 / divisor)), 1.0]


def _targets(parameters: list[inspect.Parameter], names: Mapping[str, str], tensors: tuple[str, ...]) -> str | None:
    """The parameter of a language model that takes what to predict: some give all logits only with it."""
    optional = (p.name for p in parameters if p.default is None and p.name not in names)
    return next((name for name in optional if tensors == ("ids",) and input_of(name, ("target",))), None)


def _memory_again(names: Mapping[str, str], constants: Mapping[str, Any], tensors: tuple[str, ...]) -> dict[str, str]:
    """With the memory for what else must be given and nobody knows: once for the keys, once for the values.

    {} if there is nothing of that sort.
    """
    unknown = [name for name, value in constants.items() if value is MEANINGLESS and plain(name) not in FIXED]
    unknown = [name for name in unknown if not caching.NEEDED.search(plain(name))]
    return {**names, **dict.fromkeys(unknown, "memory")} if unknown and "memory" in tensors else {}


def _by_name(
    parameters: list[inspect.Parameter], tensors: tuple[str, ...], settings: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Parameter -> canonical input where the names tell, and what the other required ones get."""
    if "sublayer" in tensors and (sums := _of_sum(parameters)):
        return sums, {}
    found: dict[str, str] = {}
    left = list(tensors)
    for parameter in parameters:
        name = input_of(parameter.name, tuple(left))
        if name == "x" and plain(parameter.name) not in CERTAIN and len(parameters) > 1 and parameter != parameters[0]:
            name = None
        if name in ("memory", "src", "tgt") and len(parameter.name) == 1 and _is_said(name, parameters):
            name = None  # forward(y, encoder_output)
        if name == "logits" != plain(parameter.name) and any(plain(p.name) == name for p in parameters):
            name = None  # loss(inputs, logits)
        is_word = isinstance(parameter.default, str)  # end="<eos>", which its tokenizer knows
        is_open = parameter.default is parameter.empty or parameter.default is None or (name in OPTIONS and not is_word)
        if name is not None and is_open:
            found[parameter.name] = name
            left.remove(name)
    unmatched = [p for p in parameters if p.name not in found and p.default is p.empty]
    if (
        "next_logits" in tensors
        and "bos" in left
        and not any(plain(p.name) in INPUTS["ids"].split() for p in unmatched)
    ):
        may_begin = [p for p in parameters if p.default is None and plain(p.name) in INPUTS["ids"].split()]
        unmatched += may_begin[:1]  # generate(self, input_ids=None), which stops without them
    unmatched.sort(key=lambda p: not is_tokenizer(p.name))  # where there is one, others may be texts
    constants: dict[str, Any] = {}
    for parameter in unmatched:
        known = [setting for setting in settings_of(parameter.name) if setting in settings]
        if "next_logits" in tensors and is_tokenizer(parameter.name):
            found[parameter.name] = "tokenizer"
        elif "next_logits" in tensors and is_table_of_words(parameter.name):
            constants[parameter.name] = Words(told.WORDS)
        elif "next_logits" in tensors and _is_prompt(parameter) and "tokenizer" in found.values():
            found[parameter.name] = "prompt"
        elif "next_logits" in tensors and is_config(parameter):
            constants[parameter.name] = told.config()
        elif plain(parameter.name) in CONSTANTS:
            constants[parameter.name] = CONSTANTS[plain(parameter.name)]
        elif tensors == ("ids",) and "ids" in found.values() and input_of(parameter.name, ("target",)):
            found[parameter.name] = "ids"  # it computes its loss, too
        elif (shared := _shared_input(parameter.name, tensors, "rope_base" in settings)) and not (
            len(parameter.name) == 1 and {"x", "ids"} & {*left} and shared == "memory"
        ):
            found[parameter.name] = shared
            left = [name for name in left if name != shared]
        elif known and is_setting(parameter.name) and not _is_tensor(parameter, parameters, unmatched, left):
            constants[parameter.name] = settings[_meant(known, parameter, parameters)]
        elif {"d_model", "warmup"} <= settings.keys() and settings_of(parameter.name)[:1] == ("max_lr",):
            constants[parameter.name] = (settings["d_model"] * settings["warmup"]) ** -0.5  # the paper's highest rate
        elif plain(parameter.name) in FIXED:
            constants[parameter.name] = FIXED[plain(parameter.name)]
        elif "max_len" not in left and _is_longest(parameter.name) and not {"ids", "src", "tgt"} & {*left}:
            constants[parameter.name] = LONGEST
        elif is_fill(parameter.name):
            constants[parameter.name] = FILLED
        elif caching.is_kept_in(parameter) and "memory" in left:
            constants[parameter.name] = MEANINGLESS  # no encoder's output: nothing is kept yet
        elif "next_logits" in tensors and _is_source(parameter, left):
            constants[parameter.name] = torch.full((1, told.SOURCE_LENGTH), told.SOURCE)
        elif "next_logits" in tensors and told.MEMORY.search(plain(parameter.name)):
            constants[parameter.name] = told.memory()
        elif "bos" in left and plain(parameter.name) in INPUTS["ids"].split():
            found[parameter.name] = "bos"
            left.remove("bos")
        elif "memory" in left and _is_of_encoder(parameter.name, unmatched):
            found[parameter.name] = left.pop(left.index("memory"))
        elif left:
            is_prompt = "bos" in left and "next_logits" in tensors and _is_prompt(parameter)
            first = "bos" if is_prompt else "max_len" if "max_len" in left else left[0]
            found[parameter.name] = left.pop(left.index(first))
        else:
            constants[parameter.name] = MEANINGLESS
    for parameter in parameters:
        known = [setting for setting in settings_of(parameter.name) if setting in settings]
        is_number = isinstance(parameter.default, (int, float)) and not isinstance(parameter.default, bool)
        is_number |= parameter.default is None and known == ["pad"] and "target" in tensors  # ignore_index=None
        if parameter.name not in found and known and is_number and is_setting(parameter.name):
            constants[parameter.name] = settings[known[0]]
        elif parameter.name not in found and known == ["label_smoothing"] and parameter.default is False:
            constants[parameter.name] = settings["label_smoothing"] > 0  # whether any: how much, it says itself
        elif parameter.default is None and isinstance(inert := FIXED.get(plain(parameter.name)), NoDropout):
            constants[parameter.name] = inert  # changes nothing, and shows where dropout is
    if not found and (parameters or "max_len" not in settings):  # a table of positions need not be told anything
        raise CannotCall("its forward takes no tensor")
    return _complete(found, tensors), constants


def _meant(known: list[str], parameter: inspect.Parameter, parameters: list[inspect.Parameter]) -> str:
    """Of the settings that a name may mean, the likeliest that no other name means first: d_out, beside d_in."""
    taken = {setting for p in parameters if p is not parameter for setting in settings_of(p.name)[:1]}
    return next((setting for setting in known if setting not in taken), known[0])


def _is_of_encoder(name: str, parameters: list[inspect.Parameter]) -> bool:
    """Whether a name says enc, and another one dec: enc_rep beside dec_rep."""
    others = [set(words(p.name)) for p in parameters if p.name != name]
    return bool(set(words(name)) & SOURCE - TARGET) and any(other & TARGET and not other & SOURCE for other in others)


def _is_said(name: str, parameters: list[inspect.Parameter]) -> bool:
    """Whether a parameter says in a word that it is this input, so that no letter need mean it."""
    return any(len(p.name) > 1 and input_of(p.name, (name,)) for p in parameters)


def _of_sum(parameters: list[inspect.Parameter]) -> dict[str, str]:
    """Of two, the one that a name says to be what is added to the sublayer's output: forward(x, residual); else {}."""
    required = [p.name for p in parameters if p.default is p.empty]
    added = [name for name in required if SKIPPED.search(plain(name))]
    is_clear = len(required) == 2 and len(added) == 1
    return {name: "x" if name in added else "sublayer" for name in required} if is_clear else {}


def _is_tensor(
    parameter: inspect.Parameter, all_: list[inspect.Parameter], unmatched: list[inspect.Parameter], left: list[str]
) -> bool:
    """Whether what has the name of a size is a tensor: forward(embeddings); all without a meaning must be tensors."""
    none_else = len(unmatched) == len(left) and not set(left) & {*OPTIONS, "next_logits", "length", "steps"}
    return none_else or (parameter is all_[0] and "x" in left)


def _is_prompt(parameter: inspect.Parameter) -> bool:
    """Of a decoder with a tokenizer: a text."""
    is_text = parameter.annotation in (str, "str") or bool(
        re.search("prompt|sentence|(?<!con)text|context$", plain(parameter.name))
    )
    return is_text and parameter.default is parameter.empty and plain(parameter.name) not in FIXED


def _is_source(parameter: inspect.Parameter, left: list[str]) -> bool:
    """Of a decoder: what may mean the source, unless it must be the first ids."""
    word = plain(parameter.name)
    return word in INPUTS["src"].split() and ("bos" not in left or word.startswith("s") or "enc" in word)


def _shared_input(name: str, tensors: tuple[str, ...], turns: bool) -> str | None:
    """Layers that are given query, key and value: x three times, or in a decoder the memory as key and value.

    turns: whether what attends turns heads by their positions: to itself, if that has a place for a memory too.
    """
    if input_of(name, ("memory",)) and ("memory" in tensors or (turns and tensors == ("x",))):  # as keys, and as values
        return tensors[-1]
    if SKIPPED.search(plain(name)) and (own := next((one for one in ("x", "query") if one in tensors), None)):
        return own  # the sublayer's input, which it adds
    role = input_of(name, ("query", "key", "value"))
    if role is None or "query" in tensors:
        return None
    if role != "query" and "memory" in tensors:
        return "memory"
    return "x" if "x" in tensors else None


def _complete(found: dict[str, str], tensors: tuple[str, ...]) -> dict[str, str]:
    missing = set(tensors) - set(found.values()) - set(OPTIONS) if found else set()
    if missing - {"key", "value"} or (missing == {"key"} and "value" in found.values() and len(found) < 2):
        raise CannotCall(f"its forward takes no {', '.join(sorted(missing))}")
    return found


def _by_position(parameters: list[inspect.Parameter], tensors: tuple[str, ...]) -> dict[str, str] | None:
    required = [p for p in parameters if p.default is p.empty]
    if len(required) != len(tensors) or ("memory" in tensors and any(map(caching.is_kept_in, required))):
        return None
    return {parameter.name: name for parameter, name in zip(required, tensors, strict=True)}


def _swapped(arguments: Mapping[str, str]) -> dict[str, str] | None:
    """The decoder's tokens and the encoder's the other way round, unless the names say which is which."""
    if sorted(arguments.values()) == ["src", "tgt"] and not says_sides(arguments):
        return dict(zip(arguments, [*arguments.values()][::-1], strict=True))
    own = "ids" if "ids" in arguments.values() else "x"
    said = {input_of(parameter, (own, "memory")) for parameter in arguments if len(parameter) > 1}
    if sorted(arguments.values()) != sorted([own, "memory"]) or said >= {own, "memory"}:
        return None
    return {parameter: "memory" if name == own else own for parameter, name in arguments.items()}


def _of_outputs(arguments: Mapping[str, str]) -> dict[str, str] | None:
    """The sublayer's output in place of the sublayer: add_and_norm(x, y)."""
    if "sublayer" not in arguments.values():
        return None
    return {parameter: "sublayer's output" if name == "sublayer" else name for parameter, name in arguments.items()}


def _sources(parameters: list[inspect.Parameter], inputs: tuple[str, ...]) -> list[inspect.Parameter]:
    """The parameter that takes ids to see where padding is, in place of a mask.

    Of a decoder that is given ids, the source's; of what is given vectors, those that they were made of.
    """
    required = [p for p in parameters if p.default is p.empty and not beside.POSITIONS.match(plain(p.name))]
    if {"ids", "memory"} <= set(inputs):
        found = [p for p in required[1:] if input_of(p.name, ("src",))]
        found += [p for p in required[1:] if set(words(p.name)) & SOURCE and input_of(p.name, ("memory",))]
        return found[:1] if len(required) == 3 else []
    if "mask" not in inputs or inputs[0] not in ("x", "query"):
        return []
    found = [p for p in required[1:] if WORDS.search(plain(p.name))][:1]
    others = [p.name for p in required[1:] if p not in found]
    asks = "memory" not in inputs or any(input_of(name, ("memory", "key", "value")) for name in others)
    return found if asks else []


def _mask_parameters(parameters: list[inspect.Parameter], inputs: tuple[str, ...]) -> tuple[tuple[str, str, bool], ...]:
    """Which canonical mask each mask parameter takes."""
    known = [name for name in MASKS if name in inputs]
    is_pair = {plain(parameter.name)[:3] for parameter in parameters} >= {"inp", "out"}
    of_self = [plain(p.name) for p in parameters if OWN_MASK.search(plain(p.name))]
    hides = [word for word in of_self if re.search("masked|causal|look|future|subseq", word)]
    sources = [word for word in of_self if hides and word not in hides and "src_mask" in known]  # both sides' own masks
    said: list[str | None] = []
    for parameter in parameters:
        word = plain(parameter.name)
        word = re.sub("^inp(ut)?", "src", re.sub("^out(put)?", "tgt", word)) if is_pair else word
        word = f"{word}mask" if LENGTHS.search(word) else word
        if len(known) <= 1:
            said.append(known[0] if known else "")
        elif not is_mask(parameter.name):
            said.append("memory_mask")
        elif word in sources or ("src_mask" in known and ENCODERS.search(word)):
            said.append("src_mask")
        elif TARGET_MASK.search(word) and not CROSS_MASK.search(word):
            said.append(next((name for name in known if name in ("tgt_mask", "mask")), known[-1]))
        elif SOURCE_MASK.search(word):
            said.append(next((name for name in known if name in ("memory_mask", "src_mask")), known[0]))
        else:
            said.append(None)
    left = [name for name in known if name not in said]
    by_place = [known[min(index, len(known) - 1)] if known else "" for index in range(len(parameters))]
    hidden = ["pad" in plain(parameter.name) for parameter in parameters]
    if said == [None, None] and hidden == [True, False] and known[-1] == "memory_mask":  # pad_mask, mask
        by_place = known[::-1]
    if said.count(None) == len(left) == 1:  # the names of the others tell
        by_place = left * len(parameters)
    elif not left and (of_source := next((name for name in known if name in ("memory_mask", "src_mask")), "")):
        crosses = [bool(CROSS_MASK.search(plain(parameter.name))) for parameter in parameters]
        by_place = [of_source if cross else place for cross, place in zip(crosses, by_place, strict=True)]
        pads = all("pad" in plain(p.name) for p, name in zip(parameters, said, strict=True) if name is not None)
        if pads and said.count(None) == 1 and not crosses[said.index(None)]:  # both sides' padding, and the future
            by_place = [next(name for name in known if name != of_source)] * len(parameters)
    names = [place if name is None else name for name, place in zip(said, by_place, strict=True)]
    return tuple((p.name, name, p.default is p.empty) for p, name in zip(parameters, names, strict=True))
