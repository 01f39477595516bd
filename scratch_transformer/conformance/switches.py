"""Torch's global switches, set for a comparison."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def exact() -> Iterator[None]:
    """Torch's global switches as the proof needs them, and afterwards as they were.

    The fast path of torch's attention differs from its slow path at padded positions; TF32 has 10 bits in place of 23;
    small tensors are fastest in one thread. The random numbers of the caller are not consumed.
    """
    matmul, cudnn, mha = torch.backends.cuda.matmul, torch.backends.cudnn, torch.backends.mha
    saved = matmul.allow_tf32, cudnn.allow_tf32, mha.get_fastpath_enabled(), torch.get_num_threads()
    dtype, gpus = torch.get_default_dtype(), range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()

    def switch(matmul_tf32: bool, cudnn_tf32: bool, fast_path: bool, threads: int) -> None:
        matmul.allow_tf32, cudnn.allow_tf32 = matmul_tf32, cudnn_tf32
        mha.set_fastpath_enabled(fast_path)
        torch.set_num_threads(threads)

    with torch.random.fork_rng(devices=gpus), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*nested[ _]tensor")
        warnings.filterwarnings("ignore", message="size_average and reduce args will be deprecated")
        switch(False, False, False, 1)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            switch(*saved)


@contextlib.contextmanager
def fast_path(is_on: bool) -> Iterator[None]:
    """The fast path of torch's own layers on or off, and afterwards as it was."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(is_on)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
