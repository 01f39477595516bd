"""Memory of attention, measured from outside: what the operating system says of processes that have ended.

    python -m scratch_transformer.benchmarking.outside tiled --shape 1 8 32768 64 --dtype float32

Two processes run one after the other: one draws the inputs and makes room for the outputs, the other computes them too.
How much larger the second became at its largest is what the algorithm takes. Nothing of `memory.py` is used.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the peak, in MiB, above inputs and outputs."""
    options = _parser().parse_args(arguments)
    if options.child:
        _compute(options)
        return
    given = list(sys.argv[1:] if arguments is None else arguments)
    sizes = [_largest_size([*given, "--child", child]) for child in ("waits", "computes")]
    shape = " ".join(f"{letter}{size}" for letter, size in zip("BHLD", options.shape, strict=True))
    kind = f"{shape}{' causal' * options.causal} {options.dtype}{' forward and backward' * options.backward}"
    print(f"{options.algorithm}, {kind}: {(sizes[1] - sizes[0]) / 2**20:.1f} MiB above inputs and outputs")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scratch_transformer.benchmarking.outside", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("algorithm", help="one of ours, auto, or torch")
    parser.add_argument("--shape", type=int, nargs=4, default=[1, 8, 32768, 64], metavar=("B", "H", "L", "D"))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--backward", action="store_true", help="forward and backward")
    parser.add_argument("--child", choices=["waits", "computes"], help=argparse.SUPPRESS)
    return parser


def _largest_size(arguments: Sequence[str]) -> int:
    """Bytes of resident memory that a process with these arguments had at most, as the system counted them."""
    process = subprocess.Popen([sys.executable, "-m", "scratch_transformer.benchmarking.outside", *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"the process that was measured ended with {process.returncode}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _compute(options: argparse.Namespace) -> None:
    """In the process that is measured: the call, or only what surrounds it."""
    import torch

    dtype = getattr(torch, options.dtype)
    torch.manual_seed(0)
    _attend(options, *(torch.randn(1, 1, 16, 64, dtype=dtype) for _ in range(4)))  # libraries load their code
    inputs = [torch.randn(options.shape, dtype=dtype) for _ in range(4)]
    if options.child == "computes":
        _attend(options, *inputs)
    else:
        _ = [torch.ones(options.shape, dtype=dtype) for _ in range(4 if options.backward else 1)]


def _attend(options: argparse.Namespace, *inputs: Any) -> tuple[Any, ...]:
    """The output, and the gradients of query, key and value if they are asked for."""
    import torch

    from scratch_transformer.attention import scaled_dot_product_attention

    *qkv, upstream = (x.requires_grad_(options.backward) for x in inputs)
    kind: dict[str, Any] = {"is_causal": options.causal}
    kind |= {} if options.algorithm == "torch" else {"algorithm": options.algorithm}
    builtin = torch.nn.functional.scaled_dot_product_attention
    attention = builtin if options.algorithm == "torch" else scaled_dot_product_attention
    with torch.set_grad_enabled(options.backward):
        out = attention(*qkv, **kind)
        return (out, *torch.autograd.grad(out, qkv, upstream)) if options.backward else (out,)


if __name__ == "__main__":
    main()
