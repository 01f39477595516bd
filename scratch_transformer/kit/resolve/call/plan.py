"""A way to call a learner's forward with canonical inputs: which argument is which, in which order of dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.resolve.build.tokenizer import Tokenizer
from scratch_transformer.kit.resolve.call import batching, beside
from scratch_transformer.kit.resolve.call.masks import Form, Inexpressible, split
from scratch_transformer.kit.resolve.names.inputs import CROSS_MASK
from scratch_transformer.kit.resolve.names.settings import SOURCE
from scratch_transformer.kit.resolve.names.words import plain, words

MASKS = ("mask", "memory_mask", "src_mask", "tgt_mask")
SENTENCES, ROWS, LENGTH = "sentences", "positions of every sentence", "length"
SHIFTED = "sentences that are shifted"
FROM_ONE = "positions from 1"
LENGTH_FIRST = "the length first, then sentences and heads"
OF_HEADS = "sentences of one head"
"""Orders of dimensions: of a loss that takes (B, T, V) alone, not (N, V), or that leaves out the last logits and the
first targets itself; of a rotation with positions (B, T), and of one that takes (T, B, h, d_k); of positions that are
added to heads, (B, 1, T, E)."""


class CannotCall(Exception):
    """No way is known to call this with the inputs of its kind; the message says why."""


class EndsTheProgram(RuntimeError):
    """What a learner's code calls exit() for, or leaves in it."""


