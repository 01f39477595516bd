"""What a forward is given beside its tensors: positions, tables of angles, lengths, where a cache stands."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.canonical.rotary import rotated
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.resolve.call.masks import POLARITIES, Form
from scratch_transformer.kit.resolve.names.inputs import KEEPING, is_segment
from scratch_transformer.kit.resolve.names.inputs import LENGTHS as OF_SENTENCES
from scratch_transformer.kit.resolve.names.words import plain

POSITIONS = re.compile(
    r"^(token|input|cache|seq|time|abs(olute)?|q|query|k|kv|key|src|source|tgt|trg|target|(en|de)c(oder)?)?_?(position(id|_id)?s?|pos(id|_id|ition)?s?|posn|poses)(idx|ids?)?$"
)
START = re.compile(
    r"^start$|start(pos|ing|position|idx)|^offset$|posoffset|positionoffset|(cur|current|past|cache|kv)(pos|len|length|position)$|^startat$|^t0$"
    r"|^pos(ition)?in(seq|sequence)$"
)
TABLE = re.compile(
    r"freq|cis$|^cos|cos$|^sin|sin$|cossin|sincos|rope|rotary|rotation|rotmat|positionembeddings?$|^posemb|angles?$|complex$|thetas$"
)
LENGTHS = ("seqlen", "seqlength", "sequencelength", "length", "ntokens")
MOST = 22
"""Combinations of values to try."""


class PerCall:
    """A value that depends on the inputs of a call."""

    def of(self, batch: int, length: int) -> Any:
        raise NotImplementedError

    def middle(self, begin: int, length: int) -> Any:
        """For some tokens of one sentence that do not come first."""
        return self.of(1, length)


@dataclass(frozen=True)
class Positions(PerCall):
    """0, 1, 2, … of shape (T,), (1, T) or (B, T); 1, 2, 3, … where 0 is the position of padding."""

    form: str
    first: int = 0

    def of(self, batch: int, length: int) -> Tensor:
        positions = torch.arange(self.first, self.first + length)
        rows = {"(T,)": None, "(1, T)": 1, "(B, T)": batch}[self.form]
        return positions if rows is None else positions.expand(rows, length)

    def middle(self, begin: int, length: int) -> Tensor:
        return self.of(1, length) + begin


@dataclass(frozen=True)
class Causal(PerCall):
    """The mask that hides the future, for what is causal and yet is given one."""

    form: Form

    def of(self, batch: int, length: int) -> Tensor:
        return self.form.give(torch.ones(1, 1, length, length).tril().bool(), batch, 1, length, length)

    def middle(self, begin: int, length: int) -> Tensor:
        keep = torch.ones(1, 1, begin + length, begin + length).tril().bool()[:, :, begin:]
        return self.form.give(keep, 1, 1, length, begin + length)


@dataclass(frozen=True)
class Open(PerCall):
    """A mask that hides nothing, for what hides all that it should by itself and yet must be given one."""

    form: Form

    def of(self, batch: int, length: int) -> Tensor:
        return self.form.give(torch.ones(batch, 1, 1, length).bool(), batch, 1, length, length)

    def middle(self, begin: int, length: int) -> Tensor:
        return self.form.give(torch.ones(1, 1, 1, begin + length).bool(), 1, 1, length, begin + length)


@dataclass(frozen=True)
class Kept(Open):
    """One that tokens are multiplied with, so that padding becomes zero: 1 for all."""


KEPT = [Kept(Form("1.0 = may attend", shape)) for shape in ("(B, S, 1)", "(B, S)")]


@dataclass(frozen=True)
class Counted:
    """Which targets a loss is to count, in their shape: all but padding, or those that it is not to."""

    pad: int
    polarity: str

    def among(self, target: Tensor) -> Tensor:
        return POLARITIES[self.polarity](target != self.pad)


def counted(name: str, pad: int) -> list[Counted]:
    """The usual forms of a loss's mask, the likeliest first."""
    polarities = ["True = may attend", "1.0 = may attend", "True = blocked", "1.0 = blocked"]
    is_of_padding = "pad" in plain(name) and not KEEPING.search(plain(name))
    return [Counted(pad, one) for one in (polarities[2:] + polarities[:2] if is_of_padding else polarities)]


@dataclass(frozen=True)
class Lengths(PerCall):
    """How many words every sentence has, for what hides nothing: all of them."""

    def of(self, batch: int, length: int) -> Tensor:
        return torch.full((batch,), length)


@dataclass(frozen=True)
class WithMask:
    """A flag that is True where any of these masks is given."""

    masks: tuple[str, ...]


@dataclass(frozen=True)
class Segments(PerCall):
    """All tokens are of the first segment: zeros of shape (B, T)."""

    def of(self, batch: int, length: int) -> Tensor:
        return torch.zeros(batch, length, dtype=torch.long)


@dataclass(frozen=True)
class NoneKept(PerCall):
    """A list of the keys and values of every layer, of which none are kept yet: [None, None]."""

    layers: int

    def of(self, batch: int, length: int) -> list[None]:
        return [None] * self.layers


@dataclass(frozen=True)
class Length(PerCall):
    """Of the sequence."""

    def of(self, batch: int, length: int) -> int:
        return length


@dataclass(frozen=True, eq=False)
class Table(PerCall):
    """A tensor, or several, with a row for every position; rows: how many there are. whole: also the later ones."""

    parts: tuple[Tensor, ...]
    rows: int
    whole: bool = False

    def of(self, batch: int, length: int) -> Any:
        return self.middle(0, length)

    def middle(self, begin: int, length: int) -> Any:
        is_whole = self.whole or self.parts[0].dim() == 1
        given = self.parts if is_whole else tuple(self._rows(part, begin, length) for part in self.parts)
        return given[0] if len(given) == 1 else given

    def _rows(self, part: Tensor, begin: int, length: int) -> Tensor:
        axis = next((axis for axis, size in enumerate(part.shape) if size == self.rows), 0)
        return part.narrow(axis, begin, min(length, part.shape[axis] - begin))


