"""Turns, ratios and spreads, on clocks that are made up."""

import gc
import time

import pytest
import torch

from scratch_transformer.benchmarking import timing
from scratch_transformer.benchmarking.timing import Effort, Prepared, Spread, interleave


class Machine:
    """A clock that only its jobs advance: each takes its seconds, times how slow the machine is at the moment."""

    def __init__(self):
        self.now, self.turns, self.slowness = 0.0, [], lambda: 1.0

    def job(self, name, seconds, **options):
        def call():
            self.turns.append(name)
            self.now += seconds * self.slowness()

        return Prepared(call, **options)

    def clock(self):
        return self.now


@pytest.fixture
def machine():
    return Machine()


def test_rivals_take_turns_and_who_begins_rotates(machine):
    jobs = {name: machine.job(name, 1.0) for name in "abc"}
    durations = interleave(jobs, machine.clock, Effort(rounds=3, seconds=60))
    assert "".join(machine.turns) == "abc" + "abc" + "bca" + "cab"  # once for warmth, then the rounds
    assert durations == {name: [1.0] * 3 for name in "abc"}


def test_a_short_call_is_repeated_and_the_time_is_of_one(machine):
    short = machine.job("short", timing.BATCH["cpu"] / 8)
    durations = interleave({"short": short}, machine.clock, Effort(2, 60))
    assert durations["short"] == pytest.approx([timing.BATCH["cpu"] / 8] * 2)
    assert len(machine.turns) == 2 + 2 * 8


def test_no_round_begins_that_would_end_too_late(monkeypatch, machine):
    monkeypatch.setattr(timing.time, "perf_counter", machine.clock)
    durations = interleave({"slow": machine.job("slow", 10.0)}, machine.clock, Effort(rounds=100, seconds=55))
    assert len(durations["slow"]) == 5
    durations = interleave({"slower": machine.job("slower", 100.0)}, machine.clock, Effort(rounds=100, seconds=55))
    assert len(durations["slower"]) == 3


def test_a_machine_that_slows_down_does_not_change_the_ratio(machine):
    machine.slowness = lambda: 1 + len(machine.turns) // 6 % 3
    durations = interleave({"a": machine.job("a", 1.0), "b": machine.job("b", 3.0)}, machine.clock, Effort(30, 9e9))
    assert len(set(durations["a"])) > 1
    assert timing.ratio(durations["b"], durations["a"]).median == 3.0


def test_switches_are_set_outside_the_clock(machine):
    class Switch:
        def __enter__(self):
            machine.now += 100

        def __exit__(self, *error):
            machine.now += 100

    assert timing.measure(machine.job("a", 1.0, context=Switch), machine.clock, 4) == 1.0


def test_garbage_is_not_collected_in_somebodys_turn(machine):
    collecting = []
    interleave({"a": Prepared(lambda: collecting.append(gc.isenabled()))}, time.perf_counter, Effort(3, 60))
    assert not any(collecting[-3:])
    assert gc.isenabled()


def test_what_is_random_is_proved_by_something_else():
    prepared = Prepared(lambda: "random", proof=lambda: "proof")
    assert (prepared(), prepared.outcome()) == ("random", "proof")
    assert Prepared(lambda: "certain").outcome() == "certain"


def test_the_spread_is_the_middle_three_fifths():
    assert timing.spread([1.0, 2, 3, 4, 5, 100]) == Spread(3.5, 2.0, 5.0)
    assert timing.spread([7.0]) == Spread(7.0, 7.0, 7.0)


def test_the_mean_of_a_ratio_and_its_inverse_is_one():
    assert timing.geometric_mean([4, 1 / 4]) == pytest.approx(1)


def test_who_is_hopeless_costs_the_others_no_round(machine):
    jobs = {"fast": machine.job("fast", 1.0), "slow": machine.job("slow", 19.0), "hopeless": machine.job("x", 21.0)}
    durations = interleave(jobs, machine.clock, Effort(rounds=5, seconds=9e9))
    assert {name: len(seconds) for name, seconds in durations.items()} == {"fast": 5, "slow": 5, "hopeless": 1}
    assert list(durations) == list(jobs)
    assert timing.ratio(durations["hopeless"], durations["fast"]) == Spread(21.0, 21.0, 21.0)
    assert timing.ratio(durations["fast"], durations["hopeless"]).median == 1 / 21


def test_what_was_proved_in_another_way_runs_once_before_it_is_timed(machine):
    """torch.compile begins anew with the call itself: the proof was without dropout."""
    seconds = [30.0]  # of compiling
    compiled = machine.job("compiled", 1.0)

    def call():
        machine.now += seconds.pop() if seconds else 0.0
        return compiled.call()

    jobs = {"fast": machine.job("fast", 1.0), "compiled": Prepared(call, proof=lambda: None)}
    durations = interleave(jobs, machine.clock, Effort(rounds=3, seconds=9e9))
    assert durations == {"fast": [1.0] * 3, "compiled": [1.0] * 3}


def test_who_is_slow_within_a_batch_costs_nobody_anything(machine):
    batch = timing.BATCH["cuda"]
    jobs = {"fast": machine.job("fast", batch / 100), "slow": machine.job("slow", batch / 2)}
    durations = interleave(jobs, machine.clock, Effort(4, 60), batch)
    assert [len(seconds) for seconds in durations.values()] == [4, 4]


def test_batches_are_longer_where_the_first_call_waits_to_be_sent_off():
    assert timing.batch_of("cuda:1") >= 10e-3 > timing.batch_of("cpu")


def test_the_clock_of_a_gpu_waits_for_its_work_and_for_no_other_gpus(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: waited.append((device, time.perf_counter())))
    clock = timing.timer_of("cuda:1")
    assert clock() >= waited[0][1] and waited[0][0] == "cuda:1"
    assert clock.__name__ == "synchronised_time"
    assert timing.timer_of("cpu") is time.perf_counter
