"""Which algorithm computes a call of attention, and why."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from scratch_transformer.attention import decode, hopper_flash, naive, tiled, triton_flash
from scratch_transformer.precision import HALF_PRECISION

try:
    from torch.compiler import is_exporting
except ImportError:  # torch 2.6: there an exported graph looks like any other

    def is_exporting() -> bool:
        """No way to tell."""
        return False


_log = logging.getLogger("scratch_transformer.attention")

# Scores below which the naive algorithm is faster on a CPU: it has fewer steps.
FEW_SCORES = 1 << 20
# So few queries of so many keys that copies of the keys decide: the naive algorithm makes some of half precision and of
# keys that heads share, the tiled one does not.
FEW_QUERIES, MANY_KEYS = 16, 1 << 10
# Scores up to which the naive algorithm is faster on a GPU without kernels of its own: 2 GiB of float32.
MANY_SCORES_ON_GPU = 1 << 29


class Algorithm(Protocol):
    """A file of this package: the same function, computed in its own way."""

    def run(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        *,
        bottom_right: bool = False,
        window: tuple[int | None, int | None] = (None, None),
    ) -> Tensor:
        """As `scaled_dot_product_attention`; key and value may have fewer heads than query."""

    def unsupported(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0
    ) -> str | None:
        """Why this call can't be run, or None."""


ALGORITHMS: dict[str, Algorithm] = {
    "naive": naive,
    "tiled": tiled,
    "triton": triton_flash,
    "hopper": hopper_flash,
    "decode": decode,
}
# What "auto" takes on a GPU, the first that can.
KERNELS = {
    "decode": "few queries: keys and values are read once, by all processors",
    "hopper": "a kernel for this very GPU: copies, products and softmax overlap",
    "triton": "a kernel of its own: scores never leave the chip",
}
# Set to "triton" in the environment, "auto" leaves hopper out: those kernels are young.
VARIABLE = "SCRATCH_TRANSFORMER_ATTENTION"


@dataclass(frozen=True)
class Choice:
    """An algorithm's name, and the reason in words."""

    algorithm: str
    reason: str

    def __str__(self) -> str:
        return f"{self.algorithm}: {self.reason}"


class _Default:
    """What `use_algorithm` has set for calls that ask for "auto"."""

    algorithm = "auto"


@contextlib.contextmanager
def use_algorithm(algorithm: str) -> Iterator[None]:
    """Within this context, calls of attention that don't name an algorithm use this one, in every thread.

        with use_algorithm("naive"):
            model(src, tgt)

    Raises ValueError for a name that is not in `ALGORITHMS`, and not "auto".
    """
    _check_name(algorithm)
    before = _Default.algorithm
    _Default.algorithm = algorithm
    try:
        yield
    finally:
        _Default.algorithm = before


def choose(
    algorithm: str, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float
) -> Choice:
    """The algorithm for a call, by its name or by "auto".

    Raises:
        ValueError: there is no algorithm of this name.
        RuntimeError: it can't run this call.
    """
    _check_name(algorithm)
    name = _Default.algorithm if algorithm == "auto" else algorithm
    if name == "auto":
        choice = _choose(query, key, value, attn_mask, dropout_p)
    else:
        reason = ALGORITHMS[name].unsupported(query, key, value, attn_mask, dropout_p)
        if reason is not None:
            raise RuntimeError(f"attention: algorithm {name!r} can't run this call: {reason}")
        choice = Choice(name, "asked for")
    # a compiled graph keeps no log
    if not torch.compiler.is_compiling() and _log.isEnabledFor(logging.DEBUG):
        _log.debug("%s (query %s, key %s, %s)", choice, tuple(query.shape), tuple(key.shape), query.dtype)
    return choice


def hands_on(
    algorithm: str,
    query: Tensor,
    key: Tensor,
    is_causal: bool,
    bottom_right: bool,
    window: tuple[int | None, int | None],
) -> str | None:
    """To which other algorithm this one leaves a call that is not `unsupported`, and why; None: to no other."""
    if algorithm != "hopper":
        return None
    reason = hopper_flash.falls_back(query.shape[-2], key.shape[-2], is_causal, bottom_right, window)
    return None if reason is None else f"hands this call to triton: {reason}"


def _check_name(algorithm: str) -> None:
    if algorithm != "auto" and algorithm not in ALGORITHMS:
        known = ", ".join(["auto", *ALGORITHMS])
        raise ValueError(f"attention: algorithm must be one of {known}, but is {algorithm!r}")


def _kernels() -> dict[str, str]:
    """`KERNELS`, or what the environment leaves of them.

    Raises:
        ValueError: its word is unknown.
    """
    word = os.environ.get(VARIABLE, "")
    if not word:
        return KERNELS
    if word != "triton":
        raise ValueError(f"attention: {VARIABLE}, in the environment, must be triton or not set, but is {word!r}")
    left_out = f"; {VARIABLE}=triton leaves hopper out"
    return {name: advantage + left_out for name, advantage in KERNELS.items() if name != "hopper"}


def _choose(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float) -> Choice:
    """The fastest that can run the call."""
    if _is_transformed():
        return Choice("naive", "forward-mode derivatives, torch.func and torch.export look into every operation")
    for name, advantage in _kernels().items() if query.is_cuda else ():
        if ALGORITHMS[name].unsupported(query, key, value, attn_mask, dropout_p) is None:
            return Choice(name, advantage)
    scores = query.shape[:-1].numel() * key.shape[-2]
    if query.device.type == "cpu" and scores < FEW_SCORES and not _would_copy(query, key):
        return Choice("naive", f"the fewest steps, for fewer than {FEW_SCORES} scores")
    if query.device.type != "cpu" and scores <= MANY_SCORES_ON_GPU:
        return Choice("naive", f"the fewest steps, and {MANY_SCORES_ON_GPU} scores fit the memory")
    reason = tiled.unsupported(query, key, value, attn_mask, dropout_p)
    if reason is not None:
        return Choice("naive", f"tiled can't: {reason}")
    return Choice("tiled", "never holds all scores, and keeps every core busy")


def _would_copy(query: Tensor, key: Tensor) -> bool:
    """Whether the naive algorithm would copy many keys for few queries."""
    is_decoding = query.shape[-2] <= FEW_QUERIES and key.shape[-2] >= MANY_KEYS
    return is_decoding and (query.dtype in HALF_PRECISION or query.shape[:-2] != key.shape[:-2])


def _is_transformed() -> bool:
    """Whether somebody wants to see single operations: torch.func, forward-mode derivatives, torch.export."""
    if torch.compiler.is_compiling():
        return is_exporting()
    return tiled.is_transformed()
