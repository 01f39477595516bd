"""A recorded run: its tensors by name and in order, each with what it means and torch's beside it."""

from __future__ import annotations

import difflib
import fnmatch
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from scratch_transformer.conformance.measures import relative_error
from scratch_transformer.trace.source import Source

FORMAT = "scratch_transformer.trace/1"


@dataclass(frozen=True)
class Point:
    """One named tensor of a run.

    name: the module's path and the tensor's own name, encoder.layers.0.self_attention.scores; `_block` is left out.
    module: the path, as `get_submodule` takes it. tensor: the values. torch: those of torch's own run, or None.
    letters: of the dimensions (`letters.MEANINGS`). equation: of text; latex: the same for typesetting. sentence: what
    happens, and why. source: the function that computed it; line: the line.
    """

    name: str
    module: str
    tensor: Tensor = field(repr=False)
    torch: Tensor | None = field(repr=False)
    letters: tuple[str, ...]
    kind: str
    equation: str
    latex: str = field(repr=False)
    sentence: str = field(repr=False)
    source: Source = field(repr=False)
    line: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(self.tensor.shape)

    @property
    def where(self) -> str:
        """file:line."""
        return f"{self.source.file}:{self.line}"

    @property
    def difference(self) -> float | None:
        """max |ours - torch's|; infinite unless shapes, infinities and NaNs agree. None: there is nothing beside it."""
        if self.torch is None:
            return None
        ours, theirs = self.tensor.to(self.torch.dtype), self.torch  # in half precision ours is float32 within
        if relative_error(ours, theirs) == float("inf"):
            return float("inf")
        finite = theirs.isfinite()
        return (ours[finite].double() - theirs[finite].double()).abs().max().item() if finite.any() else 0.0

    @property
    def error(self) -> float | None:
        """‖ours - torch's‖∞ / ‖torch's‖∞."""
        return None if self.torch is None else relative_error(self.tensor.to(self.torch.dtype), self.torch)


class Trace(Sequence[Point]):
    """The points of a run, in the order in which they were computed.

    trace["encoder.layers.0.self_attention.scores"] is one of them, trace["encoder"] what that module returned.
    output: what the model returned. about: what else is known, of a trained run its sentence and tokens.
    """

    def __init__(
        self, points: Sequence[Point], names: dict[str, int], output: Any, about: dict[str, Any] | None = None
    ) -> None:
        self._points = tuple(points)
        self._names = dict(names)
        self.output = output
        self.about = about or {}

    def __len__(self) -> int:
        return len(self._points)

    def __iter__(self) -> Iterator[Point]:
        return iter(self._points)

    def __contains__(self, name: object) -> bool:
        return name in self._names or any(name is point for point in self._points)

    def __getitem__(self, key: Any) -> Any:
        """A point by its name, its number, or several by a slice.

        Raises:
            KeyError: there is no such name; close ones are listed.
        """
        if not isinstance(key, str):
            return self._points[key]
        if key not in self._names:
            close = difflib.get_close_matches(key, self._names, n=3)
            raise KeyError(f"there is no {key!r} in this trace" + (f"; is it {' or '.join(close)}?" if close else ""))
        return self._points[self._names[key]]

    @property
    def names(self) -> list[str]:
        """The points' names, in order."""
        return [point.name for point in self._points]

    @property
    def aliases(self) -> dict[str, int]:
        """The number of the point that each name stands for: of itself, or of what a module returned."""
        return dict(self._names)

    @property
    def difference(self) -> float | None:
        """The largest difference from torch at any point; None: torch did not run beside it."""
        return max((point.difference for point in self._points if point.difference is not None), default=None)

    def select(self, pattern: str) -> Trace:
        """The points whose names match a pattern: "decoder.*.weights"."""
        kept = [point for point in self._points if fnmatch.fnmatchcase(point.name, pattern)]
        return Trace(kept, {point.name: i for i, point in enumerate(kept)}, self.output, self.about)

    def save(self, path: str | Path) -> None:
        """Write all tensors to a safetensors file: each under its name, torch's under "torch/" and the name.

        The file's metadata has what is known of the points, as JSON under "trace".
        """
        from safetensors.torch import save

        from scratch_transformer.translation.files import write_bytes

        tensors = {point.name: point.tensor.contiguous().cpu() for point in self}
        tensors |= {f"torch/{p.name}": p.torch.contiguous().cpu() for p in self if p.torch is not None}
        described = {"format": FORMAT, **self.about, "points": [_described(point) for point in self]}
        write_bytes(Path(path), save(tensors, {"trace": json.dumps(described, ensure_ascii=False)}))

    def table(self) -> str:
        """The points as text, a line each, aligned."""
        head = ("name", "shape", "dimensions", "equation", "source", "difference")
        rows = [head, *(_row(point) for point in self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} tensors, largest difference from torch: {self.difference}>"


def _row(point: Point) -> tuple[str, ...]:
    difference = "" if point.difference is None else f"{point.difference:.0e}" if point.difference else "0"
    shape = " × ".join(map(str, point.shape)) or "()"
    where = point.where.removeprefix("scratch_transformer/")
    return point.name, shape, " ".join(point.letters), point.equation, where, difference


def _described(point: Point) -> dict[str, Any]:
    return {
        "name": point.name, "module": point.module, "letters": point.letters, "equation": point.equation,
        "source": point.where, "difference": point.difference,
    }  # fmt: skip
