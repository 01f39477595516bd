"""B26: shapes that never fit. A class is built and called with sizes of which no two are alike, and with others.

All its widths are one number, so that none of them can have been taken for another: what still stops, at a line of the
learner's, stops because of what it does with batches, lengths and heads.
"""

from __future__ import annotations

import ast
import itertools
import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from scratch_transformer.kit.definitions import is_module_class, names_in, namespace_of, nodes_of, source_of
from scratch_transformer.kit.judge.frames import STOPS_AT, code_at, frames_of, in_one_line, line_of, nodes_at
from scratch_transformer.kit.judge.stops import checked, undefined
from scratch_transformer.kit.kind import Finding, Inputs, Kind
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import OF_SHAPES, OF_VIEWS
from scratch_transformer.kit.resolve.build import construct
from scratch_transformer.kit.resolve.build.config import Unknown, is_config
from scratch_transformer.kit.resolve.call import batching, calling, forwards
from scratch_transformer.kit.resolve.call.plan import CannotCall, Plan
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.names.inputs import input_of, is_mask
from scratch_transformer.kit.resolve.names.settings import EITHER, is_setting, settings_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.resolve.trials import untold
from scratch_transformer.kit.resolve.trials.mask_search import with_required_masks

SIZES = ((2, 5, 30, 3), (3, 7, 44, 4), (5, 4, 42, 6))
"""Samples, length, width, heads: no two alike, nor the width of a head like any of them."""
SHAPES = re.compile(
    r"must match the (size|existing size)|cannot be multiplied|is invalid for input of size|first two dimensions|"
    r"doesn't match the broadcast shape|Sizes of tensors must match|number of dims|Dimension out of range|"
    r"exceeds dimension size|view size is not compatible|too many indices for tensor"
)
OF_RANKS = re.compile(r"number of dims|Dimension out of range|too many indices|exceeds dimension size")
"""Of these, what a whole stops with that takes no ids, or more than these."""
WANTS_SAMPLES = re.compile("ValueError: .*to unpack|IndexError: tuple index out of range")
KINDS = ("MultiheadAttention", "SelfAttention", "CausalSelfAttention", "CrossAttention", "FeedForward", "EncoderLayer",
         "DecoderLayer", "DecoderOnlyLayer", "PositionalEncoding", "Encoder", "LlamaBlock")  # fmt: skip
WHOLES = ("TokenEncoder", "TokenDecoder", "DecoderOnly", "Transformer")
"""What is given ids; only where no mask must be given, as a model makes its own."""
OF_IDS = ("ids", "src", "tgt")
MOST_PLANS, MOST_FORMS, MOST_WIDTHS = 9, 12, 8
LONGER = (0, 1)
"""Tokens of a sequence beyond the longest that is told: a vision Transformer's token of the class is one more."""
LEAST = 3
"""Of numbers that are sizes."""


Misfit = tuple[Finding, BaseException]


