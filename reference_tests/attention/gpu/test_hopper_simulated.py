"""The Hopper kernels' logic, executed in a simulator of Gluon: results, deadlocks, and races of copies and products."""

import itertools
import math

import pytest
import torch

from reference_tests.attention.gpu import gluon_simulator as simulator
from scratch_transformer.attention.naive import naive_attention

TILE, ROWS = 128, 64
LIMIT = 0.02  # bfloat16: the results themselves are rounded to 2⁻⁹

# heads, shared heads, queries, keys, width, causal, programs, heads in a section
CASES = {
    "causal": (2, 1, 300, 300, 64, True, 2, 2),
    "one-tile": (1, 1, 5, 5, 64, True, 3, 1),
    "whole-tiles": (1, 1, 256, 256, 64, True, 1, 1),
    "sections": (5, 5, 140, 140, 64, True, 2, 3),
    "dense": (4, 2, 200, 330, 128, False, 3, 1),
    "few-queries": (2, 2, 3, 129, 64, False, 1, 1),
}
SEEDS = range(3)


class Problem:
    """Random inputs, and what must come out."""

    def __init__(self, heads, shared, T, S, D, causal, programs, section):
        torch.manual_seed(0)
        self.shape, self.causal, self.programs = (heads, shared, T, S), causal, programs
        self.scale, self.constants = 1 / math.sqrt(D), {"GROUP": heads // shared, "CAUSAL": causal, "D": D, "SLOTS": 2}
        sizes = ((heads, T), (shared, S), (shared, S), (heads, T))
        self.q, self.k, self.v, self.grad = (torch.randn(1, *size, D).bfloat16() for size in sizes)
        self.rows = -(-T // TILE) * TILE
        self.work = (-(-T // TILE), heads, section)
        self.work_on_keys = (-(-S // TILE), shared, section)
        self.solve()

    def solve(self):
        inputs = [x.double().requires_grad_() for x in (self.q, self.k, self.v)]
        key, value = (x.repeat_interleave(self.constants["GROUP"], 1) for x in inputs[1:])
        self.out = naive_attention(inputs[0], key, value, is_causal=self.causal)
        self.grads = torch.autograd.grad(self.out, inputs, self.grad.double())
        scores = (inputs[0] @ key.mT).detach() * self.scale
        if self.causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
        self.logsumexp = scores.logsumexp(-1) / math.log(2)
        self.delta = (self.out * self.grad).sum(-1).detach()

    def padded(self, x):
        return simulator.Pointer(torch.nn.functional.pad(x.float(), (0, self.rows - x.shape[-1])))


def tiles(x, rows=ROWS):
    return simulator.Descriptor(x, [1, 1, rows, x.shape[-1]])


def unwritten(like):
    return torch.full_like(like, math.nan)


def assert_near(actual, expected):
    assert (actual - expected).abs().max() <= LIMIT * expected.abs().max()


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES)
def problem(request):
    return Problem(*request.param)


@pytest.mark.parametrize("seed", SEEDS)
def test_forward(problem, seed):
    kernel = simulator.load("hopper_forward").hopper_forward_kernel
    heads, _, T, S = problem.shape
    out, logsumexp = unwritten(problem.q), torch.full((1, heads, problem.rows), math.nan)
    simulator.launch(
        kernel, problem.programs, seed,
        tiles(problem.q), tiles(problem.k, TILE), tiles(problem.v, TILE), tiles(out), simulator.Pointer(logsumexp),
        heads, problem.rows, S, *problem.work, problem.scale, **problem.constants,
    )  # fmt: skip
    assert_near(out, problem.out)
    torch.testing.assert_close(logsumexp[..., :T].double(), problem.logsumexp, rtol=1e-5, atol=1e-5)
    assert logsumexp.isfinite().all()


@pytest.mark.parametrize("seed", SEEDS)
def test_grad_query(problem, seed):
    kernel = simulator.load("hopper_grad_query").hopper_grad_query_kernel
    heads, _, _, S = problem.shape
    grad = unwritten(problem.q)
    simulator.launch(
        kernel, problem.programs, seed,
        tiles(problem.q), tiles(problem.grad), tiles(problem.k), tiles(problem.v), tiles(grad),
        problem.padded(problem.logsumexp), problem.padded(problem.delta),
        heads, problem.rows, S, *problem.work, problem.scale, **problem.constants,
    )  # fmt: skip
    assert_near(grad, problem.grads[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_grad_key_value(problem, seed):
    kernel = simulator.load("hopper_grad_key_value").hopper_grad_key_value_kernel
    _, shared, T, _ = problem.shape
    grad_key, grad_value = unwritten(problem.k), unwritten(problem.v)
    simulator.launch(
        kernel, problem.work_on_keys[0] * shared, seed,
        tiles(problem.k), tiles(problem.v), tiles(problem.q), tiles(problem.grad), tiles(grad_key), tiles(grad_value),
        problem.padded(problem.logsumexp), problem.padded(problem.delta),
        shared, problem.rows, T, *problem.work_on_keys, problem.scale, **problem.constants,
    )  # fmt: skip
    assert_near(grad_key, problem.grads[1])
    assert_near(grad_value, problem.grads[2])


@pytest.mark.parametrize("last_first", [False, True])
def test_every_piece_of_work_is_done_once_and_the_longest_first(last_first):
    place = simulator.load("hopper_tiles").place
    num_tiles, heads, section, H = 5, 7, 3, 7
    pieces = [place(i, num_tiles, heads, section, H, TILE, last_first) for i in range(num_tiles * heads)]
    assert sorted(pieces) == [(0, h, t * TILE) for h in range(heads) for t in range(num_tiles)]
    for first, count in ((0, 3), (3, 3), (6, 1)):
        starts = [start for _, h, start in pieces if first <= h < first + count]
        assert starts == sorted(starts, reverse=last_first)


# ---- The simulator notices mistakes ----


def broken(name, wrong, right):
    """The kernels' file with one line changed."""
    source = simulator.source(name)
    assert source.count(right) >= 1
    return simulator.load(name, source.replace(right, wrong))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("mbarrier.wait(k_ready.index(slot), phase)", "pass"),
        ("mbarrier.wait(v_ready.index(last_slot), last_phase)", "pass"),
        ("mbarrier.wait(k_empty.index(slot), phase ^ 1)", "pass"),
        ("mbarrier.arrive(k_empty.index(slot), count=1)", "pass"),
        ("mbarrier.arrive(v_empty.index(last_slot), count=1)", "pass"),
        ("mbarrier.arrive(q_empty.index(WHICH), count=1)", "pass"),
        ("i + 1 < end, SLOTS", "i + end > 1, SLOTS"),
        ("        fence_async_shared()\n        tma", "        tma"),
        ("(done & 1) ^ 1", "done & 1"),
        ("start // BLOCK + 1", "start // BLOCK"),
    ],
)
def test_a_mistake_in_the_forward_pass_is_noticed(right, wrong):
    kernel = broken("hopper_forward", wrong, right).hopper_forward_kernel
    noticed = 0
    for seed, problem in itertools.product(
        SEEDS, [Problem(2, 1, 400, 400, 64, causal, 1, 2) for causal in (True, False)]
    ):
        out, logsumexp = unwritten(problem.q), torch.full((1, 2, problem.rows), math.nan)
        try:
            simulator.launch(
                kernel, 1, seed, tiles(problem.q), tiles(problem.k, TILE), tiles(problem.v, TILE), tiles(out),
                simulator.Pointer(logsumexp), 2, problem.rows, 400, *problem.work, problem.scale, **problem.constants,
            )  # fmt: skip
            assert_near(out, problem.out)
        except (AssertionError, IndexError, simulator.Deadlock):
            noticed += 1
    assert noticed > 0
