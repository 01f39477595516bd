"""Sizes that are written into a class, so that it works with no others: nn.LayerNorm(512), assert d_model % 64 == 0."""

from __future__ import annotations

import inspect
import itertools
import linecache
import math
import re
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from scratch_transformer.kit.definitions import leads_to, parameters_of, source_of
from scratch_transformer.kit.judge.frames import frames_of
from scratch_transformer.kit.judge.stops import undefined
from scratch_transformer.kit.kinds.inputs import S, T
from scratch_transformer.kit.resolve.build import demands
from scratch_transformer.kit.resolve.build.values import GENERAL
from scratch_transformer.kit.resolve.names.settings import settings_of

LEAST, MOST, WIDEST, WIDEST_OF_HEADS = 8, 4096, 256, 1024
"""Of numbers that are sizes; of widths that are quick to compute with, or at least can be, where nothing else fits."""
MOST_SIZES = 3
OF_REFERENCE = re.compile(r"(?:d_model|embed_dim)=(?P<width>\d+) and num_heads=(?P<heads>\d+)")
OF_TORCH = "embed_dim must be divisible by num_heads"
MULTIPLE = re.compile(r"(?:%|//|multiple of|divisible by|head_?(?:dim|size) (?:of|to be)) ?(\d+)")
UNGROUPED = "It works with as many heads of keys and values as of queries alone: only such were checked."
MISMATCH = re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")
"""Of two that differ by one, the table of positions may be longer by a row: pe[: length + 1], but for the longest."""
CUT = re.compile(r"shape '\[([-\d, ]+)\]' is invalid for input of size")
SHAPES = re.compile(r"normalized_shape=\[(\d+)\]|cannot be multiplied \(\d+x\d+ and (\d+)x(\d+)\)|\((\d+)\)|\b(\d+)\b")


def refused_heads(error: BaseException | None) -> int:
    """As many heads as the reference, or torch's attention, refuses to divide a width by: one of both is written in.

    0 where an error says something else.
    """
    if found := OF_REFERENCE.search(str(error)):
        return int(found["heads"])
    frames = frames_of(error)
    heads = frames[-1].f_locals.get("num_heads") if frames and str(error).startswith(OF_TORCH) else None
    return heads if isinstance(heads, int) else 0


