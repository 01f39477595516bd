"""Calls of what keeps keys and values between calls: one piece of a sequence after the other."""

from __future__ import annotations

import copy
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import source_of
from scratch_transformer.kit.kind import STEPS, Steps
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.call import beside, holders, switches
from scratch_transformer.kit.resolve.call.plan import CannotCall, Plan
from scratch_transformer.kit.resolve.call.switches import KEPT
from scratch_transformer.kit.resolve.names.words import plain

NEEDED = re.compile(r"^past|cache")
"""What must be given; key_values that must be are an encoder's, or of any tokens that are attended to."""
PASSED = re.compile(rf"{NEEDED.pattern}|layerpast|keyvalues$")
RETURNED = re.compile(rf"{PASSED.pattern}|^present|^kvs?$")
"""A key of a dictionary that is returned."""
KEYS, VALUES = re.compile(r"keys?|k"), re.compile(r"values?|v")
"""In the names of two parameters of which each takes one: what is left is alike."""
LAYER = re.compile(r"(layer|block)(id|idx|index|num|number)?|i")
"""Which of the layers one is whose keys and values a cache of all has."""
OF_TORCH = frozenset(vars(nn.Module()))
"""What every module holds."""
TOKENWISE = "one token at a time"
"""The order of dimensions of what refuses more than one token."""
OF_TOKENS = ("CausalSelfAttention", "CausalRotaryAttention", "DecoderOnlyLayer", "LlamaBlock", "DecoderOnly",
             "LlamaModel")  # fmt: skip
"""Kinds whose tokens may come one by one, as none sees a later one."""


def pieces(
    made: nn.Module,
    plan: Plan,
    inputs: Mapping[str, Any],
    chunks: tuple[int, ...],
    tensor: Callable[[Any], Tensor],
    steps: Steps = STEPS[0],
    settings: Mapping[str, Any] | None = None,
) -> Tensor | None:
    """The outputs of all pieces, joined; None if nothing says that it keeps keys and values.

    tensor: what of a returned value is the output. settings: with which it was made. Whatever the learner's code raises
    is passed on.
    """
    found = parameters_of(made.forward)
    taken = passed(found)
    if not taken:
        return _in_pieces(made, plan, inputs, chunks, tensor, steps)
    error: Exception | None = None
    for make in (*(holders.makers(made, taken[0], settings or {}) if len(taken) == 1 else ()), None):
        try:
            holder = None if make is None else make()
            empty = holders.state(holder)
            output = _in_pieces(made, plan, inputs, chunks, tensor, steps, [p.name for p in taken], holder)
        except Exception as raised:  # it is given something else
            error = raised
            continue
        if output is not None and (holder is None or holders.state(holder) != empty):  # it has used it
            return output
    if error is not None:
        raise error
    return None


def is_kept_in(parameter: inspect.Parameter) -> bool:
    """Whether a forward must be told what is kept: forward(ids, kv_caches)."""
    return NEEDED.search(plain(parameter.name)) is not None and parameter.default is parameter.empty


def _may_be_kept_in(parameter: inspect.Parameter) -> bool:
    is_left_out = parameter.default is None and PASSED.search(plain(parameter.name)) is not None
    return is_left_out or is_kept_in(parameter)


