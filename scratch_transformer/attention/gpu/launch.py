"""Tile sizes for the portable kernels, and what a GPU has to offer them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
import triton
from torch import Tensor

Result = TypeVar("Result")


class Tiles(NamedTuple):
    """Queries and keys per tile, warps per program, and how many tiles ahead are being loaded."""

    block_t: int
    block_s: int
    num_warps: int
    num_stages: int

    def options(self) -> dict[str, int]:
        """As keyword arguments of a launch."""
        return {
            "BLOCK_T": self.block_t,
            "BLOCK_S": self.block_s,
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
        }


# What a kernel needs registers for. A window, and for the gradients of shared keys a loop over heads, are more than a
# plain call; a mask and dropout are most of all. A causal mask is plain.
PLAIN, BANDED, MASKED = range(3)

# kernel -> largest head width -> choices: plain, banded, masked.
# A table instead of a search at run time, which costs a minute per shape. The tiles are the largest found that fit into
# shared memory and that Triton 3.6 compiles without register spills: a test compiles each of them. Three stages where
# they fit: with two, all copies are waited for at the head of the loop, and with three those of the next tile are still
# under way.
HOPPER = {  # sm_90, 227 KB of shared memory for a block
    "forward": {
        64: (Tiles(128, 128, 8, 3), Tiles(128, 128, 8, 3), Tiles(128, 64, 8, 3)),
        128: (Tiles(128, 128, 8, 3), Tiles(128, 64, 8, 2), Tiles(128, 64, 8, 3)),
        256: (Tiles(128, 64, 8, 2), Tiles(128, 32, 8, 2), Tiles(64, 32, 8, 2)),
    },
    "grad_query": {
        64: (Tiles(128, 64, 8, 3),) * 3,
        128: (Tiles(128, 64, 8, 3),) * 3,
        256: (Tiles(64, 32, 8, 3),) * 3,
    },
    "grad_key_value": {
        64: (Tiles(64, 128, 8, 3), Tiles(32, 128, 8, 3), Tiles(32, 128, 8, 2)),
        128: (Tiles(32, 128, 8, 3), Tiles(32, 128, 8, 2), Tiles(32, 32, 8, 2)),
        256: (Tiles(16, 64, 8, 1), Tiles(16, 64, 8, 1), Tiles(16, 16, 8, 1)),
    },
}
AMPERE = {  # sm_80, 163 KB
    "forward": {
        64: (Tiles(128, 64, 4, 3), Tiles(128, 64, 8, 3), Tiles(128, 64, 8, 3)),
        128: (Tiles(128, 32, 8, 3), Tiles(128, 32, 8, 3), Tiles(128, 64, 8, 3)),
        256: (Tiles(64, 64, 8, 2), Tiles(64, 32, 8, 3), Tiles(64, 32, 8, 2)),
    },
    "grad_query": {
        64: (Tiles(128, 64, 8, 3), Tiles(128, 64, 8, 3), Tiles(64, 32, 4, 3)),
        128: (Tiles(64, 64, 8, 3),) * 3,
        256: (Tiles(64, 32, 8, 3), Tiles(64, 32, 8, 2), Tiles(64, 32, 8, 2)),
    },
    "grad_key_value": {
        64: (Tiles(32, 128, 8, 3), Tiles(32, 64, 8, 1), Tiles(32, 64, 8, 1)),
        128: (Tiles(64, 64, 8, 2), Tiles(32, 64, 8, 3), Tiles(32, 32, 8, 3)),
        256: (Tiles(16, 64, 8, 2), Tiles(16, 64, 8, 2), Tiles(16, 32, 8, 2)),
    },
}
SMALL = {  # sm_86, sm_89, sm_120, 99 KB
    "forward": {
        64: (Tiles(128, 64, 8, 3),) * 3,
        128: (Tiles(128, 32, 8, 3), Tiles(128, 32, 8, 3), Tiles(128, 32, 8, 2)),
        256: (Tiles(64, 32, 8, 2), Tiles(64, 32, 8, 1), Tiles(64, 32, 8, 1)),
    },
    "grad_query": {
        64: (Tiles(128, 32, 8, 3), Tiles(128, 32, 8, 3), Tiles(64, 32, 4, 3)),
        128: (Tiles(64, 32, 8, 3),) * 3,
        256: (Tiles(32, 32, 8, 2),) * 3,
    },
    "grad_key_value": {
        64: (Tiles(32, 128, 8, 2), Tiles(32, 64, 8, 1), Tiles(32, 64, 8, 1)),
        128: (Tiles(32, 64, 8, 2), Tiles(32, 64, 8, 2), Tiles(32, 32, 8, 2)),
        256: (Tiles(16, 32, 8, 2), Tiles(16, 32, 8, 2), Tiles(16, 16, 8, 1)),
    },
}
FLOAT32 = {  # no tensor cores compute it: each thread multiplies numbers, and tiles are small on every GPU
    "forward": {64: (Tiles(32, 16, 8, 1),) * 3, 128: (Tiles(16, 16, 8, 1),) * 3, 256: (Tiles(16, 16, 8, 1),) * 3},
    "grad_query": {64: (Tiles(32, 16, 8, 1),) * 3, 128: (Tiles(16, 16, 8, 1),) * 3, 256: (Tiles(16, 16, 8, 1),) * 3},
    "grad_key_value": {
        64: (Tiles(16, 32, 8, 1),) * 3,
        128: (Tiles(16, 16, 8, 1),) * 3,
        256: (Tiles(16, 16, 16, 1),) * 3,
    },
}


def table(dtype: torch.dtype, shared_memory: int) -> dict[str, dict[int, tuple[Tiles, Tiles, Tiles]]]:
    """The table for GPUs with so many bytes of shared memory per block."""
    if dtype == torch.float32:
        return FLOAT32
    return HOPPER if shared_memory >= 200 * 1024 else AMPERE if shared_memory >= 160 * 1024 else SMALL


def tiles(kernel: str, width: int, dtype: torch.dtype, shared_memory: int, needs: int) -> Tiles:
    """The tiles of `kernel` for heads of this width. needs: PLAIN, BANDED or MASKED."""
    choices = table(dtype, shared_memory)[kernel]
    return choices[next(limit for limit in choices if width <= limit)][needs]


@functools.cache
def shared_memory(device: torch.device) -> int:
    """Bytes per block. The interpreter runs on the CPU and takes what the largest GPU takes."""
    if device.type != "cuda":
        return 227 * 1024
    return triton.runtime.driver.active.utils.get_device_properties(device.index or 0)["max_shared_mem"]


@functools.cache
def num_processors(device: torch.device) -> int:
    """Streaming multiprocessors: how many programs run at once if each fills one."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def on_its_device(function: Callable[..., Result]) -> Callable[..., Result]:
    """Calls it with the device of its first argument, a tensor, as the current one: that is where launches go."""

    @functools.wraps(function)
    def on_device(x: Tensor, *args: Any) -> Result:
        if x.device.type != "cuda" or x.device.index == torch.cuda.current_device():
            return function(x, *args)
        with torch.cuda.device(x.device):
            return function(x, *args)

    return on_device


def side_by_side(x: Tensor, width: int) -> Tensor:
    """Memory for (B, H, T, width), with heads beside each other: merging them afterwards copies nothing.

    One after the other, if a head would not be within reach.
    """
    B, H, T, _ = x.shape
    strides = (T * H * width, width, H * width, 1)
    return x.new_empty_strided((B, H, T, width), strides) if strides[0] < 2**31 else x.new_empty(B, H, T, width)


def block_width(width: int) -> int:
    """Tiles are powers of two, and 16 is the least that a tensor core multiplies."""
    return max(16, triton.next_power_of_2(width))


def split_options(width: int, dtype: torch.dtype) -> dict[str, int]:
    """Keys per tile, warps and stages for few queries: as many loads are ahead as shared memory holds."""
    if dtype == torch.float32 and width > 128:
        return {"BLOCK_S": 16, "num_warps": 8, "num_stages": 1}
    if dtype == torch.float32 or width > 128:
        return {"BLOCK_S": 64, "num_warps": 4, "num_stages": 1}
    # 48 KB: so that as many programs are at work at once as `split_kv` counts on
    return {"BLOCK_S": 64 if width <= 64 else 32, "num_warps": 4, "num_stages": 3}
