"""Functions that build masks: what they are given (ids, other masks, sizes, tokens), and what their output says."""

from __future__ import annotations

import functools
import inspect
import linecache
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.kind import Inputs, Kind
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.functions import mask_makers, mask_outputs, of_heads, padded
from scratch_transformer.kit.resolve.names.inputs import causal_flags, input_of, is_mask
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

OF_IDS = re.compile(r"seq|(src|source|tgt|trg|target)(seq|ids|tokens|inputs?)?$|[qk]$|quer(y|ies)$|keys?$")
OF_TARGET = re.compile(r"tgt|trg|tar|dec|out|y")
OF_PLACES = re.compile(r"pad\w*(positions?|indices|indexes|places)$|^(positions|indices)(to|of)(mask|pad)")
WEAK = -5e4
"""What is added to blocked scores should be lower."""
FEATURES = 4


def readings(function: Callable[..., Any], kind: Kind, pad: int = 0) -> list[Callable[..., Any]]:
    """Readings of a function as one of the canonical inputs, besides the plain one; the likeliest first."""
    if not kind.name.endswith("Mask") or not inspect.isroutine(function):
        return []
    plain_one, function = function, of_heads.for_one(function)
    found = _readings(function, kind, pad) or ([function] if function is not plain_one else [])
    written = None if kind.name == "CausalMask" else mask_makers.written_id(function)
    if written is None or written == pad:
        return found
    return [_of_another_id(one, pad, written) for one in found or [function]]


def _of_another_id(mask: Callable[..., Any], pad: int, written: int) -> Callable[..., Any]:
    """What has the padding's id written in, given that in place of ours, and ours in place of that word."""

    def exchanged(ids: Tensor) -> Any:
        return mask(torch.where(ids == pad, written, torch.where(ids == written, pad, ids)))

    vars(exchanged).update(vars(mask))
    exchanged.note = f"It hides this id as padding, whatever it is told: {written}."  # type: ignore[attr-defined]
    return exchanged


def _readings(function: Callable[..., Any], kind: Kind, pad: int) -> list[Callable[..., Any]]:
    if mask_outputs.is_output(function):
        return mask_outputs.readings(function, kind, pad)
    required = [p.name for p in parameters_of(function) if p.default is p.empty]
    devices = {name: torch.device("cpu") for name in required if plain(name) == "device"}
    if devices:
        function, required = functools.partial(function, **devices), [n for n in required if n not in devices]
    if kind.name == "CausalMask":
        asked = dict.fromkeys(causal_flags(parameters_of(function), alone=True), True)
        found = _of_lengths(functools.partial(function, **asked) if asked else function, required)
        found = [_with_none_for_one(reading) for reading in found]
        for reading in found:
            vars(reading)["reads"] = function
        return found
    if kind.name == "PaddingMask" and padded.is_of_lengths(function):
        return [*padded.by_lengths(function, pad)]
    if kind.name in ("PaddingMask", "TargetMask") and required and is_mask(required[0]):
        dtypes = (torch.long, torch.bool, torch.float64)
        return [_of_ids(function, required, pad, dtype, wide) for wide in (False, True) for dtype in dtypes]
    places = [name for name in required if OF_PLACES.search(plain(name))]
    if kind.name == "PaddingMask" and len(required) == 2 and len(places) == 1:
        return [_of_places(function, next(name for name in required if name not in places), places[0], pad)]
    both = [name for name in required if input_of(name, ("ids",)) or OF_IDS.match(plain(name))]
    if kind.name == "TargetMask" and len(both) == 2 and len(required) <= 3:
        return [_beside_source(function, both, [name for name in required if name not in both], pad)]
    rest = [name for name in required if name not in both]
    if kind.name == "PaddingMask" and len(both) == 2 and (len(rest) <= 1 or all("pad" in plain(one) for one in rest)):
        return [_of_both(function, both, rest, pad)]
    lists = [*padded.by_lists(function, required, pad)] if kind.name == "PaddingMask" else []
    return [function, *lists] if lists else []


def of_made(made: Any, kind: Kind, pad: int = 0) -> list[Any]:
    """The same readings of what an instance is called with; itself, of what makes no mask."""
    call = getattr(made, "forward", made)
    return readings(call, kind, pad) or [made]


def _of_lengths(function: Callable[..., Any], required: list[str]) -> list[Callable[..., Any]]:
    """Tokens or ids in place of their number: make_causal_mask(x); both sizes: attention_mask(queries, keys).

    Or one size, and the number of sentences.
    """
    of_batch = [name for name in required if "batch" in name]
    if len(required) == 2 and len(of_batch) == 1:  # the same for every sentence: of one, that is seen
        return [lambda length: function(**{name: 1 if name in of_batch else length for name in required})]
    if len(required) == 2 and not of_batch:
        both: list[Callable[..., Any]] = [
            lambda length: function(**dict.fromkeys(required, length)),
            lambda length: function(**dict.fromkeys(required, torch.ones(1, length, dtype=torch.long))),
        ]
        return both if not all(name in ("q", "k", "query", "key") for name in required) else both[::-1]
    if len(required) != 1:
        return []
    name = required[0]
    by_ids = [
        lambda length: function(**{name: torch.ones(1, length, dtype=torch.long)}),
        lambda length: function(**{name: torch.ones(1, length, FEATURES)}),
    ]
    is_number = any(s in ("max_len", "num_heads") for s in settings_of(name)) or not input_of(name, ("ids",))
    by_number: Callable[..., Any] = lambda length: function(**{name: length})  # noqa: E731
    return [by_number, *by_ids] if is_number else [*by_ids, by_number]