def finding(thing: Any, kind: Kind, library: Library, error: BaseException | None) -> Misfit | None:
    """B26, if a class of modules whose arguments are all known by name stops with shapes, however it is called.

    With what it stops with in the first trial.
    """
    if not is_module_class(thing):
        return None
    if kind.name == "ScaledDotProductAttention" and {"Linear", "Parameter"} & names_in(thing):  # type: ignore[arg-type]
        kind = library.kinds["MultiheadAttention"]  # the core alone has no weights
    if kind.name not in (*KINDS, *WHOLES) or library.supplied:
        return None
    if kind.name in WHOLES and (_must_be_masked(thing) or OF_RANKS.search(str(error)) or _takes_one_hot(thing)):
        return None
    if not _stops_within(error, thing) or not _is_known(thing, kind) or _is_written(checked.failed(error), thing):
        return None
    first: BaseException | None = None
    told = (None, *LONGER) if _is_told_of(thing, {"max_len", "batch"}) else (None,)
    written = source_of(thing)  # type: ignore[arg-type]
    is_grouped = _is_told_of(thing, {"num_kv_heads"}) and re.search(r"kv|group", written.lower())
    apart = [size for size in SIZES if size[-1] != untold.sizes(thing).get("num_heads")]  # with those it would fit
    sizes = [(*size, group) for size in apart for group in (_groups(size[-1]) if is_grouped else (0,))]
    for (samples, length, width, heads, groups), longer in itertools.product(sizes, told):
        of_these = {} if longer is None else {"max_len": length - longer, "batch": samples}
        settings = _settings(kind, width, heads) | of_these
        settings |= {"num_kv_heads": groups} if groups else {}
        stops = list(_calls(thing, kind, library, settings, _inputs(kind, samples, length, settings)))
        others = [stop for stop in stops if not _stops_within(stop, thing)]
        if not stops or any(stop is None for stop in others):
            return None  # it gives something
        if others:  # it stops for another reason: as it was told how long its sequences are, perhaps with a name
            named = undefined.finding(others[0]) if of_these else None
            return (named, others[0]) if named is not None and others[0] is not None else None
        first = first or stops[0]
    assert first is not None
    _, length, width, heads = SIZES[0]
    settings = {**_settings(kind, width, heads), "d_k": width}
    if None in _calls(thing, kind, library, settings, _inputs(kind, 2, length, settings)):
        return None  # what is called like a head's width is the tokens'
    if _fits_by_default(thing, kind) or _fits_its_part(thing, kind, library):
        part = next((f"{part.__name__}()" for part in _told_nothing(thing)), "")
        said = f"{part} is told nothing, and has the sizes of its own defaults; with others the shapes do not fit"
        found = Finding(MISTAKES["B29"], f"{said}: {in_one_line(first)}.", part) if part else None
        found = found or untold.finding(thing, first)
        return (found, first) if found is not None else None
    code = code_at(*_place(first, thing))
    unequal = checked.failed(first)
    text, what = (unequal, "do not pass its own check") if unequal else (in_one_line(first), "do not fit")
    said = f"Its shapes {what}, with whatever numbers of samples, tokens, features and heads"
    for what_else, samples, tokens in (("sentence in a batch", 1, length), ("token", 2, 1)):
        of_these = {"max_len": tokens, "batch": samples} if len(told) > 1 else {}
        settings = _settings(kind, width, heads) | of_these
        if None in _calls(thing, kind, library, settings, _inputs(kind, samples, tokens, settings), ("batch first",)):
            said = f"With more than one {what_else} its shapes {what}"
            break
    fix, name = (OF_VIEWS, "view") if "view size is not compatible" in text else (OF_SHAPES, "")
    if (outside := _read_from_outside(first, thing)) is not None:
        name, shape, given = outside
        said = f"It reads {name}, a tensor of shape {shape} that its file makes, and never {given}, which it is given"
        said, fix = f"{said}: with other shapes they {what}", f"{given} in place of {name}."
    return Finding(MISTAKES["B26"], f"{said}: {text}. {STOPS_AT}{code}", fix=fix, name=name), first


def _must_be_masked(thing: type[nn.Module]) -> bool:
    return any(is_mask(p.name) and p.default is p.empty for p in construct.parameters_of(thing.forward))


def _takes_one_hot(thing: type[nn.Module]) -> bool:
    """Whether it embeds words that are vectors as long as the vocabulary: nn.Linear(vocab_size, d_model)."""
    first = re.findall(r"\bLinear\(\s*(?:\w+\.)*(\w+)\s*,", source_of(thing))  # type: ignore[arg-type]
    return any("vocab" in setting for name in first for setting in settings_of(name))


def _fits_by_default(thing: type[nn.Module], kind: Kind) -> bool:
    """Whether it gives something where it is told nothing, for tokens of some width that its weights have."""
    try:
        with double():
            made = thing().double().eval()
        plans = list(calling.plans(forwards.forward_of(made, kind), kind.inputs, kind.defaults, ("batch first",)))
    except (Exception, Unknown, CannotCall):
        return False
    widths = dict.fromkeys(size for values in made.parameters() for size in values.shape)
    for width, plan in itertools.product(itertools.islice(widths, MOST_WIDTHS), plans[:MOST_PLANS]):
        inputs = _inputs(kind, 2, 5, {"d_model": width})
        if plan.accepts(inputs) and _stopped(forwards.forward_of(made, kind), plan, inputs) is None:
            return True
    return False


