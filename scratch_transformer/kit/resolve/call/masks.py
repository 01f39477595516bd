"""The forms in which learners take masks: which value blocks, of which type, of which shape. Found by trial."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from scratch_transformer.kit.resolve.names.inputs import KEY_PADDING, LENGTHS, SOURCE_MASK, is_mask
from scratch_transformer.kit.resolve.names.words import plain

AS_IT_IS = "True = may attend"
POLARITIES = {
    AS_IT_IS: lambda keep: keep,
    "1 = may attend": lambda keep: keep.long(),
    "1.0 = may attend": lambda keep: keep.double(),
    "True = blocked": lambda keep: ~keep,
    "1 = blocked": lambda keep: (~keep).long(),
    "1.0 = blocked": lambda keep: (~keep).double(),
    "0 or -inf, added": lambda keep: torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, float("-inf")),
    "0 or -1e9, added": lambda keep: torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -1e9),
}
SHAPES = (
    "(B, 1, T, S)", "(B, T, S)", "(T, S)", "(B, 1, 1, S)", "(B, 1, S)", "(B, S)", "(1, T, S)", "(1, 1, T, S)",
    "(B, h, T, S)", "(B*h, T, S)", "(T, S, B)", "(1, S, B)", "(B, S), causal inside",
    "lengths", "lengths, causal inside",
)  # fmt: skip


SQUARE = "(B, S), of queries and keys alike"
"""A shape: what makes rows of it as well as columns, and so takes as many queries as keys."""
OF_QUERIES = {"(B, S)": "(B, T)", "(B, 1, S)": "(B, T, 1)", "(B, 1, 1, S)": "(B, 1, T, 1)"}
"""Shapes of a mask of keys, and those of a mask of queries beside it."""


class Inexpressible(Exception):
    """This mask cannot be given in this form: a causal mask has no shape (B, S)."""


NARROWER = {"(B, 1, T, S)": "(B, 1, 1, S)", "(B, T, S)": "(B, 1, S)"}


@dataclass(frozen=True)
class Form:
    """polarity: a key of POLARITIES. shape: one of SHAPES."""

    polarity: str
    shape: str

    def __str__(self) -> str:
        return self.shape if self.shape.startswith("lengths") else f"{self.shape}, {self.polarity}"

    @property
    def narrowed(self) -> Form:
        """With one row for all queries in place of one for each."""
        return Form(self.polarity, NARROWER.get(self.shape, self.shape))

    @property
    def turned(self) -> Form | None:
        """With the other value for what is blocked; None of what is added."""
        value, _, meaning = self.polarity.partition(" = ")
        other = {"may attend": "blocked", "blocked": "may attend"}.get(meaning)
        return None if other is None else Form(f"{value} = {other}", self.shape)

    @property
    def of_numbers(self) -> Form:
        """The same, of 0 and 1 in place of False and True."""
        return Form(self.polarity.replace("True =", "1 ="), self.shape)

    @property
    def of_queries(self) -> Form | None:
        """The same of what asks, beside a mask of the keys; None where there is none."""
        return Form(self.polarity, OF_QUERIES[self.shape]) if self.shape in OF_QUERIES else None

    @property
    def is_of_queries(self) -> bool:
        """Whether it says which queries are padding: none, as what they get is nobody's."""
        return self.shape in OF_QUERIES.values()

    @property
    def is_of_causal(self) -> bool:
        """Whether it can only hide tokens from each other: no sentence has one of its own."""
        return self.shape in ("(T, S)", "(1, T, S)", "(1, 1, T, S)")

    def give(self, keep: Tensor, B: int, h: int, T: int, S: int) -> Tensor:
        """A canonical mask, True = may attend, that broadcasts to (B, h, T, S), in this form.

        Raises Inexpressible.
        """
        if keep.device.type != "cpu" or keep.numel() > MOST_KEPT:
            return self._made(keep, B, h, T, S)
        key = self, keep.numpy().tobytes(), keep.shape, B, h, T, S
        kept = KEPT.get(key)
        if isinstance(kept, str):
            raise Inexpressible(kept)
        if kept is not None:
            return kept.clone()
        if len(KEPT) >= MOST_MASKS:
            KEPT.clear()
        try:
            made = self._made(keep, B, h, T, S)
        except Inexpressible as error:
            KEPT[key] = str(error)
            raise
        if self.polarity != AS_IT_IS:  # which may be the mask itself: whoever changes it changes that
            KEPT[key] = made.clone()
        return made

    def _made(self, keep: Tensor, B: int, h: int, T: int, S: int) -> Tensor:
        if self.shape.startswith("lengths"):
            return _lengths(_shaped(keep, self.shape.replace("lengths", "(B, S)"), B, h, T, S))
        return {**POLARITIES, **OF_IDS}[self.polarity](_shaped(keep, self.shape, B, h, T, S)).contiguous()


