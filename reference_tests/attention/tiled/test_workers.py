"""Sharing out: the same results however many threads there are, and whatever happens in one of them."""

import math
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from torch.overrides import TorchFunctionMode

from reference_tests.agreement import assert_equal, differentiate
from reference_tests.attention.tiled.others import builtin, draw, tiled
from scratch_transformer.attention.tiled import forward, workers

pytestmark = pytest.mark.usefixtures("small_tiles")

B, H, T, S, D = 2, 3, 7, 11, 5
LIKE = torch.empty(0, dtype=torch.float64)


@pytest.fixture(autouse=True)
def threads():
    """Three, whatever was set; and nothing that a test sets is left."""
    usual = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    assert torch.get_num_threads() == 3
    torch.set_num_threads(usual)


@pytest.fixture(params=["spread", "side by side"])
def sharing(request, monkeypatch):
    monkeypatch.setattr(workers._crowd, "over", math.inf if request.param == "side by side" else -math.inf)
    monkeypatch.setattr(workers, "SLOW", math.inf)
    monkeypatch.setattr(workers, "SLOW_AND_SHORT", math.inf)
    return request.param


@pytest.fixture
def side_by_side(monkeypatch):
    monkeypatch.setattr(workers._crowd, "over", math.inf)


@pytest.fixture
def qkv():
    return [draw(B, H, T, D), draw(B, H, S, D), draw(B, H, S, D)]


@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_both_ways_of_sharing(mask, is_causal, qkv, sharing):
    mask = {None: None, "bool": torch.rand(B, 1, T, S) < 0.6, "float": draw(T, S)}[mask]
    ours, theirs = (differentiate(f, *qkv, mask, is_causal=is_causal) for f in (tiled, builtin))
    assert_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_both_ways_of_sharing_in_other_dtypes(dtype, qkv, sharing):
    query, key, value = (x.to(dtype) for x in qkv)
    expected = builtin(*(x.double() for x in (query, key, value)))
    assert (tiled(query, key, value) - expected).abs().max() < 4 * torch.finfo(dtype).eps


def test_every_task_is_done_once_and_by_several_threads(side_by_side):
    done, everyone = [], threading.Barrier(3)

    def work(task, scratch):
        if task < 3:
            everyone.wait(timeout=60)  # needs three threads
        done.append((task, threading.get_ident(), torch.get_num_threads()))

    workers.run(list(range(40)), work, LIKE, 1.0)
    assert sorted(task for task, _, _ in done) == list(range(40))
    assert len({thread for _, thread, _ in done}) == 3
    assert {threads for _, _, threads in done} == {1}


def test_threads_that_share_the_work_are_not_looked_at(side_by_side, monkeypatch):
    """While they compute, too; any other thread is."""
    looked_at, everyone, done = [], threading.Barrier(3), threading.Event()
    monkeypatch.setattr(workers.bystanders, "compute", lambda threads: looked_at.append(set(threads)) or True)
    other = threading.Thread(target=done.wait)
    other.start()

    def work(task, scratch):
        everyone.wait(timeout=60)
        assert not workers.is_alone()
        everyone.wait(timeout=60)

    try:
        workers.run([1, 2, 3], work, LIKE, 1.0)
    finally:
        done.set()
        other.join()
    assert len(looked_at) == 3
    assert all(other in threads for threads in looked_at)
    assert not {thread.ident for threads in looked_at for thread in threads} & workers._ours
    assert any(threading.current_thread() not in threads for threads in looked_at)  # as this one looked


def test_the_first_tasks_first():
    for run in (workers.run_in_turn, lambda *x: workers.run(*x, 1.0)):
        done = []
        run([5, 3, 8], lambda task, _, done=done: done.append(task), LIKE)
        assert done == [5, 3, 8]


@pytest.mark.parametrize("where", ["in this thread", "in another"])
def test_an_error_comes_out_and_the_next_call_works(where, side_by_side, qkv):
    here, failed, seen = threading.get_ident(), threading.Event(), []

    def work(task, scratch):
        seen.append(task)
        if (threading.get_ident() == here) == (where == "in this thread"):
            failed.set()
            raise KeyError(f"task {task}")
        failed.wait(60)

    with pytest.raises(KeyError, match="task"):
        workers.run(list(range(1000)), work, LIKE, 1.0)
    assert len(seen) <= 6  # nobody goes on for long
    assert_equal(tiled(*qkv), builtin(*qkv))


def test_an_error_within_attention(sharing, qkv, monkeypatch):
    def fail(*args):
        raise MemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(forward.tile, "exponents", fail)
        with pytest.raises(MemoryError, match="no more"):
            tiled(*qkv)
    assert_equal(tiled(*qkv), builtin(*qkv))


