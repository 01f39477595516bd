"""The kernels on a GPU: results within the doctrine's budget, the same in every run, in graphs and compiled.

For memory errors and races, once:

    compute-sanitizer --tool memcheck python -m pytest reference_tests/attention/gpu/test_on_cuda.py -k budget
    compute-sanitizer --tool racecheck python -m pytest reference_tests/attention/gpu/test_on_cuda.py -k budget
"""

import functools
import os
import subprocess
import sys

import pytest
import torch

pytest.importorskip("triton", reason="needs triton: tox -e kernels")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("the interpreter is no GPU", allow_module_level=True)

from benchmarks.contact.smoke import deterministic
from reference_tests.attention.gpu.budget import assert_within_budget, random_inputs, with_gradients
from scratch_transformer.attention import decode, hopper_flash, triton_flash

pytestmark = pytest.mark.cuda
ALGORITHMS = {"triton": triton_flash, "hopper": hopper_flash}
HALF = [torch.float16, torch.bfloat16]
DTYPES = [*HALF, torch.float32]
SHAPES = [(113, 203), (1, 239), (128, 128), (1023, 1024), (300, 300)]


def attention(name, given, **options):
    reason = ALGORITHMS[name].unsupported(*given)
    if reason is not None:
        pytest.skip(f"{name}: {reason}")
    if name == "hopper" and first_launch() is not None:
        pytest.fail(first_launch())
    return functools.partial(ALGORITHMS[name].run, **options)