def _fits_its_part(thing: type[nn.Module], kind: Kind, library: Library) -> bool:
    """Whether it gives something with the widths of a part that is told nothing as its own: of heads of 8 features."""
    for part in _told_nothing(thing)[:1]:
        try:
            widths = dict.fromkeys(size for values in part().parameters() for size in values.shape)
        except Exception:  # the learner's code may raise anything
            return False
        for wide, d_k in itertools.islice(itertools.product(widths, widths), MOST_WIDTHS):
            settings = {**_settings(kind, wide, max(wide // d_k, 1)), "d_k": d_k}
            if None in _calls(thing, kind, library, settings, _inputs(kind, 2, 5, settings)):
                return True
    return False


def _told_nothing(thing: type[nn.Module]) -> list[type[nn.Module]]:
    """The learner's classes of which it makes a part and hands no size on to it: Attention()."""
    module = namespace_of(thing)
    calls = [node for node in nodes_of(thing, ast.Call) if not node.args and not node.keywords]
    made = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
    own = [module[name] for name in made if is_module_class(module.get(name))]
    return [cls for cls in own if construct.parameters_of(cls)]


def _is_told_of(thing: type[nn.Module], names: set[str]) -> bool:
    """Whether it may be told such a number, how long its sequences are, say: else it is the same with any."""
    told = construct.parameters_of(thing)
    return any(is_config(p) or names & {*settings_of(p.name)} for p in told)


def _groups(heads: int) -> list[int]:
    """Into how many groups heads can be put: with some numbers of them alone it may fit."""
    return [groups for groups in range(1, heads + 1) if heads % groups == 0]


def of_constructor(thing: Any, kind: Kind, library: Library, error: BaseException | None) -> Misfit | None:
    """B26, if a constructor stops with shapes at one line, whatever numbers it is told: a column that is none."""
    is_one = is_module_class(thing) and kind.name in KINDS and not library.supplied
    if not is_one or not _stops_within(error, thing) or not _is_known(thing, kind) or _fits_as_written(thing, library):
        return None
    if checked.failed(error):
        return None  # it asks for sizes that it may be told
    for (_, length, width, heads), times in itertools.product(SIZES, (1, 3)):
        settings = _settings(kind, width, heads) | {"max_len": times * (width + length)}
        try:
            attempts = construct.attempts(thing, settings, library.namespace_of(thing), library.parts(kind, thing), {})
            with double():
                next(attempts).build()
        except (Exception, Unknown) as stop:
            is_same = _stops_within(stop, thing) and _place(stop, thing) == _place(error, thing)
            if not is_same or _is_written(str(stop), thing):
                return None  # with a size that is written in it may fit
        else:
            return None  # some numbers fit
    code = code_at(*_place(error, thing))
    text = in_one_line(error)
    said = f"Its shapes do not fit, with whatever numbers its constructor is told: {text}. {STOPS_AT}{code}"
    return (Finding(MISTAKES["B26"], said, fix=OF_SHAPES), error) if error is not None else None


def _read_from_outside(error: BaseException, thing: type[nn.Module]) -> tuple[str, tuple[int, ...], str] | None:
    """The tensor of its file that the line reads, its shape, and the argument that nothing reads; None if none is."""
    frame = next((one for one in reversed(frames_of(error)) if one.f_code is thing.forward.__code__), None)
    if frame is None or _place(error, thing)[1] != line_of(error, frame):
        return None
    names = [node.id for node in nodes_at(error, frame, ast.Name) if node.id not in frame.f_locals]
    tensor = next((name for name in names if isinstance(frame.f_globals.get(name), torch.Tensor)), None)
    read = {node.id for node in nodes_of(thing.forward, ast.Name)}
    given = next((p.name for p in construct.parameters_of(thing.forward) if p.name not in (*read, "self")), None)
    return (tensor, tuple(frame.f_globals[tensor].shape), given) if tensor is not None and given is not None else None


def _is_written(text: str, thing: type[nn.Module]) -> bool:
    """Whether a class's code has a size that an error speaks of."""
    sizes = [n for n in re.findall(r"\d+", text) if int(n) >= LEAST]
    return any(re.search(rf"\b{n}\b", source_of(thing)) for n in sizes)  # type: ignore[arg-type]


def _fits_as_written(thing: type[nn.Module], library: Library) -> bool:
    """Whether what is told nothing can be built with its file's own numbers: one of ours may be twice another."""
    with library.globals_as_written(thing) as are_others:
        try:
            with double():
                return are_others and isinstance(thing(), nn.Module)
        except Exception:  # the learner's code may raise anything
            return False


def _settings(kind: Kind, width: int, heads: int) -> dict[str, Any]:
    """All widths alike, and longer than any sequence."""
    wide = dict.fromkeys(("d_model", "d_ff", "max_len", "vocab_size", "src_vocab_size", "tgt_vocab_size"), width)
    return {**kind.defaults, "num_heads": heads, "d_k": width // heads, **wide}


def _inputs(kind: Kind, samples: int, length: int, settings: Mapping[str, Any]) -> Inputs:
    """Random tokens, and masks that hide nothing: as many queries as keys, which must fit everywhere."""
    make = torch.Generator().manual_seed(0)
    shape = (samples, length, int(settings["d_model"]))
    names = [name for name in kind.inputs if "mask" not in name]
    none = {name: None for name in kind.inputs if name not in names}
    ids = {name: torch.randint(4, shape[-1], shape[:2], generator=make) for name in names if name in OF_IDS}
    return {name: torch.randn(shape, generator=make, dtype=torch.float64) for name in names} | none | ids


def _calls(
    thing: type[nn.Module], kind: Kind, library: Library, settings: dict[str, Any], inputs: Inputs,
    orders: tuple[str, ...] = ("batch first", "sequence first", batching.ALONE),
) -> Iterator[BaseException | None]:  # fmt: skip
    """What every way to call it stops with; None where it gives something."""
    try:
        attempts = construct.attempts(thing, settings, library.namespace_of(thing), library.parts(kind, thing), {})
        with double():
            made = next(attempts).build()
        if not _has_width(made, settings, kind):
            yield None  # its sizes come from somewhere else
            return
        function = forwards.forward_of(made, kind)
        plans = list(calling.plans(function, kind.inputs, settings, orders))
    except (Exception, Unknown) as error:
        yield error
        return
    for plan in plans[:MOST_PLANS]:
        forms = with_required_masks(plan.with_all_masks(), every=False)
        without = [] if any(is_required for *_, is_required in plan.mask_parameters) else [plan]
        for form in itertools.islice(itertools.chain(without, forms), MOST_FORMS):
            single = {name: None if value is None else value[:1] for name, value in inputs.items()}
            some = single if plan.order == batching.ALONE else inputs
            if form.accepts(some):
                stop = _stopped(function, form, some)
                if stop is not None and _wants_another_width(made, function, form, some):
                    yield None  # it is meant for wider tokens, or narrower ones
                    return
                if plan.order == batching.ALONE and WANTS_SAMPLES.match(f"{type(stop).__name__}: {stop}"):
                    break  # B, T, E = x.shape; x.shape[2]
                if form is plan or not without or stop is None or _stops_within(stop, thing):
                    yield stop  # a mask that may be left out need not be of the right sort


def _has_width(made: nn.Module, settings: Mapping[str, Any], kind: Kind) -> bool:
    """Whether its weights and tables have the width that was asked for. Of positions they may have a length alone."""
    shapes = [tuple(values.shape) for values in (*made.parameters(), *made.buffers())]
    is_narrow = all(size in (1, settings["max_len"]) for shape in shapes for size in shape)
    return any(settings["d_model"] in shape for shape in shapes) or (is_narrow and kind.name == "PositionalEncoding")


def _wants_another_width(made: nn.Module, function: Any, form: Plan, inputs: Inputs) -> bool:
    """Whether a linear layer refuses what the whole is given, as it is, and nothing else has the width that it wants.

    A gate that is given two sequences side by side; a classifier of numbers that are told by default.
    """
    given = [value.data_ptr() for value in inputs.values() if isinstance(value, torch.Tensor)]
    running: list[tuple[nn.Module, Any]] = []
    hooks = [
        hook
        for part in made.modules()
        for hook in (
            part.register_forward_pre_hook(lambda part, args: running.append((part, args))),
            part.register_forward_hook(lambda part, args, output: running.pop() and None),
        )
    ]
    stop = _stopped(function, form, inputs)
    for hook in hooks:
        hook.remove()
    part, args = running[-1] if running else (made, ())
    own = {id(values) for values in part.parameters()}
    others = {size for values in made.parameters() if id(values) not in own for size in values.shape}
    is_given = any(isinstance(one, torch.Tensor) and one.data_ptr() in given for one in args)
    found = re.search(r"cannot be multiplied \(\d+x\d+ and (\d+)x\d+\)", str(stop))
    return found is not None and part is not made and is_given and int(found[1]) not in others


def _stopped(function: Any, plan: Plan, inputs: Inputs) -> BaseException | None:
    try:
        with double(), torch.no_grad():
            function(**plan.give(inputs))
    except (Exception, CannotCall) as error:
        return error
    return None


def _stops_within(error: BaseException | None, thing: type[nn.Module]) -> bool:
    """Whether shapes do not fit at a line of the class, or of a function beside it, or do not pass a check there."""
    is_said = isinstance(error, (RuntimeError, IndexError)) and SHAPES.search(str(error))
    return bool((is_said or checked.failed(error)) and _place(error, thing)[1])


def _place(error: BaseException | None, thing: type[nn.Module]) -> tuple[str, int]:
    """The learner's innermost line: file and number."""
    home = getattr(thing.forward, "__code__", None)
    frames = traceback.extract_tb(error.__traceback__) if error is not None and home is not None else []
    own = [f for f in frames if home is not None and f.filename == home.co_filename]
    return (own[-1].filename, own[-1].lineno or 0) if own else ("", 0)


def _is_known(thing: type[nn.Module], kind: Kind) -> bool:
    """Whether a name says what each argument is: of the constructor, a number by default too, and of forward."""
    built = [p for p in construct.parameters_of(thing) if p.default is p.empty or type(p.default) is int]
    called = [p for p in construct.parameters_of(thing.forward) if p.name != "self" and p.default is p.empty]
    tensors = tuple(name for name in kind.inputs if "mask" not in name)
    named = [p for p in called if "mask" not in p.name.lower()]
    return all((is_setting(p.name) and plain(p.name) not in EITHER) or is_config(p) for p in built) and (
        len(named) == 1 or all(input_of(p.name, (*tensors, "x", "memory")) for p in named)
    )
