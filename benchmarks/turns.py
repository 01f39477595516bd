"""How pytest-benchmark times one rival of a case: before each of its rounds all others have their turn.

So every row has, beside its own times, the ratio of everybody else's to it in the same rounds.
"""

import pytest

from scratch_transformer.benchmarking import grid, memory, run
from scratch_transformer.benchmarking.race import Result, line_up
from scratch_transformer.benchmarking.results import row
from scratch_transformer.benchmarking.timing import measure, ratio, timer_of


def is_timed(config):
    """Not with --benchmark-disable, nor with pytest -n, whose workers would disturb each other."""
    return not (config.getoption("benchmark_disable") or hasattr(config, "workerinput"))


def extent(config):
    """The size of the grid: as asked for, else by whether anything is timed."""
    return config.getoption("--grid") or ("quick" if is_timed(config) else "tiny")


def pairs(config, subject):
    """Every case of a subject with each of its rivals. --dtype narrows them; float64, its default, does not."""
    device, dtype = config.getoption("--device"), config.getoption("--dtype")
    cases = grid.cases(subject, extent(config), device)
    chosen = [case for case in cases if dtype in ("float64", case.dtype)]
    return [(case, rival) for case in chosen for rival in case.rivals(device)]


_lineups = {}


def lineup(case, device, extent, machine):
    """The rivals of one case are tested one after the other: the last lineup is kept."""
    if case not in _lineups:
        _lineups.clear()
        _lineups[case] = line_up(case, device, run.left_out(case, device, extent, machine))
    return _lineups[case]


def take(benchmark, case, rival, config, machine):
    """Check the rival's result, time it in turns with the others, and put the row into extra_info."""
    device = config.getoption("--device")
    found = lineup(case, device, extent(config), machine)
    if rival.name in found.out:
        result = found.out[rival.name]
        assert result.status in ("unsupported", "left out"), f"{rival.name}: {result.status}: {result.reason}"
        pytest.skip(f"{rival.name}: {result.status}: {result.reason}")
    benchmark.group = case.name
    durations = _timed(benchmark, found.ready, rival.name, device, grid.EFFORT[extent(config)].rounds)
    if not durations:
        return
    peak = memory.peak(case, rival, device)
    result = Result(case, rival, "timed", "", found.errors[rival.name], durations.pop(rival.name), peak)
    benchmark.extra_info |= row(result, device, machine)
    spreads = {name: ratio(theirs, result.durations) for name, theirs in durations.items()}
    benchmark.extra_info["ratios"] = {name: vars(spread) for name, spread in spreads.items()}
    benchmark.extra_info["not timed"] = {name: f"{r.status}: {r.reason}" for name, r in found.out.items()}


def _timed(benchmark, ready, name, device, rounds):
    """Seconds of everybody in every round; just one call where nothing is timed."""
    durations = {other: [] for other in ready if other != name}

    def others():
        for other, seconds in durations.items():
            seconds.append(measure(ready[other], timer_of(device)))

    with ready[name].context():
        if not benchmark.enabled:
            benchmark.pedantic(ready[name].call)
            return {}
        benchmark.pedantic(ready[name].call, setup=others, rounds=rounds, warmup_rounds=1)
    timed = {other: seconds[1:] for other, seconds in durations.items()}  # the first was for warmth
    return timed | {name: list(benchmark.stats.stats.data)}
