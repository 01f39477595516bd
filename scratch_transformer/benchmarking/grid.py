"""Which cases are run: a few in `tiny`, to see that everything works; a selection in `quick`; all in `full`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import torch

from scratch_transformer.benchmarking.attention_case import AttentionCase
from scratch_transformer.benchmarking.case import Case
from scratch_transformer.benchmarking.layer_case import LayerCase
from scratch_transformer.benchmarking.problem import Direction, Variant
from scratch_transformer.benchmarking.timing import Effort

Extent = Literal["tiny", "quick", "full"]

SUBJECTS = ("attention", "variants", "layers", "training")

VARIANTS: tuple[Variant, ...] = ("dropout", "mask", "padding", "window")

# Batch, heads, length, width.
TINY = [(1, 2, 48, 16)]
QUICK_CPU = [(8, 8, 128, 64), (4, 8, 512, 64), (1, 8, 1024, 64)]
FULL_CPU = [(8, 8, 128, 64), (4, 8, 512, 64), (1, 8, 1024, 64), (1, 8, 2048, 64), (1, 8, 4096, 64), (1, 4, 2048, 128)]


def on_cuda(length: int, width: int) -> tuple[int, int, int, int]:
    """16384 positions in all, 2048 numbers for each: how published figures are drawn."""
    return 16384 // length, 2048 // width, length, width


QUICK_CUDA = [on_cuda(length, width) for width in (64, 128) for length in (512, 2048, 8192)]
FULL_CUDA = [on_cuda(length, width) for width in (64, 128) for length in (512, 1024, 2048, 4096, 8192, 16384)]

EFFORT: dict[Extent, Effort] = {"tiny": Effort(3, 0.1), "quick": Effort(12, 0.8), "full": Effort(15, 4.0)}


ENOUGH: dict[Extent, float] = {"tiny": math.inf, "quick": 160.0, "full": math.inf}
"""Seconds after which no further case is begun, so that a quick run ends in three minutes on a busy machine too."""

COMPILING = 300.0
"""As many more on a GPU, whose kernels are compiled at first: a quick run ends in ten minutes."""


def enough(extent: Extent, device: str) -> float:
    """Seconds after which no further case is begun."""
    return ENOUGH[extent] + COMPILING * (torch.device(device).type == "cuda")


def cases(subject: str, extent: Extent, device: str) -> list[Case]:
    """The cases of a subject, in the order in which they are run.

    Raises:
        ValueError: there is no such subject.
    """
    grids = {"attention": attention, "variants": variants, "layers": layers, "training": training}
    if subject not in grids:
        raise ValueError(f"subject must be one of {', '.join(SUBJECTS)}, got {subject!r}")
    return list(grids[subject](extent, torch.device(device).type == "cuda"))


def attention(extent: Extent, is_cuda: bool) -> Iterator[Case]:
    """Lengths and widths, full and causal, in every dtype and direction."""
    for dtype in dtypes(extent, is_cuda):
        for direction in directions(extent, is_cuda):
            for is_causal in (False, True):
                for B, H, T, D in shapes(extent, is_cuda):
                    yield AttentionCase(B, H, T, D, dtype, direction, is_causal)


def shapes(extent: Extent, is_cuda: bool) -> list[tuple[int, int, int, int]]:
    """Batch, heads, length, width."""
    if extent == "tiny":
        return TINY
    if is_cuda:
        return QUICK_CUDA if extent == "quick" else FULL_CUDA
    return QUICK_CPU if extent == "quick" else FULL_CPU


def dtypes(extent: Extent, is_cuda: bool) -> list[str]:
    """A GPU is for low precision; a processor is measured in all three."""
    if extent == "full":
        return ["bfloat16", "float16"] if is_cuda else ["bfloat16", "float32", "float16"]
    return ["bfloat16"] if is_cuda else ["bfloat16", "float32"]


def directions(extent: Extent, is_cuda: bool) -> list[Direction]:
    """On a GPU a training step's parts are long enough to be timed one by one."""
    if extent == "tiny":
        return ["forward", "backward", "both"]
    return ["forward", "backward"] if is_cuda else ["forward", "both"]


def variants(extent: Extent, is_cuda: bool) -> Iterator[Case]:
    """Dropout, masks, grouped queries, a window, and one query against many keys."""
    B, H, T, D = TINY[0] if extent == "tiny" else (4, 32, 4096, 64) if is_cuda else (1, 8, 1024, 64)
    S, G = (96, 1) if extent == "tiny" else (65536, H // 4) if is_cuda else (16384, 2)
    wanted = (
        ["bfloat16"] if is_cuda or extent == "quick" else ["float32"] if extent == "tiny" else ["bfloat16", "float32"]
    )
    for dtype in wanted:
        wanted_directions: tuple[Direction, ...] = ("forward",) if extent == "quick" else ("forward", "both")
        for direction in wanted_directions:
            yield from (AttentionCase(B, H, T, D, dtype, direction, variant=variant) for variant in VARIANTS)
            yield AttentionCase(B, H, T, D, dtype, direction, G=G)
        yield AttentionCase(B, H, 1, D, dtype, "forward", S=S)
        yield AttentionCase(B, H, 1, D, dtype, "forward", S=S, G=G)


def layers(extent: Extent, is_cuda: bool) -> Iterator[Case]:
    """Modules of the base model, forward in evaluation, and forward and backward in training."""
    sizes = [(2, 8)] if extent == "tiny" else [(32, 512), (8, 2048)] if is_cuda else [(8, 128)]
    sizes += [(2, 512)] if extent == "full" and not is_cuda else []
    for name in ("MultiheadAttention", "TransformerEncoderLayer"):
        for mode in ("evaluation", "training"):
            for B, T in sizes:
                yield _layer(name, B, T, mode, extent, is_cuda)


def training(extent: Extent, is_cuda: bool) -> Iterator[Case]:
    """One step of the whole Transformer: forward, backward, Adam."""
    B, T = (2, 8) if extent == "tiny" else (32, 256) if is_cuda else (8, 64)
    for mode in ("evaluation", "step") if extent == "full" else ("step",):
        yield _layer("Transformer", B, T, mode, extent, is_cuda)


def _layer(name: str, B: int, T: int, mode: str, extent: Extent, is_cuda: bool) -> LayerCase:
    width = {"d_model": 16, "num_heads": 2, "d_ff": 32} if extent == "tiny" else {}
    return LayerCase(name, B, T, mode, "bfloat16" if is_cuda else "float32", **width)


def memory(extent: Extent, device: str) -> list[AttentionCase]:
    """One length after the other, in float32 on a processor and in bfloat16 on a GPU, to see how memory grows."""
    is_cuda = torch.device(device).type == "cuda"
    highest = {"tiny": 7, "quick": 12, "full": 15 if is_cuda else 14}[extent]
    lowest = 6 if extent == "tiny" else 9
    directions: tuple[Direction, ...] = ("forward",) if extent == "quick" else ("forward", "both")
    dtype = "bfloat16" if is_cuda else "float32"
    return [
        AttentionCase(1, 8, 2**n, 64, dtype, direction) for direction in directions for n in range(lowest, highest + 1)
    ]