def _with_none_for_one(mask: Callable[..., Any]) -> Callable[..., Any]:
    """What gives no mask to one token, from which there is nothing to hide, as what it says of the first of two."""

    def reading(length: int) -> Any:
        found = mask(length)
        of_two = mask(2) if found is None and length == 1 else None
        return of_two[..., :1, :1] if isinstance(of_two, Tensor) and of_two.dim() > 1 else found

    return reading


def _of_ids(
    function: Callable[..., Any], required: list[str], pad: int, dtype: torch.dtype, wide: bool
) -> Callable[..., Any]:
    """A mask of 1 and 0 in place of ids; wide: with a row for every query."""

    def mask(ids: Tensor) -> Any:
        keep = (ids != pad).to(dtype)
        others = {name: _beside_a_mask(name, ids) for name in required[1:]}
        return function(**{required[0]: keep[:, None].expand(*ids.shape, -1) if wide else keep}, **others)

    return mask


def _beside_a_mask(name: str, ids: Tensor) -> Any:
    """Of how many sentences it is to be, of which length, and for how many heads; else both of the first."""
    roles = {"device": "cpu", "batch": ids.shape[0], "size": ids.shape[1]}
    if settings_of(name)[:1] == ("num_heads",):
        return 1
    return torch.float64 if plain(name) == "dtype" else roles.get(mask_makers.role(name), ids.shape)


def _of_places(function: Callable[..., Any], length: str, places: str, pad: int) -> Callable[..., Any]:
    """The length of one sentence, and a list of the positions of its padding."""

    def mask(ids: Tensor) -> Any:
        rows = [function(**{length: ids.shape[1], places: (row == pad).nonzero().flatten().tolist()}) for row in ids]
        return torch.stack([torch.as_tensor(row).flatten() for row in rows])

    return mask


def _of_both(function: Callable[..., Any], both: list[str], rest: list[str], pad: int) -> Callable[..., Any]:
    """The ids of queries and of keys."""
    return lambda ids: function(**dict.fromkeys(both, ids), **dict.fromkeys(rest, pad))


def _beside_source(function: Callable[..., Any], both: list[str], rest: list[str], pad: int) -> Callable[..., Any]:
    """The ids of a source that is longer, without padding, beside the target's; of several masks the target's."""
    first, second = both if not OF_TARGET.match(plain(both[0])) or OF_TARGET.match(plain(both[1])) else both[::-1]

    def mask(ids: Tensor) -> Any:
        B, T = ids.shape
        source = torch.full((B, T + 2), pad + 1)
        output = function(**{first: source, second: ids}, **dict.fromkeys(rest, pad))
        found = list(output) if isinstance(output, (tuple, list)) else [output]
        return next((one for one in found if isinstance(one, Tensor) and one.shape[-2:] == (T, T)), output)

    return mask


# ---- Outputs ----


MASK = r"[\w.]*mask\w*(\[[^\]]*\])?"
KEPT = re.compile(rf"masked_fill_?\(\s*(~ ?{MASK}|{MASK} ?== ?(0|False)\b|{MASK}\.logical_not|1 ?- ?{MASK})", re.I)
BLOCKED = re.compile(rf"masked_fill_?\(\s*{MASK}(\.bool\(\))?(,| ?== ?(1|True)\b)|{MASK} ?\* ?-|\({MASK} ?\* ?-", re.I)


def blocked_value(function: Any) -> str:
    """Which value the file of a function blocks in masks, "True" or "False"; "" if it does both, or turns this one."""
    function = inspect.unwrap(getattr(function, "reads", function))
    lines = linecache.getlines(inspect.getsourcefile(function) or "") if inspect.isfunction(function) else []
    text = "\n".join(line.split("#")[0] for line in lines)
    name = re.escape(getattr(function, "__name__", ""))
    given = r"\((?:[^()]|\([^()]*\))*\)"
    if re.search(rf"(~|not |1 ?- ?)[\w.]*{name}\(|{name}{given}(\.[\w()]+)* ?(==|!=|\.eq|\.logical_not)", text):
        return ""
    found = {value for value, pattern in (("False", KEPT), ("True", BLOCKED)) if pattern.search(text)}
    return found.pop() if len(found) == 1 else ""


def form_of(output: Tensor) -> str:
    """ "boolean", "numbers" that are 0 or not, or "added": 0 and far below."""
    if output.dtype == torch.bool:
        return "boolean"
    return "added" if bool((output < 0).any()) else "numbers"


def as_mask(form: str) -> Callable[[Tensor, Inputs], Tensor]:
    """Turns outputs of this form into what the canonical functions return: True and False.

    Of what is added, 1 and 0, or ½ for a weak block.
    """

    def convert(output: Tensor, inputs: Inputs) -> Tensor:
        mask = output if form == "boolean" else output == 0 if form == "added" else output != 0
        if form == "added":
            is_weak = bool((output < 0).any()) and output.min() > WEAK
            return _collapsed(torch.where(mask, 1.0, 0.5 if is_weak else 0.0).double(), inputs)
        return _collapsed(mask, inputs)

    return convert


def _collapsed(mask: Tensor, inputs: Inputs) -> Tensor:
    """A mask of padding that was expanded to all queries, (B, S, S), with one row, (B, 1, S); or one column."""
    if "ids" not in inputs or mask.dim() < 3 or mask.shape[-1] != mask.shape[-2]:
        return mask
    if torch.equal(mask, mask[..., :1, :].expand_as(mask)):
        return mask[..., :1, :]
    return mask[..., :, :1] if torch.equal(mask, mask[..., :, :1].expand_as(mask)) else mask
