"""The clock goes by what is computed; the system's timers by how slow the processor is."""

import contextlib
from unittest import mock

import pytest
import torch
from torch import nn

from scratch_transformer.kit import clock
from scratch_transformer.kit.judge.variants import Variants
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.kinds.decoding import toy_model
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.resolve.call import batching
from scratch_transformer.kit.resolve.call.plan import Plan
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.functions.toy import Reading, ToyModel


def test_what_is_counted_passes_and_nothing_else():
    begin = clock.now()
    with mock.patch.object(clock.time, "process_time", return_value=clock.time.process_time() + 1000.0):
        assert clock.now() == begin
        clock.count(2.5)
        assert clock.now() - begin == pytest.approx(2.5)


def test_what_takes_far_longer_than_is_counted_is_late():
    begin, real = clock.now(), clock.time.process_time()
    with clock.at_most(8.0):
        for passed, is_late in ((7.9, False), (8.5 * clock.MOST, True)):
            with mock.patch.object(clock.time, "process_time", return_value=real + passed):
                assert (clock.now() > begin + 1000.0) == is_late
    with mock.patch.object(clock.time, "process_time", return_value=real + 1e5):
        assert clock.now() == begin


def test_what_is_late_gets_a_quarter_of_any_time(monkeypatch):
    monkeypatch.setattr(clock._Speed, "slowness", 2.0)
    real = clock.time.process_time()
    with clock.at_most(8.0), mock.patch.object(clock.time, "process_time") as passed:
        passed.return_value = real + 20.0
        begin = clock.now()
        passed.return_value = real + 24.0
        assert clock.now() - begin == pytest.approx(clock.HURRY * 4.0 / 2.0)


def test_a_call_costs_by_its_parts_and_weights():
    assert clock.of_call(print, 0.5) == 0.5
    small, deep = nn.Linear(2, 3), nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    assert clock.of_call(small, 0.5) == pytest.approx(0.5 + clock.PART + 9 * clock.WEIGHT)
    assert clock.of_call(deep, 0.5) == pytest.approx(0.5 + 3 * clock.PART + 9 * clock.WEIGHT)
    assert clock.of_building(deep) == pytest.approx(3 * clock.BUILT + 90 * clock.WEIGHT)
    assert clock.of_call(nn.LazyLinear(3), 0.5) == pytest.approx(0.5 + clock.PART)  # its weights have no size yet
    assert clock.of_building(lambda x: x) == 0.0


def test_the_reference_is_counted_when_it_computes_and_not_when_its_output_is_known():
    kind = KINDS["LayerNorm"]
    settings = kind.complete({})
    variants, probe = Variants(kind, settings), kind.probes(settings, 0)[0]
    state = {name: torch.ones(shape) for name, shape in variants._shapes(RIGHT).items()}
    passed = []
    for _ in range(2):
        begin = clock.now()
        assert variants.output(RIGHT, "key", state, probe) is not None
        passed.append(clock.now() - begin)
    assert passed[0] >= clock.REFERENCE and passed[1] == 0.0


def test_what_takes_one_sentence_at_a_time_is_counted_for_each_and_what_stops_is_hardly():
    kind, batch = KINDS["LayerNorm"], torch.randn(3, 4, 5, dtype=torch.float64)
    passed = []
    for order, width in (("batch first", 5), (batching.ALONE, 5), ("batch first", 7)):
        candidate = Resolved(kind, nn.LayerNorm(width).double(), {}, Plan({"input": "x"}, order=order))
        begin = clock.now()
        with pytest.raises(RuntimeError) if width == 7 else contextlib.nullcontext():
            candidate(x=batch)
        passed.append(clock.now() - begin)
    parts = clock.of_call(nn.LayerNorm(5), 0.0)
    assert passed == pytest.approx([clock.CALL + parts, 3 * (clock.SINGLE + parts), clock.STOPPED])


def test_each_word_that_a_writer_asks_its_model_for_is_counted():
    toy = ToyModel(toy_model(4, 4), Reading())
    begin = clock.now()
    for length in (1, 2, 3):
        toy(torch.ones(1, length, dtype=torch.long))
    assert clock.now() - begin == pytest.approx(3 * clock.TOY)


@pytest.fixture
def computing(monkeypatch):
    """Sets how many seconds of computing each piece of work takes; the timers are as before afterwards."""
    monkeypatch.setattr(clock._Speed, "slowness", 1.0)

    def take(*seconds):
        passed, taken = [100.0], iter(seconds)

        def work():
            passed[0] += next(taken)

        monkeypatch.setattr(clock, "_work", work)
        monkeypatch.setattr(clock.time, "process_time", lambda: passed[0])

    return take


@pytest.mark.parametrize(("times", "slowness"), [(0.5, 1.0), (1.0, 1.0), (2.5, 2.5), (9.0, clock.MOST)])
def test_timers_are_as_many_times_as_long_as_the_same_work_takes(times, slowness, computing):
    usual = clock.USUAL * times
    computing(usual * 7, usual * 2, usual, usual * 3, usual * 2)  # the first loads, and others come between
    assert clock.adjust() == pytest.approx(slowness)
    assert clock.lasting(6.0) == pytest.approx(6.0 * slowness)


def test_what_is_timed_is_work(monkeypatch):
    monkeypatch.setattr(clock._Speed, "slowness", 1.0)
    assert 1.0 <= clock.adjust() <= clock.MOST
