"""How long the processor works before a kernel is on its way: measured without a GPU, for no kernel runs.

    python -m benchmarks.host_overhead           # needs Triton: pip install 'scratch-transformer[triton]'
    python -m benchmarks.host_overhead --keep benchmarks/results

It decides the time of short calls, and of every step of decoding. Kernels are replaced by nothing at all ("ours"), and
by what Triton does with the arguments of a launch before it calls CUDA ("with Triton's binding"). Tensors are on the
CPU, and taken for a GPU's. The lowest of many means is told, in the processor's own time: what others take away is not
counted, but what they drive out of its caches is.
"""

import argparse
import contextlib
import time
import timeit
from unittest import mock

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.jit import create_function_from_signature

from scratch_transformer.attention import hopper_flash, scaled_dot_product_attention
from scratch_transformer.attention.gpu import call, delta, flash, hopper, launch, split_kv
from scratch_transformer.benchmarking.measurement import kept

SUBJECT = "host overhead"

MODULES = (delta, flash, hopper, split_kv)
GOALS = {"hopper forward": 40, "triton forward": 30}
"""Microseconds of our own time."""


class Unlaunched:
    """A kernel that is not launched. binds: whether Triton looks at its arguments."""

    def __init__(self, kernel, binds):
        backend = make_backend(GPUTarget("cuda", 90, 32))
        self.binder = create_function_from_signature(kernel.signature, kernel.params, backend) if binds else None

    def __getitem__(self, grid):
        return self.launch

    def launch(self, *args, **options):
        if self.binder is not None:
            self.binder(*args, **options)


def nothing(device):
    """Is missing."""


def processors(device):
    """Of an H100."""
    return 132


@contextlib.contextmanager
def as_if_on_a_gpu():
    """Tensors on the CPU are taken for an H100's."""
    with (
        mock.patch.object(torch.Tensor, "is_cuda", True, create=True),
        mock.patch.object(call, "TRITON_VERSION", "3.6.0"),
        mock.patch.object(call, "INTERPRETED", True),
        mock.patch.object(hopper_flash, "_unsupported_machine", nothing),
        mock.patch.object(launch, "num_processors", processors),
    ):
        yield


@contextlib.contextmanager
def a_gpu(binds=False):
    """… whose kernels take no time."""
    with as_if_on_a_gpu(), contextlib.ExitStack() as stack:
        for module in MODULES:
            for name in [name for name in vars(module) if name.endswith("_kernel")]:
                kernel = Unlaunched(getattr(module, name), binds)
                stack.enter_context(mock.patch.object(module, name, kernel))
        yield


def calls():
    """Name -> a call, for each of our ways."""
    query, one = torch.randn(1, 2, 128, 64).bfloat16(), torch.randn(1, 2, 1, 64).bfloat16()
    wanting = [query.clone().requires_grad_() for _ in range(3)]

    def forward(q, k, v, algorithm="auto"):
        return lambda: scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1, algorithm=algorithm)

    def backward(algorithm):
        out = scaled_dot_product_attention(*wanting, is_causal=True, algorithm=algorithm)
        upstream = torch.ones_like(out)
        return lambda: torch.autograd.grad(out, wanting, upstream, retain_graph=True)

    return {
        "hopper forward": forward(query, query, query),
        "hopper forward, gradients wanted": forward(*wanting),
        "hopper backward": backward("hopper"),
        "triton forward": forward(query, query, query, "triton"),
        "triton forward, gradients wanted": forward(*wanting, "triton"),
        "triton backward": backward("triton"),
        "decode": forward(one, query, query),
    }


def microseconds(function, number=200, repeat=15):
    """The lowest mean."""
    function()
    return min(timeit.repeat(function, timer=time.process_time, number=number, repeat=repeat)) / number * 1e6


def main(arguments=None):
    """Print a line a call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", metavar="FOLDER", help="keep the result there, dated")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with kept(SUBJECT, options.keep) as found:
        for title, binds in (("ours", False), ("with Triton's binding", True)):
            with a_gpu(binds):
                for name, function in calls().items():
                    found.setdefault(name, {})[title] = microseconds(function)
    print(f"{'µs of the processor, for each call':36}{'ours':>8}{'with Triton’s binding':>24}{'goal':>8}")
    for name, (ours, bound) in ((name, times.values()) for name, times in found.items()):
        print(f"{name:36}{ours:8.1f}{bound:24.1f}{GOALS.get(name, ''):>8}")


if __name__ == "__main__":
    main()