def otherwise(
    error: BaseException | None, thing: Any, settings: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Other settings, each with a sentence on it, for what cannot be built or called with those that were asked for.

    A width that the code has written in is replaced there by ours, as long as the settings are tried.
    """
    if error is None or "d_model" not in settings:
        return
    heads = int(settings.get("num_heads", 1))
    written = refused_heads(error)
    functions = list(_functions(thing))
    yield from ((wanted, "") for wanted in demands.met(error, settings))
    if written:
        wider = {**settings, "d_model": 6 * written, "num_heads": written}
        yield wider, ""
        yield from _in_place_of(_widths(functions), functions, wider)
        return
    if "is invalid for input of size" in str(error) and settings.get("num_kv_heads") not in (None, heads):
        yield {**settings, "num_kv_heads": heads}, UNGROUPED
    of_code = {n for function in functions for n in _numbers(function)}
    ours = {value for value in settings.values() if type(value) is int}
    for multiple in _multiples(error, thing, of_code):
        width = math.lcm(multiple * heads, 2)
        if width <= WIDEST and settings["d_model"] % multiple:
            yield {**settings, "d_model": width}, ""
    found = [int(n) for groups in SHAPES.findall(str(error)) for n in groups if n]
    sizes = [n for n in dict.fromkeys(found) if n in of_code - ours and LEAST <= n <= MOST]
    cut = _cut(str(error)) if heads > 1 else []
    if cut and {*cut[-1:]} <= {*sizes}:  # heads that wide: a scale may be written in, too, / 8 for 64
        written = next((size for size in cut[1:-1] if size in sizes), heads)
        if written * cut[-1] <= WIDEST_OF_HEADS:
            yield {**settings, "num_heads": written, "d_model": written * cut[-1]}, ""
    width = int(settings["d_model"]) // heads
    of_cut = {
        **dict.fromkeys(cut[:1], GENERAL["batch"]),
        **dict.fromkeys(cut[1:-1], heads),
        **dict.fromkeys(cut[-1:], width),
    }
    yield from _in_place_of(sizes, functions, settings, of_cut)


def _in_place_of(
    sizes: Iterable[int],
    functions: list[types.FunctionType],
    settings: Mapping[str, Any],
    of_cut: Mapping[int, int] = types.MappingProxyType({}),
) -> Iterator[tuple[dict[str, Any], str]]:
    """Our width for each size that is written in, for as long as it is tried; of what features are cut into, ours."""
    for size in itertools.islice(sizes, MOST_SIZES):
        own = of_cut.get(size, int(settings["d_model"]))
        undo = _rewrite(functions, size, own)
        yield {**settings}, f"The size {size} is written in; it was checked with {own} in that place."
        undo()


def _cut(error: str) -> list[int]:
    """What features cannot be cut into, (batch, length, heads, width), as an error says; [] where it says no such."""
    found = CUT.search(error)
    shape = [int(size) for size in found[1].split(",")] if found else []
    return shape if len(shape) in (4, 5) else []


def _widths(functions: Iterable[types.FunctionType]) -> Iterator[int]:
    """What parts are as wide as where nobody tells them: def __init__(self, d_model=512)."""
    told = (p for function in functions for p in parameters_of(function) if type(p.default) is int)
    yield from dict.fromkeys(p.default for p in told if settings_of(p.name)[:1] == ("d_model",) and p.default >= LEAST)


def lengths(error: BaseException | None, settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Of the probes, for what stops as sequences are shorter than the longest; () for what stops otherwise."""
    if not isinstance(error, (RuntimeError, ValueError)):
        return ()
    if undefined.finding(error) is not None:
        return ()  # its code alone shows that it is wrong: what works with one length is none of this
    two = [int(number) for found in MISMATCH.findall(str(error)) for number in found]
    is_near = len(two) == 2 and abs(two[0] - two[1]) == 1 and bool({T, S} & {*two})  # as 2 samples and 3 heads are not
    return longest(settings) if is_near or re.search(rf"\b{_longest(settings)}\b", str(error)) else ()


def written_length(error: BaseException | None, thing: Any, settings: Mapping[str, Any]) -> int:
    """A length that the code has written in, torch.arange(16), where sequences of another stop; 0 if there is none."""
    two = [int(n) for found in MISMATCH.findall(str(error)) for n in found] if isinstance(error, RuntimeError) else []
    ours = {T, S, *(value for value in settings.values() if type(value) is int)}
    of_code = {n for function in _functions(thing) for n in _numbers(function)} - ours if {T, S} & {*two} else set()
    return next((n for n in two if n in of_code and LEAST <= n <= MOST), 0)


def with_length(thing: Any, written: int, length: int) -> tuple[Callable[[], None], str]:
    """Puts another length in the place of one that is written in. Returns what undoes it, and a sentence on it."""
    undo = _rewrite([*_functions(thing)], written, length)
    return undo, f"The length {written} is written in; it was checked with {length} in that place."


def longest(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """The lengths of probes, one of which is to be the longest in its turn; () where that is so already."""
    return () if _longest(settings) in (T, S) else (T, S)


def _longest(settings: Mapping[str, Any]) -> int:
    return int(settings.get("max_len", GENERAL["max_len"]))


def _functions(thing: Any) -> Iterator[types.FunctionType]:
    """The methods of a class, and of those of the learner's that it is made of; a function itself."""
    for one in dict.fromkeys([thing, *leads_to(thing)]) if hasattr(thing, "__module__") else ():
        members = vars(one).values() if isinstance(one, type) else [one]
        yield from (inspect.unwrap(member) for member in members if inspect.isfunction(member))


def _numbers(function: types.FunctionType) -> Iterator[int]:
    """That its code, and what is written inside of it, has written in; those of its defaults too."""
    yield from (value for value in function.__defaults__ or () if type(value) is int)
    waiting = [function.__code__]
    while waiting:
        for constant in waiting.pop().co_consts:
            if type(constant) is int:
                yield constant
            elif isinstance(constant, types.CodeType):
                waiting.append(constant)


def _multiples(error: BaseException, thing: Any, of_code: Iterable[int]) -> list[int]:
    """What widths must be a multiple of: by the error, by its line, or where zero is divided by, by the code."""
    frames = traceback.extract_tb(error.__traceback__)
    texts = [str(error)]
    if isinstance(error, (AssertionError, ValueError)):
        texts += [linecache.getline(frame.filename, frame.lineno or 0) for frame in frames[-1:]]
    if isinstance(error, ZeroDivisionError) or "multiple" in str(error):
        texts += map(source_of, (thing, *leads_to(thing)))
    found = [int(n) for text in texts for n in MULTIPLE.findall(text)]
    return [n for n in dict.fromkeys(found) if n in set(of_code) and n >= LEAST][:1]


def _rewrite(functions: Iterable[types.FunctionType], old: int, new: int) -> Callable[[], None]:
    """Puts one number in place of another in the code of functions, and in their defaults. Returns what undoes it.

    Products of it, too, that Python has computed in advance: 3 * 512 is 1536 in the code.
    """
    kept = [(function, function.__code__, function.__defaults__) for function in functions]
    for function, code, defaults in kept:
        text = source_of(function)
        products = [n for n in _numbers(function) if n > old and n % old == 0 and not re.search(rf"\b{n}\b", text)]
        for number in (*products, old):
            code = _with_number(code, number, number // old * new)
        function.__code__ = code
        if defaults:
            function.__defaults__ = tuple(new if type(v) is int and v == old else v for v in defaults)

    def undo() -> None:
        for function, code, defaults in kept:
            function.__code__, function.__defaults__ = code, defaults

    return undo


def _with_number(code: types.CodeType, old: int, new: int) -> types.CodeType:
    constants = (
        _with_number(one, old, new)
        if isinstance(one, types.CodeType)
        else new
        if type(one) is int and one == old
        else one
        for one in code.co_consts
    )
    return code.replace(co_consts=tuple(constants))
