"""What was chosen without a GPU, and its alternatives: each is a few numbers in the kernels' tables, set for a call."""

import contextlib
import dataclasses
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager

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


CHOICES = {
    f"portable-{kernel}-{width}-{what}": Choice(
        "triton",
        _tiles(kernel, width, *numbers),
        f"launch.HOPPER[{kernel!r}][{width}] to {numbers}",
        directions,
        width=width,
    )
    for kernel, width, what, numbers, directions in (
        ("forward", 64, "two-stages", (128, 128, 8, 2), FORWARD),
        ("forward", 128, "two-stages", (128, 128, 8, 2), FORWARD),
        ("forward", 128, "fewer-keys", (128, 64, 8, 3), FORWARD),
        ("grad_query", 64, "two-stages", (128, 64, 8, 2), BACKWARD),
        ("grad_query", 128, "two-stages", (128, 64, 8, 2), BACKWARD),
        ("grad_key_value", 64, "two-stages", (64, 128, 8, 2), BACKWARD),
        ("grad_key_value", 128, "two-stages", (32, 128, 8, 2), BACKWARD),
    )
}
DRY = {"dry-nothing": Choice("tiled", contextlib.nullcontext, "nothing", FORWARD)}


def under(prepared, choice):
    """The same call under the alternative, which is set outside the clock."""

    @contextlib.contextmanager
    def context():
        with choice.switch(), prepared.context():
            yield

    return Prepared(prepared.call, context, prepared.proof)