def passed(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameter for what is kept; two, where keys and values have one each: k_cache and v_cache."""
    found = [p for p in parameters if _may_be_kept_in(p)]
    for keys, values in itertools.permutations(found, 2):
        if KEYS.sub("", plain(keys.name)) == VALUES.sub("", plain(values.name)):
            return [p for p in found if p in (keys, values)]
    return found[:1]


def _in_pieces(
    made: nn.Module, plan: Plan, inputs: Mapping[str, Any], chunks: tuple[int, ...], tensor: Callable[[Any], Tensor],
    steps: Steps, passed: Sequence[str] = (), holder: Any = None,
) -> Tensor | None:  # fmt: skip
    """passed: the parameters for what is kept. holder: an object that is given there; None: what it returns is."""
    found = parameters_of(made.forward)
    switch, is_by_use = switches.of_forward(made, found), switches.are_used(made)
    start = starts_of(made.forward, may_have_a_default=steps.tells_start)
    layer = [p.name for p in found if holder is not None and LAYER.fullmatch(plain(p.name)) and p.default is None]
    positions = [p.name for p in found if beside.POSITIONS.match(plain(p.name)) and p.default is None]
    if not passed and not (keeps(made) and (switch or start)) and not is_by_use:
        return None
    own = {id(values): values for values in made.parameters()}  # whose gradients are asked for
    made, outputs, kept, begin = copy.deepcopy(made, own), [], holder, 0
    is_told, before_all = switches.turn_on(made) or bool(switch), _held(made)
    for length in chunks:
        given = dict(_piece(plan, inputs, begin, length)) | switch
        given |= dict.fromkeys(start, begin) | dict.fromkeys(layer, 0)
        places = torch.arange(begin, begin + length)
        given |= {name: places[None] if _have_rows(made.forward, name) else places for name in positions}
        if passed and (begin or holder is not None or not isinstance(plan.constants.get(passed[0]), beside.NoneKept)):
            given |= dict(zip(passed, [kept] if len(passed) == 1 else kept or [None] * len(passed), strict=True))
        before = holders.counted(holder)
        returned = made(**given)
        outputs.append(plan.output(tensor(returned)))
        if holder is not None and steps.counts:
            holders.advance(holder, before, length)
        elif passed and holder is None:
            new = _kept(returned, len(passed))
            if new is None:
                return None
            kept = joined(kept, new) if steps.joins and begin else new
        begin += length
    if not passed and (is_by_use or not is_told) and _held(made) == before_all:
        return None  # nothing was kept: it has a cache for another time
    return torch.cat(outputs, 1)


def _have_rows(call: Callable[..., Any], name: str) -> bool:
    """Whether positions that nobody tells get an axis for the sentences: torch.arange(length).unsqueeze(0)."""
    return re.search(rf"\b{name} *= *torch\.arange\(.*(unsqueeze\(0\)|\[None\b|expand\()", source_of(call)) is not None


def _held(made: nn.Module) -> list[Any]:
    """All that its parts hold besides parameters, to be compared."""
    return [
        holders.state({**{n: v for n, v in vars(part).items() if n not in OF_TORCH}, **part._buffers})
        for part in made.modules()
    ]


def tokenwise(made: nn.Module, plan: Plan, inputs: Mapping[str, Any], tensor: Callable[[Any], Tensor]) -> Tensor:
    """The outputs of all tokens, each given alone.

    Raises CannotCall if nothing says that keys and values are kept.
    """
    length = next(iter(inputs.values())).shape[1]
    found = pieces(made, plan, inputs, (1,) * length, tensor)
    if found is None:
        raise CannotCall("it keeps no keys and values")
    return found


def with_none_kept(plan: Plan, call: Callable[..., Any], layers: int) -> Plan | None:
    """The plan of what wants a list with a place for every layer, in place of None; None if it takes no such list."""
    found = [p.name for p in parameters_of(call) if _may_be_kept_in(p)]
    lists = {name: beside.NoneKept(layers) for name in found if plan.constants.get(name) is None}
    lists = {name: given for name, given in lists.items() if name not in plan.arguments}
    return replace(plan, constants={**plan.constants, **lists}) if lists else None


def starts_of(call: Callable[..., Any], may_have_a_default: bool = True) -> list[str]:
    """The parameters that say where in the sequence the tokens are, or how many are kept: that is the same number."""
    found = [p for p in parameters_of(call) if beside.START.search(plain(p.name))]
    return [p.name for p in found if may_have_a_default or p.default is p.empty]


def joined(before: Any, new: Any) -> Any:
    """What was kept with what was returned behind it, of what returns the new tokens' keys and values alone."""
    if isinstance(new, (tuple, list)):
        return (list if isinstance(new, list) else tuple)(joined(*pair) for pair in zip(before, new, strict=True))
    longer = [dim for dim, (old, now) in enumerate(zip(before.shape, new.shape, strict=True)) if old > now]
    return torch.cat((before, new), longer[0]) if longer else new


def keeps(made: nn.Module) -> bool:
    """Whether a module, or a part of it, has something that is called a cache."""
    return any(KEPT.search(plain(name)) for part in made.modules() for name in (*vars(part), *part._buffers))


def _piece(plan: Plan, inputs: Mapping[str, Any], begin: int, length: int) -> Iterator[tuple[str, Any]]:
    """The learner's arguments for some tokens in the middle."""
    for name, value in plan.constants.items():
        yield name, value.middle(begin, length) if isinstance(value, beside.PerCall) else value
    for parameter, name in plan.arguments.items():
        yield parameter, inputs[name][:, begin : begin + length]
    for parameter, _, required in plan.mask_parameters:
        if required and parameter not in plan.constants:  # which may be what hides the future
            yield parameter, None


def _kept(returned: Any, count: int = 1) -> Any:
    """What is to be passed on: the last of what was returned that is neither a number nor the output.

    Keys and values that are returned one beside the other are passed on as two. count: of keys and values apart, the
    last two.
    """
    if isinstance(returned, (tuple, list)) and len(returned) > 1:
        kept = [one for one in returned[1:] if one is not None and not isinstance(one, (int, float))]
        held = [one for one in kept if not isinstance(one, Tensor)]
        if count > 1 and not held:
            return tuple(kept[-count:]) if len(kept) >= count else None
        if not held and len(kept) == 2 and kept[0].dim() > 2 and kept[0].shape == kept[1].shape:
            return tuple(kept)
        return next(iter([*reversed(held), *reversed(kept)]), None)
    return _named(returned if isinstance(returned, Mapping) else getattr(returned, "__dict__", {}))


def _named(fields: Mapping[Any, Any]) -> Any:
    """What is kept, by its name in a dictionary or object that was returned: kv_caches, or k and v."""
    said = {plain(str(name)): value for name, value in fields.items()}
    whole = next((value for name, value in said.items() if RETURNED.search(name)), None)
    halves = [next((v for n, v in said.items() if half.fullmatch(n)), None) for half in (KEYS, VALUES)]
    return tuple(halves) if whole is None and all(one is not None for one in halves) else whole
