"""Calls whose kernels Triton launches with a driver that is none, `fake_cuda.c`: its library is the first argument.

Tensors on the CPU are taken for a Hopper's. Prints each call's name, and the launches as lines.
"""

import ctypes
import sys

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import CudaDriver, CudaLauncher, CudaUtils
from triton.runtime import driver

from benchmarks.contact.smoke import deterministic
from benchmarks.host_overhead import as_if_on_a_gpu
from scratch_transformer.attention import decode, hopper_flash, triton_flash


class Driver(CudaDriver):
    """Triton's own, but for what torch is asked."""

    def __init__(self):
        self.utils, self.launcher_cls = CudaUtils(), CudaLauncher
        self.get_current_device = lambda: 0
        self.get_current_stream = lambda device: 0
        self.get_current_target = lambda: GPUTarget("cuda", 90, 32)


def tensors(*shapes):
    return [torch.randn(shape).bfloat16() for shape in shapes]


def calls():
    """Name -> algorithm, query, key and value, whether in a fixed order. All causal."""
    x = tensors(*[(1, 2, 300, 64)] * 3)
    (apart,), (fused,) = tensors((1 + 2 * 300 * 64,)), tensors((1, 300, 3, 2, 64))
    (one, *long), (few, short) = (
        tensors((2, 8, 1, 128), *[(2, 2, 4096, 128)] * 2),
        tensors((1, 2, 1, 64), (1, 2, 0, 64)),
    )
    return {
        "hopper": (hopper_flash, x, False),
        "in a fixed order": (hopper_flash, x, True),
        "between two steps of the copy engine": (hopper_flash, [apart[1:].view(x[0].shape)] * 3, False),
        "projected together": (hopper_flash, [part.transpose(1, 2) for part in fused.unbind(2)], False),
        "of one head for all": (hopper_flash, [x[0], x[1][:, :1].expand_as(x[0]), x[2]], False),
        "one query": (hopper_flash, [tensor[:, :, :1] for tensor in x], False),
        "triton": (triton_flash, x, False),
        "no batch": (triton_flash, [tensor[:0] for tensor in x], False),
        "decode": (decode, [one, *long], False),
        "decode, no keys": (decode, [few, short, short], False),
    }


def main():
    ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)  # whoever asks for a library of this name is given it
    driver.set_active(Driver())
    with as_if_on_a_gpu():
        for name, (algorithm, given, fixed) in calls().items():
            print(f"- {name}", flush=True)
            given = [x.detach().requires_grad_(algorithm is not decode) for x in given]
            with deterministic(fixed):
                out = algorithm.run(*given, is_causal=algorithm is not decode)
                if algorithm is not decode:
                    out.sum().backward()


if __name__ == "__main__":
    main()