@dataclass(frozen=True)
class Plan:
    """How to call. arguments: parameter -> canonical input, or a constant in `constants`.

    masks: mask parameter -> (canonical mask, its form). order: "batch first", "sequence first"; "ids": positions are
    asked for with token ids, or with their numbers, which FROM_ONE counts from 1; "positions": with the numbers of one
    sentence, "length": with how many those are; "batch last" of a mask; those above, and of batching.py.
    """

    arguments: Mapping[str, str]
    constants: Mapping[str, Any] = field(default_factory=dict)
    masks: Mapping[str, tuple[str, Form]] = field(default_factory=dict)
    order: str = "batch first"
    mask_parameters: tuple[tuple[str, str, bool], ...] = ()
    """(parameter, canonical mask, required), as far as the names say."""
    heads: int = 1
    more: str = ""
    """The canonical ids that are given with one more at the end: it leaves out the last itself."""
    exchanged: tuple[str, ...] = ()
    """Masks' parameters that are given the source's though their names say the target's, or the other way round."""
    sees_padding: bool = False
    """It finds the target's padding in the ids: a mask that cannot say it need not."""
    whole: bool = True
    """The canonical inputs are all used: none of query, key, value stands for another."""

    def with_masks(self, masks: Mapping[str, tuple[str, Form]]) -> Plan:
        return replace(self, masks=dict(masks))

    @property
    def may_leave_masks(self) -> bool:
        """Whether a mask is no required argument."""
        return any(name and not required for _, name, required in self.mask_parameters)

    def with_all_masks(self) -> Plan:
        """The plan of what has to be given all its masks."""
        return replace(self, mask_parameters=tuple((p, name, True) for p, name, _ in self.mask_parameters))

    @property
    def is_causal(self) -> bool:
        """Whether it is given a mask that hides the future."""
        return any(isinstance(value, beside.Causal) for value in self.constants.values())

    @property
    def untold_turns(self) -> tuple[str, ...]:
        """The parameters that take angles, or what turns by them, and are given None."""
        return tuple(n for n, value in self.constants.items() if value is None and beside.TABLE.search(plain(n)))

    def accepts(self, inputs: Mapping[str, Any]) -> bool:
        """Can these inputs be given this way?"""
        try:
            self.give(inputs)
        except (Inexpressible, CannotCall):
            return False
        return True

    @property
    def gives_targets(self) -> bool:
        """Whether a language model is given the ids as what it is to predict, too."""
        return list(self.arguments.values()).count("ids") > 1

    def without_targets(self) -> Plan:
        first = next(parameter for parameter, name in self.arguments.items() if name == "ids")
        kept = {p: name for p, name in self.arguments.items() if name != "ids" or p == first}
        return replace(self, arguments=kept)

    def give(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Canonical inputs -> the learner's keyword arguments.

        Raises Inexpressible for a mask that cannot be given, CannotCall for inputs that should be one but differ.
        """
        given: dict[str, Any] = beside.given(self.constants, lambda name: self._size(name, inputs))
        for parameter, name in self.arguments.items():
            value = _value(inputs, name)
            given[parameter] = self._turned(with_one_more(value) if name == self.more else value)
            if self.order == ROWS and name == "positions":
                given[parameter] = value.expand(sizes(inputs, "mask")[0], -1)
        _check_equal(inputs, set(self.arguments.values()))
        given |= self._masks(inputs)
        for parameter, value in self.constants.items():
            if isinstance(value, beside.Counted):
                given[parameter] = value.among(self._turned(inputs["target"]))
            elif isinstance(value, beside.WithMask):
                given[parameter] = any(given.get(name) is not None for name in value.masks)
        return given

    def _size(self, parameter: str, inputs: Mapping[str, Any]) -> tuple[int, int]:
        """B, and the length that a parameter counts: positions by their side, one more if the last word is left out."""
        counts = isinstance(self.constants[parameter], beside.Positions)
        of_source = counts and "src" in inputs and bool(set(words(parameter)) & SOURCE)
        batch, length, _ = sizes(inputs, "src_mask" if of_source else "mask")
        return batch, length + (counts and not of_source and bool(self.more))

    def _turned(self, value: Any) -> Any:
        if self.order == "positions" and isinstance(value, Tensor):
            return torch.arange(value.shape[1])
        if self.order == LENGTH and isinstance(value, Tensor):
            return value.shape[1]
        if self.order in ("ids", FROM_ONE) and isinstance(value, Tensor):
            return torch.arange(value.shape[1]).expand(value.shape[:2]) + (self.order == FROM_ONE)
        if self.order in (SENTENCES, SHIFTED):
            value = value.unflatten(0, (2, -1)) if isinstance(value, Tensor) and len(value) % 2 == 0 else value
            return _with_what_is_left_out(value) if self.order == SHIFTED and isinstance(value, Tensor) else value
        if self.order == "heads after the length":
            return value.transpose(1, 2) if isinstance(value, Tensor) and value.dim() == 4 else value
        if self.order == LENGTH_FIRST:
            return value.permute(2, 0, 1, 3) if isinstance(value, Tensor) and value.dim() == 4 else value
        if self.order == OF_HEADS:
            return value.unsqueeze(1) if isinstance(value, Tensor) and value.dim() == 3 else value
        if self.order in batching.AXES:
            return batching.without_axes(value, self.order) if isinstance(value, Tensor) else value
        turn = self.order == "sequence first" and isinstance(value, Tensor) and value.dim() >= 2
        return value.transpose(0, 1) if turn else value

    def output(self, value: Tensor) -> Tensor:
        if self.order == "batch last" and value.dim() == 3:
            return value.permute(2, 0, 1)
        if self.order == LENGTH_FIRST and value.dim() == 4:
            return value.permute(1, 2, 0, 3)
        if self.order == OF_HEADS:
            return value.squeeze(1) if value.dim() == 4 else value
        if self.order in batching.AXES:
            return batching.with_axes(value, self.order)
        if self.order in (SENTENCES, SHIFTED):
            return value.reshape(-1) if value.dim() > 1 else value
        return value if self.order in ("ids", "positions", FROM_ONE, LENGTH, ROWS) else self._turned(value)

    def _masks(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name in [name for name in MASKS if name in inputs]:
            keep = inputs[name]
            takers = {p: form for p, (canonical, form) in self.masks.items() if canonical == name}
            if keep is None:
                given |= self._absent(name, takers, inputs)
                continue
            if not takers and ("src" in inputs or ("ids" in inputs and (name != "memory_mask" or bool(keep.all())))):
                continue  # it sees the padding itself, but not the source's in the target's ids
            is_own = name == "mask" and "memory" in inputs and not any(n == name for _, n, _ in self.mask_parameters)
            if is_own and _is_causal(keep):
                continue  # a decoder that takes no mask is causal by itself, or wrong
            if not takers:
                raise Inexpressible(f"it takes no {name}")
            cross = {p: form for p, form in takers.items() if name == "src_mask" and CROSS_MASK.search(plain(p))}
            own = {p: form for p, form in takers.items() if p not in cross} or takers
            if cross and own is not takers:  # the encoder's, and the decoder's
                given |= self._shared(keep, cross, _crossing(inputs))
            size = sizes(inputs, name)
            try:
                given |= self._shared(keep, own, size)
            except Inexpressible:
                if not self.sees_padding or name == "memory_mask" or not {"ids", "tgt"} & inputs.keys():
                    raise
                _, rest = split(keep)
                given |= self._shared(rest, own, size)
        return given

    def apart(self, inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The ways to give a mask's padding to one parameter, and the rest of it to another."""
        takers = {p: form for p, (canonical, form) in self.masks.items() if canonical == "mask"}
        size = sizes(inputs, "mask")
        for first, second in itertools.permutations(takers, 2):
            try:
                padding, rest = split(inputs["mask"])
                masks = {
                    p: takers[p].give(m, size[0], self.heads, *size[1:]) for p, m in ((first, padding), (second, rest))
                }
            except Inexpressible:
                continue
            yield self.give({**inputs, "mask": None}) | masks

    def _absent(self, name: str, takers: Mapping[str, Form], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """None where that is possible; else a mask that blocks nothing."""
        required = {p for p, canonical, needed in self.mask_parameters if needed and canonical == name}
        given: dict[str, Any] = dict.fromkeys(required)
        for parameter, form in takers.items():
            crosses = name == "src_mask" and len(takers) > 1 and CROSS_MASK.search(plain(parameter))
            B, T, S = _crossing(inputs) if crosses else sizes(inputs, name)
            if parameter in required:
                given[parameter] = form.give(torch.ones(B, 1, 1, S, dtype=torch.bool), B, self.heads, T, S)
        return given

    def _shared(self, keep: Tensor, takers: Mapping[str, Form], size: tuple[int, int, int]) -> dict[str, Any]:
        """One canonical mask to one parameter that can take it, or to two: its padding, and the rest."""
        B, T, S = size
        required = {p for p, _, needed in self.mask_parameters if needed}
        required |= {p for p, form in takers.items() if form.is_of_queries}
        of_keys = {p: form for p, form in takers.items() if not form.is_of_queries}
        for parameter, form in of_keys.items():
            try:
                whole = {parameter: form.give(keep, B, self.heads, T, S)}
            except Inexpressible:
                continue
            others = {p: f.give(keep.new_ones(B, 1, 1, S), B, self.heads, T, S) for p, f in takers.items()
                      if p in required and p != parameter}  # fmt: skip
            return others | whole
        parts = tuple(split(keep)) if keep.dim() == 4 and T == S else ()
        for order in itertools.permutations(of_keys):
            if len(order) == len(parts) == 2:
                try:
                    return {p: takers[p].give(m, B, self.heads, T, S) for p, m in zip(order, parts, strict=True)}
                except Inexpressible:
                    continue
        raise Inexpressible("no parameter takes this mask")


def with_one_more(ids: Tensor) -> Tensor:
    """Ids with a word at the end, which is none of padding."""
    return torch.cat((ids, ids.max().expand(len(ids), 1)), 1)


def _with_what_is_left_out(value: Tensor) -> Tensor:
    """Logits (B, T, V) with a row behind the last; targets (B, T) with one before the first."""
    edge = value[:, :1]
    return torch.cat([value, edge] if value.dim() == 3 else [edge, value], 1)


def _is_causal(keep: Tensor) -> bool:
    """Whether a mask hides later tokens and nothing else."""
    return keep.shape[-1] == keep.shape[-2] and torch.equal(keep, torch.ones_like(keep).tril())


def _value(inputs: Mapping[str, Any], name: str) -> Any:
    if name == "tokenizer":
        return Tokenizer(int(inputs["bos"]), int(inputs.get("eos", -1)))
    if name == "prompt":
        return inputs["bos"]
    return inputs["sublayer"](inputs["x"]) if name == "sublayer's output" else inputs[name]


def _check_equal(inputs: Mapping[str, Any], used: set[str]) -> None:
    """Attention that takes one sequence for keys and values can only be given inputs in which both are the same."""
    stands_for = {"key": ("query",), "value": ("key", "query")}
    for name, others in stands_for.items():
        if name in inputs and name not in used:
            other = next(o for o in others if o in used)
            if inputs[name] is not inputs[other]:
                raise CannotCall(f"it takes no {name} of its own")


def sizes(inputs: Mapping[str, Any], mask: str) -> tuple[int, int, int]:
    """B, T, S of the attention that a mask belongs to."""
    first = next((v for n, v in inputs.items() if isinstance(v, Tensor) and n not in MASKS), None)
    if not isinstance(first, Tensor):
        return 1, 1, 1
    own = inputs.get("query", inputs.get("x", inputs.get("ids", inputs.get("tgt", first))))
    other = inputs.get("key", inputs.get("memory", inputs.get("src", own)))
    if mask == "src_mask":
        queries, keys = other, other
    elif mask == "tgt_mask" or (mask == "mask" and "memory_mask" in inputs):
        queries, keys = own, own
    else:
        queries, keys = own, other
    return own.shape[0], _length(queries), _length(keys)


def _crossing(inputs: Mapping[str, Any]) -> tuple[int, int, int]:
    """B, T, S of the attention of a model's decoder to its encoder."""
    B, S, _ = sizes(inputs, "src_mask")
    return B, sizes(inputs, "tgt_mask")[1], S


def _length(x: Tensor) -> int:
    """Of (B, L) ids, (B, L, E) tokens, (B, h, L, d_k) heads."""
    return x.shape[-2] if x.dim() > 2 else x.shape[-1]
