"""One kernel's first launch: forward and backward against float64, in a process that may be killed.

python -m benchmarks.contact.smoke --list
timeout -k 5 60 python -m benchmarks.contact.smoke hopper-D128-causal
"""

import argparse
import contextlib
import functools
import time
import traceback

import torch

from benchmarks.contact import lines
from scratch_transformer.benchmarking.attention_case import AttentionCase
from scratch_transformer.benchmarking.case import Rival, Unsupported, Wrong

MANY = (4, 32, 1000)
"""Batch, heads, length: more pieces of work than two for each processor, and a last tile that is not full."""


def _cases():
    """Name -> algorithm, case, whether in a fixed order. First the portable kernels, which can't hang."""
    both = functools.partial(AttentionCase, dtype="bfloat16", direction="both")
    found = {}
    for width in (64, 128):
        for is_causal in (False, True):
            name = f"D{width}-{'causal' if is_causal else 'full'}"
            found[f"triton-{name}"] = "triton", both(*MANY, width, is_causal=is_causal), True
            for fixed in (False, True):
                order = "-fixed-order" * fixed
                found[f"hopper-{name}{order}"] = "hopper", both(*MANY, width, is_causal=is_causal), fixed
            found[f"hopper-{name}-grouped"] = "hopper", both(2, 8, 500, width, is_causal=is_causal, G=2), False
    found["triton-grouped"] = "triton", both(2, 8, 500, 128, G=2), True
    for variant in ("mask", "window", "dropout", "padding"):
        found[f"triton-{variant}"] = "triton", both(2, 8, 500, 128, variant=variant), True
    found["triton-float32"] = "triton", AttentionCase(2, 4, 300, 64, "float32", "both"), True
    found["triton-float16-D256"] = "triton", AttentionCase(2, 4, 300, 256, "float16", "both"), True
    found["triton-D80-causal"] = "triton", both(2, 4, 300, 80, is_causal=True), True
    for width in (64, 128):
        found[f"decode-D{width}"] = "decode", AttentionCase(8, 32, 1, width, "bfloat16", S=8192, G=8), True
    found["hopper-no-queries-beyond"] = "hopper", both(1, 2, 5, 64, is_causal=True), False
    return found


CASES = _cases()
DRY = {
    "dry-tiled": ("tiled", AttentionCase(1, 2, 48, 16, "bfloat16", "both", is_causal=True), True),
}


def main():
    """Check one case and write a line about it; the exit status says whether it passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--list", action="store_true", help="the names of the cases that have not passed yet")
    parser.add_argument("--dry", action="store_true", help="cases for a processor")
    options = parser.parse_args()
    cases = DRY if options.dry else CASES
    if options.list:
        passed = {line["name"] for line in lines.read("smoke") if line["passed"]}
        print("\n".join(name for name in cases if name not in passed))
        return
    algorithm, case, fixed = cases[options.name]
    start = time.perf_counter()
    passed, told = _check(algorithm, case, fixed, "cpu" if options.dry else "cuda")
    lines.write("smoke", name=options.name, passed=passed, told=told, seconds=round(time.perf_counter() - start, 1))
    raise SystemExit(0 if passed else 1)


def _check(algorithm, case, fixed, device):
    rival = Rival(f"ours {algorithm}", is_ours=True)
    try:
        with deterministic(fixed):
            inputs = case.draw(device)
            outcome = case.prepare(rival, inputs).outcome()
            error = case.check(outcome, case.golden(inputs))
    except Unsupported as reason:
        return False, f"unsupported: {reason}"
    except Wrong as reason:
        return False, f"wrong: {reason}"
    except Exception as error:  # of the compiler, or of CUDA
        traceback.print_exc()
        return False, lines.shortened(f"{type(error).__name__}: {error}")
    return True, "scatters rightly" if error is None else f"error {error:.1e}"


def stuck(algorithm, width=None):
    """The first launch of an algorithm, with heads of a width, that hung or crashed, as all others may; or None."""
    passed = {line["name"] for line in lines.read("smoke") if line["passed"]}
    for line in lines.read("failed"):
        of, case, _ = CASES.get(line["name"], (None, None, None))
        if of == algorithm and width in (None, case.D) and line["name"] not in passed:
            return f"{line['name']} {line['error']}"
    return None


@contextlib.contextmanager
def deterministic(fixed):
    """Sums in a fixed order, or in any."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(fixed, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


if __name__ == "__main__":
    main()
