"""What was chosen without a GPU, and its alternatives: each is a few numbers in the kernels' tables, set for a call."""

import contextlib
import dataclasses
import functools
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from scratch_transformer.benchmarking.timing import Prepared

GPU = "scratch_transformer.attention.gpu"
FORWARD, BACKWARD, BOTH = ("forward",), ("backward",), ("forward", "backward")


@dataclasses.dataclass(frozen=True)
class Choice:
    """algorithm: whose choice it is. switch: the alternative, for as long as it lasts. width: of the heads that it is
    about, or None: of all. change: what to do if the alternative is faster.
    """

    algorithm: str
    switch: Callable[[], AbstractContextManager[None]]
    change: str
    directions: tuple[str, ...] = BOTH
    causal: tuple[bool, ...] = (False, True)
    width: int | None = None


@contextlib.contextmanager
def replaced(table, key, value):
    """table[key], or an attribute of a module, is value for a while."""
    get, put = (getattr, setattr) if not isinstance(table, dict) else (dict.get, dict.__setitem__)
    before = get(table, key)
    put(table, key, value)
    try:
        yield
    finally:
        put(table, key, before)


def _tiles(kernel, width, *numbers):
    """Other tiles of a portable kernel for a plain call."""

    @contextlib.contextmanager
    def switch():
        launch = importlib.import_module(f"{GPU}.launch")
        table = launch.HOPPER[kernel]
        with replaced(table, width, (launch.Tiles(*numbers), *table[width][1:])):
            yield

    return switch


def _hopper(table, *path_and_value):
    """Another number in a table of `hopper.py`, or of one of its parts."""

    @contextlib.contextmanager
    def switch():
        *path, key, value = path_and_value
        found = getattr(importlib.import_module(f"{GPU}.hopper"), table)
        for name in path:
            found = found[name]
        with replaced(found, key, value):
            yield

    return switch


@contextlib.contextmanager
def _in_turn():
    """Causal pieces are taken in turn, and not dealt out by length."""
    work = importlib.import_module(f"{GPU}.hopper_work")
    with replaced(work, "MANY", 0), replaced(work, "dealt", _cached(work.dealt.__wrapped__)):
        yield


_cached = functools.cache(functools.cache)
"""Tables are made once, whoever makes them."""


def _two_walks():
    """As for deterministic algorithms, but without torch's filling of memory that nobody has written to."""
    return replaced(torch, "are_deterministic_algorithms_enabled", lambda: True)


PORTABLE = [
    ("forward", 64, "two-stages", (128, 128, 8, 2), FORWARD),
    ("forward", 128, "two-stages", (128, 128, 8, 2), FORWARD),
    ("forward", 128, "fewer-keys", (128, 64, 8, 3), FORWARD),
    ("grad_query", 64, "two-stages", (128, 64, 8, 2), BACKWARD),
    ("grad_query", 128, "two-stages", (128, 64, 8, 2), BACKWARD),
    ("grad_key_value", 64, "two-stages", (64, 128, 8, 2), BACKWARD),
    ("grad_key_value", 128, "two-stages", (32, 128, 8, 2), BACKWARD),
]
CHOICES = {
    "two-walks": Choice("hopper", _two_walks, "hopper._backward to two walks", BACKWARD),
    "no-turns-64": Choice("hopper", _hopper("TURNS", 64, False), "hopper.TURNS[64] to False", FORWARD, width=64),
    "no-turns-128": Choice("hopper", _hopper("TURNS", 128, False), "hopper.TURNS[128] to False", FORWARD, width=128),
    "two-slots-128": Choice("hopper", _hopper("SLOTS", "forward", 128, 2), "hopper.SLOTS to 2", FORWARD, width=128),
    "four-slots-64": Choice("hopper", _hopper("SLOTS", "forward", 64, 4), "hopper.SLOTS to 4", FORWARD, width=64),
    "grads-two-slots-64": Choice("hopper", _hopper("SLOTS", "grads", 64, 2), "hopper.SLOTS to 2", BACKWARD, width=64),
    "grads-four-slots-64": Choice("hopper", _hopper("SLOTS", "grads", 64, 4), "hopper.SLOTS to 4", BACKWARD, width=64),
    "in-turn": Choice("hopper", _in_turn, "hopper_work.dealt to pieces in turn", FORWARD, (True,)),
} | {
    f"portable-{kernel}-{width}-{what}": Choice(
        "triton",
        _tiles(kernel, width, *numbers),
        f"launch.HOPPER[{kernel!r}][{width}] to {numbers}",
        directions,
        width=width,
    )
    for kernel, width, what, numbers, directions in PORTABLE
}
DRY = {"dry-nothing": Choice("tiled", contextlib.nullcontext, "nothing", FORWARD)}


def under(prepared, choice):
    """The same call under the alternative, which is set outside the clock."""

    @contextlib.contextmanager
    def context():
        with choice.switch(), prepared.context():
            yield

    return Prepared(prepared.call, context, prepared.proof)
