"""How fast attention is: ours beside torch's, on the same inputs.

    tox -e bench                                        float32 on the CPU
    tox -e bench -- --device cuda --dtype bfloat16

Both are compared with each other before anything is timed: a wrong result has no speed.
"""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from scratch_transformer.attention import scaled_dot_product_attention as our_attention

IMPLEMENTATIONS = {"ours": our_attention, "torch": torch_attention}
SHAPES = {  # batch, heads, queries, keys, width of a head; one query: decoding the next token
    "cpu": [(2, 8, 128, 128, 64), (1, 8, 512, 512, 64), (1, 8, 1, 1024, 64)],
    "cuda": [(4, 16, 1024, 1024, 64), (2, 16, 4096, 4096, 64), (16, 16, 1, 4096, 64)],
}
# What two correct implementations may differ by, relative to the largest output.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


def pytest_generate_tests(metafunc):
    device = torch.device(metafunc.config.getoption("--device")).type
    cases = [(shape, causal) for shape in SHAPES.get(device, SHAPES["cpu"]) for causal in (False, True)]
    cases = [(shape, causal) for shape, causal in cases if shape[2] > 1 or not causal]  # one query: nothing to mask
    names = ["B{}-H{}-T{}-S{}-D{}".format(*shape) + "-causal" * causal for shape, causal in cases]
    metafunc.parametrize(("shape", "is_causal"), cases, ids=names)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@torch.inference_mode()
def test_forward(benchmark, name, shape, is_causal, device, dtype):
    B, H, T, S, D = shape
    query = torch.randn(B, H, T, D, device=device, dtype=dtype)
    key, value = torch.randn(2, B, H, S, D, device=device, dtype=dtype)
    assert_equal(query, key, value, is_causal)

    benchmark.group = f"attention forward, B={B} H={H} T={T} S={S} D={D}{' causal' * is_causal}, {dtype}"
    benchmark(IMPLEMENTATIONS[name], query, key, value, is_causal=is_causal)

    benchmark.extra_info |= {"shape": list(shape), "dtype": str(dtype), "is_causal": is_causal}
    if benchmark.stats:  # none with --benchmark-disable
        benchmark.extra_info["tokens_per_second"] = B * T / benchmark.stats.stats.median


def assert_equal(query, key, value, is_causal):
    ours, theirs = (attention(query, key, value, is_causal=is_causal) for attention in IMPLEMENTATIONS.values())
    error = (ours - theirs).abs().max() / theirs.abs().max()
    assert error <= TOLERANCE[query.dtype], f"ours and torch's differ by {error:.1e}: not timed"