def test_callers_in_several_threads(sharing, qkv):
    expected = builtin(*qkv)
    results = {}

    def call(i):
        results[i] = [tiled(*(x * 1 for x in qkv)) for _ in range(5)]

    callers = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=120)
    assert sorted(results) == [0, 1, 2, 3]
    for outs in results.values():
        for out in outs:
            assert_equal(out, expected)


@pytest.mark.parametrize(
    "threads, tasks, over, way",
    [
        (1, 2, 101, []),
        (1, 2, -math.inf, []),
        (2, 1, 101, ["timed"]),
        (2, 2, 101, ["side by side"]),
        (2, 2, 100, ["timed"]),
        (3, 2, -math.inf, ["timed"]),
    ],
)
def test_which_way_tasks_are_run(threads, tasks, over, way, monkeypatch):
    """At 100 by the clock."""
    taken = []
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: 100.0))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(workers, "_side_by_side", lambda *_: taken.append("side by side"))
    monkeypatch.setattr(workers, "_crowd", SimpleNamespace(over=over, note=lambda *_: taken.append("timed")))
    workers.run(list(range(tasks)), lambda task, scratch: None, LIKE, 1.0)
    assert taken == way
    assert workers.enough() == (threads * workers.SHARES if threads > 1 and over > 100 else 1)


def test_after_two_calls_that_are_held_up_nothing_is_spread(monkeypatch):
    """Until the cores are free again. One may have been the first of its kind."""
    monkeypatch.setattr(workers, "_crowd", workers._Crowd())
    monkeypatch.setattr(workers, "_flops_per_second", lambda: 1e9)
    monkeypatch.setattr(workers, "HELD_UP_SECONDS", 0.0)
    seen = set()

    def work(task, scratch):
        seen.add(threading.get_ident())
        time.sleep(0.005)

    workers.run([1, 2], work, LIKE, 1e13)  # hours would not be suspicious
    assert workers._crowd.over == -math.inf
    workers.run([1, 2], work, LIKE, 1.0)
    workers.run([1, 2], work, LIKE, 1e9)
    workers.run([1, 2], work, LIKE, 1.0)
    assert workers._crowd.over == -math.inf
    before = time.monotonic()
    workers.run([1, 2], work, LIKE, 1.0)
    assert seen == {threading.get_ident()}
    assert workers._crowd.over > before + workers.CROWDED_SECONDS


