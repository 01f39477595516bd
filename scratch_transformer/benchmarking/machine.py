"""What this machine can do at most: its rate of matrix products, and its bandwidth of memory."""

from __future__ import annotations

import functools
import os
import statistics
from dataclasses import asdict, dataclass
from typing import Any

import torch

from scratch_transformer.benchmarking.case import DTYPES
from scratch_transformer.benchmarking.timing import Prepared, measure, timer_of
from scratch_transformer.conformance.environment import environment

UNKNOWN = "unknown"

ENOUGH = 0.3
"""Seconds: no single product of matrices takes longer than about this."""


@dataclass(frozen=True)
class Limits:
    """gemm: floating-point operations per second of a large square product, by dtype. bandwidth: bytes per second, each
    byte read and written counted.
    """

    gemm: dict[str, float]
    bandwidth: float

    def rate(self, dtype: str) -> float:
        """The rate that a kernel of this dtype is measured by: its own, or float32's, where that is faster.

        Half-precision products are slow on processors without instructions for them; whoever widens is then faster.
        """
        return max(self.gemm[dtype], self.gemm["float32"]) if dtype in ("bfloat16", "float16") else self.gemm[dtype]


def limits(device: str, dtypes: list[str]) -> Limits:
    """Measured, on random numbers."""
    wanted = dict.fromkeys([*dtypes, "float32"])
    return Limits({dtype: gemm_rate(device, dtype) for dtype in wanted}, copy_rate(device))


def gemm_rate(device: str, dtype: str, start: int = 256, largest: int = 8192) -> float:
    """The best rate of N × N × N products: N doubles until one takes `ENOUGH`."""
    best, n, timer = 0.0, start, timer_of(device)
    while n <= largest:
        a, b = (torch.randn(n, n, device=device).to(DTYPES[dtype]) for _ in range(2))
        product = Prepared(functools.partial(torch.mm, a, b))
        once = measure(product, timer)
        repeats = max(1, min(50, int(0.02 / once)))
        seconds = min(once, *(measure(product, timer, repeats) for _ in range(3)))
        best = max(best, 2 * n**3 / seconds)
        if 8 * seconds > ENOUGH:
            break
        n *= 2
    return best


def copy_rate(device: str) -> float:
    """Bytes per second, read and written, of copying what no cache holds."""
    size = 2**30 if torch.device(device).type == "cuda" else 2**28
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    copy, timer = Prepared(lambda: target.copy_(source)), timer_of(device)
    measure(copy, timer)
    return 2 * size / statistics.median(measure(copy, timer) for _ in range(5))


def description(device: str, found: Limits) -> dict[str, Any]:
    """Versions, hardware, threads and its limits, for the results' file; who else used it, `run` fills in."""
    return {"environment": surroundings(device) | {"used by others": UNKNOWN}, "limits": asdict(found)}


def surroundings(device: str) -> dict[str, Any]:
    """Versions, hardware and threads."""
    return {**environment(device), "threads": torch.get_num_threads(), "processors": os.cpu_count()}
