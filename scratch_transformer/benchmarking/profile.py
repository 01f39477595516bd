"""What tiled attention spends its time on, beside what this machine can do at best.

    python -m scratch_transformer.benchmarking.profile --shape 1 8 2048 64
    python -m scratch_transformer.benchmarking.profile --keep benchmarks/results

One thread, float32, forward: the share of each operation, the rate of the matrix products, and that of the same
products alone, which is the limit: no algorithm that multiplies Q with K and the weights with V is done before them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import torch
from torch.profiler import profile

from scratch_transformer.attention import scaled_dot_product_attention
from scratch_transformer.attention.tiled.problem import KEYS, QUERIES
from scratch_transformer.benchmarking.measurement import kept

SUBJECT = "profile of tiled attention"

PRODUCTS = ("aten::bmm", "aten::baddbmm_")


def shares(B: int, H: int, L: int, D: int) -> tuple[dict[str, float], float, float]:
    """Seconds by operation, the products' rate and its limit, both in FLOP/s."""
    query, key, value = torch.randn(3, B, H, L, D)
    scaled_dot_product_attention(query, key, value, algorithm="tiled")
    with profile() as profiled:
        scaled_dot_product_attention(query, key, value, algorithm="tiled")
    seconds = {event.key: event.self_cpu_time_total / 1e6 for event in profiled.key_averages()}
    products = sum(seconds.get(name, 0.0) for name in PRODUCTS)
    return seconds, 4 * B * H * L * L * D / products, _product_rate(D)


def _product_rate(D: int) -> float:
    """Of a product as large as a tile's, the median of some."""
    a, b, out = torch.randn(QUERIES, D), torch.randn(KEYS, D).t(), torch.empty(QUERIES, KEYS)
    times = []
    for _ in range(200):
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        times.append(time.perf_counter() - start)
    return 2 * QUERIES * KEYS * D / sorted(times)[len(times) // 2]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the shares, the largest first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=int, nargs=4, default=(1, 8, 2048, 64), metavar=("B", "H", "L", "D"))
    parser.add_argument("--keep", metavar="FOLDER", help="keep the result there, dated")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with kept(SUBJECT, options.keep) as values:
        seconds, rate, limit = shares(*options.shape)
        total = sum(seconds.values())
        largest = sorted(seconds.items(), key=lambda item: -item[1])[:6]
        values |= {"shape": list(options.shape), "shares": {name: spent / total for name, spent in largest}}
        values |= {"products": rate, "products alone": limit}
    for name, share in values["shares"].items():
        print(f"{share:7.1%}  {name}")
    print(f"matrix products: {rate / 1e9:.0f} GFLOP/s; alone: {limit / 1e9:.0f} GFLOP/s")


if __name__ == "__main__":
    main()