@dataclass(frozen=True, eq=False)
class Turning(PerCall):
    """What turns heads by the angles of their positions, as an object: rope(q, positions)."""

    module: nn.Module

    def of(self, batch: int, length: int) -> nn.Module:
        return self.module


class Turn(nn.Module):
    """The reference's: heads (B, h, T, d_k) or (B, T, h, d_k), or one (B, T, d_k); queries, keys, and positions if any.

    order: "interleaved" or "halves".
    """

    kind_name, why = "RotaryEmbedding", "It must be given a part: the reference's {} was."

    def __init__(self, base: float, order: str) -> None:
        super().__init__()
        self.base, self.recipe = base, RIGHT.with_({"rotary": order})

    def forward(self, *given: Any, **named: Any) -> Any:
        values = [value for value in (*given, *named.values()) if isinstance(value, Tensor)]
        heads = [value for value in values if value.is_floating_point() and value.dim() in (3, 4)]
        places = next((value for value in values if not value.is_floating_point()), None)
        turned = [self._turned(x, places) for x in heads]
        return turned[0] if len(turned) == 1 else tuple(turned)

    def _turned(self, x: Tensor, places: Tensor | None) -> Tensor:
        positions = torch.arange(x.shape[-2]) if places is None else places.reshape(-1, places.shape[-1])[0]
        if x.shape[-2] == len(positions):
            return rotated(x, positions, self.base, self.recipe)
        return rotated(x.transpose(1, 2), positions, self.base, self.recipe).transpose(1, 2)


def options(name: str, tables: Sequence[tuple[Tensor, ...] | nn.Module], rows: int) -> list[Any]:
    """Values for a parameter, the likeliest first; [] for one that is nothing of this."""
    word = plain(name)
    if word in LENGTHS:
        return [Length()]
    if OF_SENTENCES.search(word):
        return [Lengths()]
    if START.search(word):
        return [0]
    if is_segment(name):
        return [Segments()]
    if POSITIONS.match(word):
        return [*(Positions(form) for form in ("(T,)", "(1, T)", "(B, T)")), Positions("(B, T)", first=1)]
    if TABLE.search(word):
        return _tables(word, tables, rows)
    return []


def _tables(word: str, given: Sequence[tuple[Tensor, ...] | nn.Module], rows: int) -> list[Any]:
    """The cosines alone or the sines alone, by the name; else what turns by itself, or a whole table, as in `given`."""
    tables = [one for one in given if isinstance(one, tuple)]
    turning = [Turning(one) for one in given if isinstance(one, nn.Module)]
    index = 0 if re.search(r"cos$|^cos(?!sin)", word) else 1 if re.search(r"(?<!cos)sin$|^sin(?!cos)", word) else None
    index = None if word.endswith("sincos") else index
    chosen = tables if index is None else [parts[index : index + 1] for parts in tables if len(parts) == 2]
    chosen = sorted(chosen, key=lambda parts: (parts[0].dim() == 1) != word.startswith("inv"))
    whole_ones = [Table(parts, rows, whole) for whole in (False, True) for parts in chosen]
    if index is not None:
        return whole_ones
    return [*turning, *whole_ones] if isinstance(given[0], nn.Module) else [*whole_ones, *turning]


def usual(rows: int, d_k: int, base: float) -> list[tuple[Tensor, ...]]:
    """The forms that tables of angles have: complex, cosines and sines of every pair or every feature, angles.

    Cosines and sines for every sentence, too, and for heads that come after the length or before it; the frequencies
    alone, one a pair.
    """
    exponents = torch.arange(0, d_k, 2, dtype=torch.float64) / d_k
    angle = torch.outer(torch.arange(rows, dtype=torch.float64), base**-exponents)
    wide, repeated = torch.cat((angle, angle), -1), angle.repeat_interleave(2, -1)
    return [
        (torch.polar(torch.ones_like(angle), angle),),
        *((table.cos(), table.sin()) for table in (angle, wide, repeated)),
        (angle,),
        (wide,),
        (torch.cat((angle.cos(), angle.sin()), -1),),
        *((table[None].cos(), table[None].sin()) for table in (wide, repeated, angle)),
        *((table[None, :, None].cos(), table[None, :, None].sin()) for table in (angle, wide)),
        *((table[None, None].cos(), table[None, None].sin()) for table in (angle, wide)),
        (base**-exponents,),
        (torch.polar(torch.ones_like(angle), angle)[None],),
    ]


def combinations(found: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Choices of a value for every parameter, tables of one form together, and positions; the likeliest first."""
    groups = [[name for name in found if any(isinstance(v, sort) for v in found[name])] for sort in (Table, Positions)]
    together = [[*zip(*(found[name] for name in names), strict=False)] for names in groups if names]
    others = [name for name in found if not any(name in names for names in groups)]
    alone = [[(value,) for value in found[name]] for name in others]
    names = [*itertools.chain(*groups), *others]
    for choice in itertools.islice(itertools.product(*together, *alone), MOST):
        yield dict(zip(names, itertools.chain(*choice), strict=True))


def given(constants: Mapping[str, Any], size_of: Callable[[str], tuple[int, int]]) -> dict[str, Any]:
    """The constants of a plan for a call. size_of: of how many sentences it is, and their length for a parameter."""
    return {name: v.of(*size_of(name)) if isinstance(v, PerCall) else v for name, v in constants.items()}
