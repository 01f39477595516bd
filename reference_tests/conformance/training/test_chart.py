"""The drawing: every step is in its place, and nothing is outside the frame."""

import math
import re

import pytest

from reference_tests.conformance.training.made_up import parity
from scratch_transformer.conformance.training.chart import Chart, draw
from scratch_transformer.conformance.training.summary import document

INF = float("inf")
ANY = {
    "agreement": parity((3.0, 2.0, 1.0, 0.5), (3.0, 2.0 + 2**-50, 1.0, 0.5 - 2**-40)),
    "bitwise": parity((3.0, 2.0), (3.0, 2.0)),
    "one step": parity((2.5,), (2.5,)),
    "no numbers": parity((math.nan, INF), (math.nan, INF)),
    "divergence": parity((3.0, 1e3, 1.0), (3.0, 1e-3, 1.0)),
    "a loss of zero": parity((0.0, 1.0), (1.0, 1.0)),
}


def drawn(found):
    return draw(document(found))


def points(path):
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.e+]+) (-?[\d.e+]+)", path)]


@pytest.mark.parametrize("found", ANY.values(), ids=ANY)
def test_everything_is_inside_its_panel(found):
    chart = drawn(found)
    for path, (top, bottom) in [
        (chart.ours, Chart.LOSSES),
        (chart.builtin, Chart.LOSSES),
        (chart.differences, Chart.DIFFERENCES),
        (chart.growth, Chart.DIFFERENCES),
        (chart.equal, (Chart.EQUAL, Chart.EQUAL)),
    ]:
        assert all(Chart.LEFT <= x <= Chart.RIGHT and top <= y <= bottom for x, y in points(path))
    assert Chart.DIFFERENCES[0] < chart.limit < Chart.DIFFERENCES[1] < Chart.EQUAL < Chart.HEIGHT
    assert all(Chart.LOSSES[0] <= tick.at <= Chart.LOSSES[1] for tick in chart.loss_ticks)
    assert all(Chart.DIFFERENCES[0] <= tick.at <= Chart.DIFFERENCES[1] for tick in chart.difference_ticks)
    assert all(Chart.LEFT <= tick.at <= Chart.RIGHT for tick in chart.steps)


@pytest.mark.parametrize("found", ANY.values(), ids=ANY)
def test_every_step_has_one_dot(found):
    chart = drawn(found)
    assert len(points(chart.differences)) + len(points(chart.equal)) == found.settings.steps
    assert len(points(chart.equal)) == found.differences.count(0.0)


def test_values_are_where_the_ticks_say():
    chart = drawn(parity((3.0, 2.0, 1.5), (3.0, 2.0, 1.5 * (1 + 1e-12))))
    losses = {float(tick.text): tick.at for tick in chart.loss_ticks}
    assert [y for _, y in points(chart.ours)] == [losses[3.0], losses[2.0], losses[1.5]]
    assert [x for x, _ in points(chart.ours)] == [tick.at for tick in chart.steps]
    powers = {tick.text: tick.at for tick in chart.difference_ticks}
    ((x, y),) = points(chart.differences)
    assert (x, y) == (chart.steps[2].at, pytest.approx(powers["1e-12"], abs=0.1))
    assert powers["1e-8"] < chart.limit < powers["1e-10"]


def test_the_line_never_falls():
    ys = [y for _, y in points(drawn(ANY["agreement"]).growth)]
    assert len(ys) == 3  # from the first difference on
    assert ys == sorted(ys, reverse=True)
