"""Seconds of computing are longer where the processor is slower."""

from unittest import mock

import pytest

from scratch_transformer.kit import clock


@pytest.fixture
def computing(monkeypatch):
    """Sets how many seconds of computing each piece of work takes; the clock is as before afterwards."""
    monkeypatch.setattr(clock._Speed, "slowness", 1.0)

    def take(*seconds):
        passed, taken = [100.0], iter(seconds)

        def work():
            passed[0] += next(taken)

        monkeypatch.setattr(clock, "_work", work)
        monkeypatch.setattr(clock.time, "process_time", lambda: passed[0])

    return take


@pytest.mark.parametrize(("times", "slowness"), [(0.5, 1.0), (1.0, 1.0), (2.5, 2.5), (9.0, clock.MOST)])
def test_seconds_are_as_many_times_as_long_as_the_same_work_takes(times, slowness, computing):
    usual = clock.USUAL * times
    computing(usual * 7, usual * 2, usual, usual * 3, usual * 2)  # the first loads, and others come between
    assert clock.adjust() == pytest.approx(slowness)
    begin = clock.now()
    with mock.patch.object(clock.time, "process_time", return_value=clock.time.process_time() + 6.0):
        assert clock.now() - begin == pytest.approx(6.0 / slowness)
    assert clock.lasting(6.0) == pytest.approx(6.0 * slowness)


def test_what_is_timed_is_work(monkeypatch):
    monkeypatch.setattr(clock._Speed, "slowness", 1.0)
    assert 1.0 <= clock.adjust() <= clock.MOST
