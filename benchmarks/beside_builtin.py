"""Ours beside the builtin alone, in short pieces: attention as a user gets it, who asks for nothing special.

    python -m benchmarks.beside_builtin bfloat16 forward             # or both: forward and backward
    python -m benchmarks.beside_builtin bfloat16 few                 # few queries of many keys
    python -m benchmarks.beside_builtin float32 forward --busy 1     # beside a process that computes without end
    python -m benchmarks.beside_builtin float32 both --keep benchmarks/results

`scratch-transformer bench --full` has the same cases with everybody else, and whether results are right. This takes
less than a minute a piece, for a machine that is quiet only now and then. What is kept on one day is one document. A
ratio is the builtin's time over ours, round by round: above 1, ours is faster.
"""

import argparse
import contextlib
import math
import subprocess
import sys
import time

from scratch_transformer.attention.tiled import workers
from scratch_transformer.benchmarking import grid, measurement
from scratch_transformer.benchmarking.attention_case import AttentionCase
from scratch_transformer.benchmarking.case import Rival
from scratch_transformer.benchmarking.timing import Effort, Prepared, geometric_mean, interleave, ratio, timer_of

SUBJECT = "attention beside the builtin"
BESIDE = {False: SUBJECT, True: f"{SUBJECT} and a busy process"}
OURS, BUILTIN = Rival("ours auto", is_ours=True), Rival("torch flash", is_ours=False)
EFFORT = Effort(25, 1.6)
# Heads of queries, of keys; keys; width.
MANY_KEYS = [(8, 8, 2048, 64), (8, 8, 8192, 64), (4, 4, 8192, 128), (8, 8, 16384, 64), (8, 2, 16384, 64)]
FEW = (1, 4, 8, 16, 32)
"""Queries."""


def cases(dtype, group):
    """Of a group, by the family in which they are averaged."""
    if group == "few":
        return {
            f"{queries} {'query' if queries == 1 else 'queries'}": [
                AttentionCase(1, H, queries, D, dtype, "forward", S=S, G=G) for H, G, S, D in MANY_KEYS
            ]
            for queries in FEW
        }
    return {
        "causal" if is_causal else "full": [AttentionCase(*shape, dtype, group, is_causal) for shape in grid.FULL_CPU]
        for is_causal in (False, True)
    }


def raced(case, effort=EFFORT, alone=True):
    """The spread of the ratio in one case. alone: no other process is busy, as long first calls would make believe."""
    inputs = case.draw("cpu")
    calls = {rival.name: case.prepare(rival, inputs) for rival in (OURS, BUILTIN)}
    for prepared in calls.values():
        warm(prepared)
    if alone:
        workers._crowd.over = -math.inf
    seconds = interleave(calls, timer_of("cpu"), effort)
    return ratio(seconds[BUILTIN.name], seconds[OURS.name])


def warm(prepared: Prepared, least=2, seconds=0.1):
    """Called some times: what is found out at the first calls is known then."""
    start = time.perf_counter()
    while least > 0 or time.perf_counter() - start < seconds:
        prepared()
        least -= 1


@contextlib.contextmanager
def busy(number):
    """So many other processes that compute without end."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield others
    finally:
        for other in others:
            other.kill()
            other.wait()


def measure(dtype, group, effort=EFFORT, alone=True):
    """family -> case -> spread, printed as they come."""
    found = {}
    for family, some in cases(dtype, group).items():
        found[family] = {}
        for case in some:
            spread = raced(case, effort, alone)
            found[family][case.name] = vars(spread)
            print(f"{case.name:56} {spread.median:5.2f} ({spread.p20:.2f} to {spread.p80:.2f})", flush=True)
    return found


def medians(of_group):
    """family -> medians."""
    return {family: [spread["median"] for spread in of_family.values()] for family, of_family in of_group.items()}


def main(arguments=None):
    """Print every case, and each family's geometric mean and lowest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dtype", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("group", choices=["forward", "both", "few"])
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="beside N busy processes")
    parser.add_argument("--seconds", type=float, default=EFFORT.seconds, help="for each case")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the result there, dated")
    options = parser.parse_args(arguments)
    with measurement.kept(BESIDE[options.busy > 0], options.keep, by_parts=True) as values, busy(options.busy):
        effort = Effort(EFFORT.rounds, options.seconds)
        found = measure(options.dtype, options.group, effort, alone=not options.busy)
        values[f"{options.dtype}, {options.group}"] = found
    of_families = medians(found)
    of_families["together"] = [median for some in of_families.values() for median in some]
    for family, some in of_families.items():
        print(f"{family}: geometric mean {geometric_mean(some):.2f}, lowest {min(some, default=math.nan):.2f}")


if __name__ == "__main__":
    main()
