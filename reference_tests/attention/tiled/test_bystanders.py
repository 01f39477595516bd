"""Which threads may compute beside a call: a notebook's and a progress bar's do not, and nobody's own are trusted."""

import concurrent.futures.thread
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from scratch_transformer.attention.tiled import bystanders


def home_of(name):
    """A class of threads that is at home in a module of this name."""
    return type("Waiting", (threading.Thread,), {"__module__": name})


def run_by(name):
    """A function of a module of this name."""

    def wait(done):
        done.wait()

    wait.__module__ = name
    return wait


@pytest.fixture
def started():
    """Starts threads that wait for the end of the test."""
    done, threads = threading.Event(), []

    def start(cls=threading.Thread, target=threading.Event.wait):
        threads.append(cls(target=target, args=(done,)))
        threads[-1].start()
        return threads[-1]

    yield start
    done.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    "name", ["tqdm._monitor", "tensorboard.summary.writer.event_file_writer", "ipykernel.iostream"]
)
def test_what_reads_and_writes_computes_nothing(started, name):
    """Whether it is a class of its own or a function that a thread runs."""
    assert not bystanders.compute([started(home_of(name)), started(target=run_by(name))])


@pytest.mark.parametrize("name", ["__main__", "tqdm_like", "ipykernel.subshell", "multiprocessing.pool", None])
def test_of_anybody_elses_thread_nothing_is_known(started, name):
    assert bystanders.compute([started(target=run_by(name))])
    assert bystanders.compute([started(home_of("tqdm._monitor")), started(target=run_by(name))])
    assert bystanders.compute([threading.Thread(target=str.upper)])  # of C's, which has no module


def test_a_thread_of_an_executor_computes_while_it_has_a_task():
    begun, done = threading.Event(), threading.Event()

    def task():
        begun.set()
        done.wait()

    before = set(threading.enumerate())
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(task)
        begun.wait()
        (worker,) = set(threading.enumerate()) - before
        assert bystanders.compute([worker])
        done.set()
        running.result()
        assert is_soon(lambda: not bystanders.compute([worker]))
        asleep = pool.submit(done.clear)  # a task that is a function of C's has no frame of its own
        asleep.result()
    assert not worker.is_alive() and bystanders.compute([worker])


@pytest.mark.parametrize("task", [None, print])
def test_a_thread_that_has_just_got_its_task_computes(task, monkeypatch):
    """Before the task's first line runs."""
    thread = threading.current_thread()
    idle = SimpleNamespace(f_code=concurrent.futures.thread._worker.__code__, f_locals={"work_item": task})
    monkeypatch.setattr(sys, "_current_frames", lambda: {thread.ident: idle})
    assert bystanders.compute([thread]) == (task is not None)


def is_soon(condition):
    """Between its result and its next wait a thread is awake for a moment."""
    return any(condition() or threading.Event().wait(0.01) for _ in range(500))


def test_a_python_without_that_function_trusts_no_executor(monkeypatch):
    before = set(threading.enumerate())
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        (worker,) = set(threading.enumerate()) - before
        assert is_soon(lambda: not bystanders.compute([worker]))
        monkeypatch.delattr(sys.modules["concurrent.futures.thread"], "_worker")
        assert bystanders.compute([worker])
        monkeypatch.undo()
