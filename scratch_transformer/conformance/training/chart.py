"""A training run as a drawing: both losses, and beneath them their difference on a logarithmic axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scratch_transformer.conformance.training.summary import round_steps

SMALLEST = -17
"""Lowest power of ten drawn: two different float64 numbers differ by at least 1.1e-16 of their size."""


@dataclass(frozen=True)
class Tick:
    """A place on an axis, and what is written there."""

    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    """The drawing: paths in the syntax of SVG, and places. Two panels over one axis of steps.

    differences: a dot for every step whose losses differ. equal: a dot, in the row EQUAL, for every other.
    """

    WIDTH: ClassVar[int] = 760
    HEIGHT: ClassVar[int] = 480
    LEFT: ClassVar[int] = 62
    RIGHT: ClassVar[int] = 750
    LOSSES: ClassVar[tuple[int, int]] = (20, 220)
    DIFFERENCES: ClassVar[tuple[int, int]] = (260, 420)
    EQUAL: ClassVar[int] = 436

    ours: str
    builtin: str
    differences: str
    equal: str
    growth: str
    limit: float
    steps: tuple[Tick, ...]
    loss_ticks: tuple[Tick, ...]
    difference_ticks: tuple[Tick, ...]


def draw(training: dict[str, Any]) -> Chart:
    """The drawing of a training run, given as the dictionary of `summary.document`."""
    ours, builtin, differences = (
        [float(value) for value in values]  # from JSON come the words "inf" and "nan"
        for values in (training["ours"]["losses"], training["builtin"]["losses"], training["differences"])
    )
    limit, count = training["limits"]["losses"], len(ours)
    step_at = _axis((0.5, count + 0.5), (Chart.LEFT, Chart.RIGHT))
    xs = [step_at(step) for step in range(1, count + 1)]
    halves = math.ceil(2 * max(filter(math.isfinite, [*ours, *builtin]), default=1))
    loss_at = _axis((halves / 2, 0), Chart.LOSSES)
    top = math.ceil(math.log10(max([limit, *filter(math.isfinite, differences)]))) + 1
    power_at = _axis((top, SMALLEST), Chart.DIFFERENCES)
    heights = [power_at(_power(difference, top)) for difference in differences]
    largest = [power_at(_power(difference, top)) for difference in itertools.accumulate(differences, max)]
    return Chart(
        ours=_line(xs, [loss_at(loss) for loss in ours]),
        builtin=_line(xs, [loss_at(loss) for loss in builtin]),
        differences=_dots(xs, heights),
        equal=_dots(xs, [Chart.EQUAL if difference == 0 else math.nan for difference in differences]),
        growth=_line(xs, largest),
        limit=power_at(math.log10(limit)),
        steps=tuple(Tick(step_at(step), str(step)) for step in round_steps(count)),
        loss_ticks=tuple(Tick(loss_at(i / 2), f"{i / 2:g}") for i in range(halves + 1)),
        difference_ticks=tuple(Tick(power_at(p), f"1e{p}") for p in range(SMALLEST + 1, top + 1, 2)),
    )


def _axis(values: tuple[float, float], places: tuple[int, int]) -> Callable[[float], float]:
    """The place of a value, between two values whose places are given."""
    scale = (places[1] - places[0]) / (values[1] - values[0])
    return lambda value: round(places[0] + (value - values[0]) * scale, 2)


def _power(difference: float, top: int) -> float:
    """log₁₀ of a difference, kept inside the drawing; NaN, which is not drawn, of zero."""
    if difference == 0:
        return math.nan
    return min(max(math.log10(difference), SMALLEST), top)


def _line(xs: Sequence[float], ys: Sequence[float]) -> str:
    """A line through all points that are numbers."""
    points = [f"{x:g} {y:g}" for x, y in zip(xs, ys, strict=True) if math.isfinite(y)]
    return "M" + "L".join(points) if points else ""


def _dots(xs: Sequence[float], ys: Sequence[float]) -> str:
    """Lines without length, which their round ends make dots."""
    return "".join(f"M{x:g} {y:g}h0" for x, y in zip(xs, ys, strict=True) if math.isfinite(y))