@functools.cache
def first_launch():
    """Why the Hopper kernels had better not run here, or None: a mistake with barriers would hang this process."""
    command = [sys.executable, "-m", "benchmarks.contact.smoke", "hopper-no-queries-beyond"]
    try:
        run = subprocess.run(command, timeout=120, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return "the first launch of the Hopper kernels does not end"
    return None if run.returncode == 0 else f"the first launch of the Hopper kernels failed: {run.stdout}{run.stderr}"


def inputs(dtype, queries=300, keys=300, width=64, heads=4, shared=2, batch=2):
    return random_inputs(
        [(batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, width)], dtype, "cuda"
    )


@pytest.mark.parametrize("is_causal", [False, True], ids=["dense", "causal"])
@pytest.mark.parametrize(("queries", "keys"), SHAPES)
@pytest.mark.parametrize("shared", [2, 4], ids=["grouped", "plain"])
@pytest.mark.parametrize("width", [64, 80, 128])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_budget(name, dtype, width, shared, queries, keys, is_causal):
    given = inputs(dtype, queries, keys, width, shared=shared)
    mask = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril() if is_causal else None
    assert_within_budget(attention(name, given, is_causal=is_causal), given, mask)


@pytest.mark.parametrize("is_causal", [False, True], ids=["dense", "causal"])
@pytest.mark.parametrize("shared", [8, 32], ids=["grouped", "plain"])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_budget_with_several_pieces_of_work_for_every_program(name, width, shared, is_causal):
    """1024 pieces, and no GPU has more than 264 programs at once: the persistent loops go round."""
    given = inputs(torch.bfloat16, 1000, 1000, width, heads=32, shared=shared, batch=4)
    mask = torch.ones(1000, 1000, dtype=torch.bool, device="cuda").tril() if is_causal else None
    assert_within_budget(attention(name, given, is_causal=is_causal), given, mask)


@pytest.mark.parametrize("shared", [2, 4], ids=["grouped", "plain"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_budget_of_the_adding_backward_pass(dtype, shared):
    given = inputs(dtype, shared=shared)
    assert_within_budget(attention("triton", given, deterministic=False), given)


@pytest.mark.parametrize("is_causal", [False, True], ids=["dense", "causal"])
@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_hundred_runs_agree_bit_by_bit(name, dtype, is_causal):
    """A race shows itself now and then; and the gradients are deterministic, if they are asked to be."""
    given = inputs(dtype, 1000, 1000, 128)
    run, upstream = attention(name, given, is_causal=is_causal), torch.randn_like(given[0])
    with deterministic(True):
        first = with_gradients(run, given, upstream, dtype)
        for _ in range(99):
            again = with_gradients(run, given, upstream, dtype)
            assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("is_causal", [False, True], ids=["dense", "causal"])
@pytest.mark.parametrize("width", [64, 128])
def test_a_hundred_runs_in_one_walk_differ_in_the_order_of_dq_alone(width, is_causal):
    given = inputs(torch.bfloat16, 1000, 1000, width)
    run, upstream = attention("hopper", given, is_causal=is_causal), torch.randn_like(given[0])
    out, dq, dk, dv = with_gradients(run, given, upstream, torch.bfloat16)
    for _ in range(99):
        again = with_gradients(run, given, upstream, torch.bfloat16)
        assert all(torch.equal(a, b) for a, b in zip((out, dk, dv), (again[0], *again[2:]), strict=True))
        torch.testing.assert_close(again[1], dq)


@pytest.mark.parametrize("is_causal", [False, True], ids=["dense", "causal"])
@pytest.mark.parametrize(("queries", "keys"), SHAPES)
@pytest.mark.parametrize("shared", [2, 4], ids=["grouped", "plain"])
@pytest.mark.parametrize("width", [64, 128])
def test_budget_of_two_walks(width, shared, queries, keys, is_causal):
    given = inputs(torch.bfloat16, queries, keys, width, shared=shared)
    mask = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril() if is_causal else None
    with deterministic(True):
        assert_within_budget(attention("hopper", given, is_causal=is_causal), given, mask)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_compiled(name, mode):
    given = inputs(torch.bfloat16)
    run, upstream = attention(name, given, is_causal=True), torch.randn_like(given[0])
    with deterministic(True):
        expected = with_gradients(run, given, upstream, torch.bfloat16)
        compiled = torch.compile(run, fullgraph=True, mode=mode)
        for _ in range(3):  # into graphs: it runs to be warm, is captured, and is replayed
            actual = with_gradients(compiled, given, upstream, torch.bfloat16)
            assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


@pytest.mark.parametrize("name", [*ALGORITHMS, "decode"])
def test_on_another_stream(name):
    query, key, value = (x.detach() for x in inputs(torch.bfloat16, queries=1 if name == "decode" else 300))
    run, stream = decode.run if name == "decode" else attention(name, (query, key, value)), torch.cuda.Stream()
    expected = run(query, key, value)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**8)
        late = run(query + 0, key, value)  # before the stream comes to it, another one would read what is not there yet
    stream.synchronize()
    assert torch.equal(late, expected)


@pytest.mark.parametrize("name", [*ALGORITHMS, "decode"])
def test_in_a_cuda_graph(name):
    """Captured once, replayed with other numbers in the same place."""
    query, key, value = (x.detach() for x in inputs(torch.bfloat16, queries=1 if name == "decode" else 300))
    run = decode.run if name == "decode" else attention(name, (query, key, value))
    run(query, key, value)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run(query, key, value)
    query.copy_(torch.randn_like(query))
    graph.replay()
    assert torch.equal(result, run(query, key, value))


def test_dropout_in_a_cuda_graph_drops_other_weights_in_each_replay():
    query, key, value = (x.detach() for x in inputs(torch.bfloat16))
    triton_flash.run(query, key, value, dropout_p=0.5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = triton_flash.run(query, key, value, dropout_p=0.5)
    graph.replay()
    first = result.clone()
    graph.replay()
    assert not torch.equal(first, result)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_autocast(name):
    given = inputs(torch.float32)
    with torch.autocast("cuda", torch.bfloat16):
        result = attention(name, given)(*given)
    assert torch.equal(result, ALGORITHMS[name].run(*(x.bfloat16() for x in given)))