KEPT: dict[tuple[Form | bytes | torch.Size | int, ...], Tensor | str] = {}
MOST_MASKS, MOST_KEPT = 20_000, 1000
"""The masks of a few probes are asked for in all forms, again and again: they are kept, or why there is none."""


OF_IDS = {
    "ids with 0 for padding": lambda keep: torch.where(keep, _words(keep), 0),
    "ids with 1 for padding": lambda keep: torch.where(keep, _words(keep), 1),
}
"""In place of a mask."""
IDS = Form("ids with 0 for padding", "(B, S)")


def _words(keep: Tensor) -> Tensor:
    """Ids of words, of which none is that of padding."""
    return 2 + torch.arange(keep.shape[-1]).expand(keep.shape) % 2


def _shaped(keep: Tensor, shape: str, B: int, h: int, T: int, S: int) -> Tensor:
    full = keep.expand(B, keep.shape[1], T, S)
    by_head = full.expand(B, h, T, S)
    if shape == "(B, h, T, S)":
        return by_head
    if shape == "(B*h, T, S)":
        return by_head.reshape(B * h, T, S)
    one = full[:, 0]  # (B, T, S)
    if shape in OF_QUERIES.values():
        words = torch.ones_like(one[..., 0])  # (B, T)
        return {"(B, T)": words, "(B, T, 1)": words[..., None], "(B, 1, T, 1)": words[:, None, :, None]}[shape]
    if shape == SQUARE:
        if T != S:
            raise Inexpressible(shape)
        shape = "(B, S)"
    if shape == "(B, S), causal inside":
        return _padding_of_causal(one)
    if shape in ("(B, 1, T, S)", "(B, T, S)"):
        return one[:, None] if shape == "(B, 1, T, S)" else one
    if shape == "(T, S, B)":
        return one.permute(1, 2, 0)
    if shape in ("(T, S)", "(1, T, S)", "(1, 1, T, S)"):
        if not bool((one == one[:1]).all()):
            raise Inexpressible(shape)
        return {"(T, S)": one[0], "(1, T, S)": one[:1], "(1, 1, T, S)": one[None, :1]}[shape]
    if not bool((one == one[:, :1]).all()):
        raise Inexpressible(shape)
    keys = one[:, 0]  # (B, S)
    narrow = {"(B, S)": keys, "(B, 1, S)": keys[:, None], "(B, 1, 1, S)": keys[:, None, None]}
    return {**narrow, "(1, S, B)": keys.T[None], "(B, S, 1)": keys[..., None]}[shape]


def _padding_of_causal(one: Tensor) -> Tensor:
    """What is left of a causal mask with padding (B, T, T) for a decoder that is causal without being told."""
    keys = one.any(-2)  # (B, T)
    if one.shape[-2] != one.shape[-1] or not torch.equal(one, (keys[:, None] & torch.ones_like(one).tril())):
        raise Inexpressible("(B, S), causal inside")
    return keys


def _lengths(keys: Tensor) -> Tensor:
    lengths = keys.sum(-1)
    if not bool((keys == (torch.arange(keys.shape[1]) < lengths[:, None])).all()):
        raise Inexpressible("lengths")
    return lengths


def forms(name: str, batch_first: bool) -> list[Form]:
    """All forms for a parameter of this name, the likeliest first."""
    word = plain(name)
    if not is_mask(name):
        return [Form(polarity, "(B, S)") for polarity in OF_IDS]
    if "valid" in word or LENGTHS.search(word):
        return [Form("True = may attend", shape) for shape in SHAPES[-2:]]
    shapes = list(SHAPES[:-2])
    if SOURCE_MASK.search(word) or KEY_PADDING.search(word):
        shapes = ["(B, 1, 1, S)", "(B, 1, S)", "(B, S)", *shapes]
    if KEY_PADDING.search(word):
        shapes = ["(B, S)", "(B, 1, 1, S)", "(B, 1, S)", *shapes]
    if "attnmask" in word or "causal" in word or "look" in word or "subseq" in word:
        shapes = ["(B, 1, T, S)", "(B, T, S)", "(T, S)", *shapes]
    if not batch_first:
        shapes = ["(T, S, B)", "(1, S, B)", *shapes]
    polarities = list(POLARITIES)
    if "keypadding" in word or "bias" in word:
        polarities = [*polarities[3:], *polarities[:3]]
    # All shapes of one polarity before the next: a wrong shape crashes, a wrong polarity only looks wrong.
    return [Form(polarity, shape) for polarity, shape in itertools.product(polarities, dict.fromkeys(shapes))]


def split(keep: Tensor) -> Iterator[Tensor]:
    """A mask (B, 1, T, T) as its padding part (B, 1, 1, T) and the rest (1, 1, T, T).

    Raises Inexpressible if it is not both joined by `and`.
    """
    padding = keep.any(-2, keepdim=True)
    rest = keep.any(0, keepdim=True)
    if not bool(((padding & rest) == keep).all()):
        raise Inexpressible("split")
    yield padding
    yield rest
