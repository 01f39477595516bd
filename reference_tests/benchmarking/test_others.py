"""Who else uses the processors: seen, waited for, and said in what was measured beside them."""

import subprocess
import sys
import time

import pytest

from scratch_transformer.benchmarking import others, results


@pytest.fixture
def clock(monkeypatch):
    """Processors' time by hand: all, ours, and the wall's."""
    times = {"all": 100.0, "ours": 10.0, "wall": 0.0}
    monkeypatch.setattr(others, "_busy", lambda: times["all"])
    monkeypatch.setattr(others, "_ours", lambda: times["ours"])
    monkeypatch.setattr(others.time, "monotonic", lambda: times["wall"])
    return times


def pass_time(clock, all, ours, wall):
    for name, seconds in {"all": all, "ours": ours, "wall": wall}.items():
        clock[name] += seconds


def test_what_is_ours_does_not_count(clock):
    watch = others.Watch()
    assert watch.others() == 0
    pass_time(clock, all=18.0, ours=12.0, wall=10.0)
    assert watch.others() == pytest.approx(0.6)


def test_what_was_seen_before_counts_by_its_length(clock):
    """A second of another's in 10, and then 6 seconds in 20."""
    watch = others.Watch(seconds=10.0, used=1.0)
    pass_time(clock, all=18.0, ours=12.0, wall=20.0)
    assert (watch.seconds(), watch.used()) == (pytest.approx(30.0), pytest.approx(7.0))
    assert watch.others() == pytest.approx(7 / 30)


def test_waits_until_the_others_are_done(clock, monkeypatch):
    loads, said = [1.5, 0.2, 0.05], []
    monkeypatch.setattr(
        others.time, "sleep", lambda seconds: pass_time(clock, all=loads.pop(0) * seconds, ours=0.0, wall=seconds)
    )
    others.wait(said.append)
    assert [line.split(" of ")[0] for line in said] == [f"waiting: other processes use {n}" for n in (1.5, 0.2)]
    assert loads == []


def test_a_busy_process_is_seen():
    """For real: at least a good part of one processor, whatever else goes on."""
    busy = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        busy.stdout.readline()
        watch = others.Watch()
        time.sleep(1)
        assert watch.others() > 0.1
    finally:
        busy.kill()
        busy.communicate()


GRANDCHILD = """
import subprocess, sys, time
work = "import time\\nwhile time.process_time() < 0.6: pass"
subprocess.run([sys.executable, "-c", work])
print("ended", flush=True)
work += "\\nprint(flush=True)\\ntime.sleep(60)"
at_work = subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE)
at_work.stdout.readline()
print("at work", flush=True)
sys.stdin.readline()
at_work.kill()
at_work.wait()
"""


def test_what_our_processes_begin_is_ours():
    """A server that forks workers: their time counts, while they work and when they have ended."""
    before = others._ours()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", GRANDCHILD], **pipes) as child:
        for words, least in (("ended", 0.6), ("at work", 1.2)):
            assert child.stdout.readline().strip() == words
            assert others._ours() - before >= least - 0.05
        child.communicate("\n")
    assert others._ours() - before >= 1.15


@pytest.mark.parametrize(
    "device, used, says",
    [("cpu", 0.83, "which used 0.8 of 2 processors"), ("cpu", 0.05, ""), ("cpu", "unknown", ""), ("cuda", 0.83, "")],
)
def test_disturbed_results_say_so(device, used, says):
    document = {"device": device, "environment": {"used by others": used, "processors": 2}}
    said = results.disturbance(document)
    assert bool(said) == bool(says) and says in said