class Flops(TorchFunctionMode):
    """Of the products that are computed within it, each."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.matmul or function is torch.Tensor.__matmul__:
            (m, k), (_, n) = args[0].shape, args[1].shape
            self.found.append(2 * m * k * n)
        return function(*args, **(kwargs or {}))


def test_the_speed_is_that_of_one_thread_in_the_fastest_product(monkeypatch):
    """By a clock that says 9 seconds, 8, … 3, 4, …"""
    seconds, now, threads = [*range(9, 2, -1), *range(4, 99)], [0.0], []

    def clock():
        threads.append(torch.get_num_threads())
        if len(threads) % 2 == 0:
            now[0] += seconds[len(threads) // 2 - 1]
        return now[0]

    monkeypatch.setattr(workers, "time", SimpleNamespace(perf_counter=clock))
    with Flops() as flops:
        speed = workers._flops_per_second.__wrapped__()
    assert len(flops.found) >= 10
    assert {speed} == {product / 3 for product in flops.found}
    assert set(threads) == {1}


def test_threads_of_a_pool_are_no_more_and_work_alone(monkeypatch):
    monkeypatch.setattr(workers, "_pools", {})
    monkeypatch.setattr(workers, "_ours", set())

    def look(_):
        time.sleep(0.01)
        return threading.current_thread().name, threading.get_ident(), torch.get_num_threads()

    with workers._pool(4) as pool:
        names, idents, counts = zip(*pool.map(look, range(12)), strict=True)
        assert workers._pool(4) is pool
    assert len(set(idents)) <= 3
    assert set(idents) <= workers._ours
    assert len(workers._ours) == 3
    assert {name.partition("_")[0] for name in names} == {"attention"}
    assert set(counts) == {1}


def test_crowded_for_the_longer_of_some_seconds_and_some_calls(monkeypatch):
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: 100.0))
    monkeypatch.setattr(workers, "_flops_per_second", lambda: 1.0)
    for seconds, expected in ((0.1, 100.0 + workers.CROWDED_SECONDS), (10.0, 100.0 + 10.0 * workers.CROWDED_CALLS)):
        crowd = workers._Crowd()
        crowd.note(seconds, 0.01)
        crowd.note(seconds, 0.01)
        assert crowd.over == expected


def test_short_calls_are_held_up_for_a_moment_before_that_tells_anything(monkeypatch):
    """Calls in a row count together; one that is not slow begins anew. Two calls are the least."""
    monkeypatch.setattr(workers, "_flops_per_second", lambda: 1.0)
    least = workers.HELD_UP_SECONDS
    for calls, is_crowded in (
        ([least / 3] * 2, False),
        ([least / 3, 0, *[least / 3] * 2], False),
        ([least / 2] * 2, True),
        ([least / 3] * 4, True),
        ([2 * least], False),
        ([2 * least, 0, 2 * least], False),
        ([2 * least, least / 3], True),
    ):
        crowd = workers._Crowd()
        for seconds in calls:
            crowd.note(seconds, 0.0)
        assert (crowd.over > 0) == is_crowded, calls


@pytest.mark.parametrize(
    "needed, times, is_crowded",
    [(0.1, 1.2, False), (1.0, workers.SLOW, False), (0.1, 1.3, True), (workers.SHORT_SECONDS, 2.9, False)],
)
def test_a_long_call_that_takes_longer_than_one_thread_would_is_held_up(monkeypatch, needed, times, is_crowded):
    """A short one may just be cold."""
    monkeypatch.setattr(workers, "_flops_per_second", lambda: 1.0)
    monkeypatch.setattr(workers, "HELD_UP_SECONDS", 0.0)
    crowd = workers._Crowd()
    for _ in range(2):
        crowd.note(times * needed, needed)
    assert (crowd.over > 0) == is_crowded


def test_speed_is_measured_once():
    assert 1e6 < workers._flops_per_second() < 1e15
    assert workers._flops_per_second() == workers._flops_per_second()


# ---- Buffers ----


def test_buffers_are_used_again():
    scratch = workers.Scratch(torch.float64, LIKE.device)
    first = scratch("a", 4, 3)
    assert (first.shape, first.dtype, first.is_contiguous()) == ((4, 3), torch.float64, True)
    assert scratch("a", 2, 5).data_ptr() == first.data_ptr()
    assert scratch("b", 4, 3).data_ptr() != first.data_ptr()
    assert scratch("a", 99).numel() == 99


def test_a_thread_keeps_its_buffers_on_a_cpu_only():
    """Those of another device torch keeps itself."""
    assert workers._scratch(LIKE) is workers._scratch(LIKE) is not workers._scratch(LIKE.float())
    like = torch.empty(0, device="meta", dtype=torch.float16)
    first, second = (workers._scratch(like) for _ in range(2))
    assert first is not second
    assert (first("a", 2, 3).device, first("a", 2, 3).dtype) == (like.device, like.dtype)


def test_a_copy_is_made_once_until_the_call_ends():
    scratch = workers.Scratch(torch.float64, LIKE.device)
    x = draw(3, 2)
    before = x.clone()
    assert torch.equal(scratch.copy("key", x, 1), x)
    x += 1
    assert torch.equal(scratch.copy("key", x, 1), before)
    assert torch.equal(scratch.copy("key", x, 2), x)
    x += 1
    scratch.forget()
    assert torch.equal(scratch.copy("key", x, 2), x)


def test_large_buffers_are_given_back(monkeypatch):
    monkeypatch.setattr(workers, "KEPT_BYTES", 80)
    scratch = workers.Scratch(torch.float64, LIKE.device)
    small, _ = scratch("small", 10), scratch("large", 11)
    scratch.forget()
    assert [name for name, _ in scratch._buffers] == ["small"]
    assert scratch("small", 3).data_ptr() == small.data_ptr()


def test_buffers_of_one_name_in_two_dtypes():
    scratch = workers.Scratch(torch.float64, LIKE.device)
    wide, narrow = scratch("x", 3).fill_(1), scratch("x", 3, dtype=torch.bfloat16).fill_(2)
    assert (wide.dtype, narrow.dtype) == (torch.float64, torch.bfloat16)
    assert wide.tolist() == [1, 1, 1]
    assert scratch("x", 2, dtype=torch.bfloat16).tolist() == [2, 2]


# ---- Forks ----

FORK = """
import math, os, sys, torch
from scratch_transformer.attention import scaled_dot_product_attention
from scratch_transformer.attention.tiled import workers

workers._crowd.over = math.inf
torch.set_num_threads(2)
x = torch.randn(1, 4, 300, 8)
expected = scaled_dot_product_attention(x, x, x, algorithm="tiled")
assert workers._pools
child = os.fork()
if child == 0:
    same = torch.equal(scaled_dot_product_attention(x, x, x, algorithm="tiled"), expected)
    os._exit(7 if same else 8)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_fork_has_threads_of_its_own():
    outcome = subprocess.run([sys.executable, "-c", FORK], timeout=300, capture_output=True, text=True)
    assert outcome.returncode == 7, outcome.stderr
