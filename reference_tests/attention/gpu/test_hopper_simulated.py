"""The Hopper kernels' logic, executed in a simulator of Gluon: results, deadlocks, and races of copies and products."""

import itertools
import math

import pytest
import torch

from reference_tests.attention.gpu import gluon_simulator as simulator
from scratch_transformer.attention.gpu import hopper_work
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
        self.tiles, self.tiles_of_keys = -(-T // TILE), -(-S // TILE)
        self.rows = self.tiles * TILE
        cpu = torch.device("cpu")
        self.pieces = hopper_work.dealt(self.tiles, heads, section, programs, causal, cpu)
        self.order = hopper_work.order(self.tiles_of_keys, shared, section, "first" if causal else None, cpu)
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

    @property
    def work_on_queries(self):
        """pieces, H, rows, S, rounds, num_tiles."""
        heads, _, _, S = self.shape
        pieces = simulator.Pointer(self.pieces)
        return pieces, heads, self.rows, S, self.pieces.shape[1] - 1, self.tiles

    @property
    def work_on_keys(self):
        """order, G, rows, T, num_tiles."""
        _, shared, T, _ = self.shape
        return simulator.Pointer(self.order), shared, self.rows, T, self.tiles_of_keys


def tiles(x, rows=ROWS, columns=None):
    return simulator.Descriptor(x, [1, 1, rows, columns or x.shape[-1]])


def unwritten(like):
    return torch.full_like(like, math.nan)


def assert_near(actual, expected):
    assert (actual - expected).abs().max() <= LIMIT * expected.abs().max()


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES)
def problem(request):
    return Problem(*request.param)


def forward(kernel, problem, seed, turns):
    """The result, and log2 Σ exp2(scores)."""
    out, logsumexp = unwritten(problem.q), torch.full((1, problem.shape[0], problem.rows), math.nan)
    pieces, heads, rows, S, *sizes = problem.work_on_queries
    simulator.launch(
        kernel, len(problem.pieces), seed,
        tiles(problem.q), tiles(problem.k, TILE), tiles(problem.v, TILE), tiles(out), simulator.Pointer(logsumexp),
        pieces, heads, rows, S, *sizes, problem.scale, **problem.constants, TURNS=turns,
    )  # fmt: skip
    return out, logsumexp


@pytest.mark.parametrize("turns", [False, True], ids=["freely", "in-turns"])
@pytest.mark.parametrize("seed", SEEDS)
def test_forward(problem, seed, turns):
    out, logsumexp = forward(simulator.load("hopper_forward").hopper_forward_kernel, problem, seed, turns)
    assert_near(out, problem.out)
    T = problem.shape[2]
    torch.testing.assert_close(logsumexp[..., :T].double(), problem.logsumexp, rtol=1e-5, atol=1e-5)
    assert logsumexp.isfinite().all()


@pytest.mark.parametrize("seed", SEEDS)
def test_grad_query(problem, seed):
    kernel = simulator.load("hopper_grad_query").hopper_grad_query_kernel
    grad = unwritten(problem.q)
    simulator.launch(
        kernel, len(problem.pieces), seed,
        tiles(problem.q), tiles(problem.grad), tiles(problem.k), tiles(problem.v), tiles(grad),
        problem.padded(problem.logsumexp), problem.padded(problem.delta),
        *problem.work_on_queries, problem.scale, **problem.constants,
    )  # fmt: skip
    assert_near(grad, problem.grads[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_grad_key_value(problem, seed):
    kernel = simulator.load("hopper_grad_key_value").hopper_grad_key_value_kernel
    grad_key, grad_value = unwritten(problem.k), unwritten(problem.v)
    simulator.launch(
        kernel, len(problem.order), seed,
        tiles(problem.k), tiles(problem.v), tiles(problem.q), tiles(problem.grad), tiles(grad_key), tiles(grad_value),
        problem.padded(problem.logsumexp), problem.padded(problem.delta),
        *problem.work_on_keys, problem.scale, **problem.constants,
    )  # fmt: skip
    assert_near(grad_key, problem.grads[1])
    assert_near(grad_value, problem.grads[2])


def all_gradients(kernel, problem, seed):
    grads = torch.zeros_like(problem.q, dtype=torch.float32), unwritten(problem.k), unwritten(problem.v)
    simulator.launch(
        kernel, len(problem.order), seed,
        tiles(problem.k), tiles(problem.v), tiles(problem.q), tiles(problem.grad),
        tiles(grads[0], ROWS, problem.constants["D"] // 2), tiles(grads[1]), tiles(grads[2]),
        problem.padded(problem.logsumexp), problem.padded(problem.delta),
        *problem.work_on_keys, problem.shape[3], problem.scale, **problem.constants,
    )  # fmt: skip
    return grads


@pytest.mark.parametrize("seed", SEEDS)
def test_all_gradients_in_one_walk(problem, seed):
    grads = all_gradients(simulator.load("hopper_grads").hopper_grads_kernel, problem, seed)
    for grad, expected in zip(grads, problem.grads, strict=True):
        assert_near(grad, expected)


@pytest.mark.parametrize("causal", [False, True])
def test_keys_beyond_the_last_have_no_weight_however_low_all_scores_are(causal):
    """They are zero, and so are their scores; where all others are at -500, exp2(0 + 500) is infinite."""
    problem = Problem(2, 1, 140, 140, 64, causal, 1, 2)
    problem.q, problem.k = problem.q.abs() * 10, -problem.k.abs() * 10
    problem.solve()
    assert problem.logsumexp[..., 128:].max() < -128
    grads = all_gradients(simulator.load("hopper_grads").hopper_grads_kernel, problem, 0)
    assert all(grad.isfinite().all() for grad in grads)
    assert_near(grads[2], problem.grads[2])


# ---- The simulator notices mistakes ----


def broken(name, wrong, right):
    """The kernels' file with one line changed."""
    source = simulator.source(name)
    assert source.count(right) >= 1
    return simulator.load(name, source.replace(right, wrong))


MISTAKES = {
    "hopper_forward": [
        ("mbarrier.wait(k_ready.index(slot), phase)", "pass"),
        ("mbarrier.wait(v_ready.index(last_slot), last_phase)", "pass"),
        ("mbarrier.wait(k_empty.index(slot), phase ^ 1)", "pass"),
        ("mbarrier.arrive(k_empty.index(slot), count=1)", "pass"),
        ("mbarrier.arrive(v_empty.index(last_slot), count=1)", "pass"),
        ("mbarrier.arrive(q_empty.index(WHICH), count=1)", "pass"),
        ("mbarrier.arrive(turn.index(1 - WHICH), count=1)", "pass"),
        ("i + 1 < end, SLOTS", "i + end > 1, SLOTS"),
        ("        fence_async_shared()\n        tma", "        tma"),
        ("(done & 1) ^ 1", "done & 1"),
        ("start // BLOCK + 1", "start // BLOCK"),
    ],
    "hopper_grads": [
        ("mbarrier.wait(k_ready.index(c), 0)", "pass"),
        ("mbarrier.wait(ready.index(slot), phase)", "pass"),
        ("mbarrier.arrive(empty.index(slot), count=1)", "pass"),
        ("            fence_async_shared()\n            thread_barrier()", "            thread_barrier()"),
        ("            mbarrier.wait(ds_ready.index(place_of_ds), ds_phase)\n", ""),
        ("slot_and_phase(use, 2)", "slot_and_phase(use * 2, 2)"),
        ("            tma.store_wait(0)  # the engine has read the last tile's\n", ""),
        ("slice(WHICH * HALF, HALF, dim=1)", "slice(0, HALF, dim=1)"),
        ("first_t, WHICH * HALF]", "first_t, 0]"),
        ("    mbarrier.wait(ds_ready.index(place_of_ds), ds_phase)\n    k.store", "    k.store"),
        ("num_outstanding=0, deps=(dv, dk, dq))", "num_outstanding=1, deps=(dv, dk, dq))"),
    ],
}


@pytest.mark.parametrize(
    ("name", "right", "wrong"), [(name, *change) for name, changes in MISTAKES.items() for change in changes]
)
def test_a_mistake_is_noticed(name, right, wrong):
    module, noticed = broken(name, wrong, right), 0
    for seed, problem in itertools.product(
        SEEDS, [Problem(2, 1, 400, 400, 64, causal, 1, 2) for causal in (True, False)]
    ):
        try:
            if name == "hopper_forward":
                assert_near(forward(module.hopper_forward_kernel, problem, seed, True)[0], problem.out)
            else:
                for grad, expected in zip(
                    all_gradients(module.hopper_grads_kernel, problem, seed), problem.grads, strict=True
                ):
                    assert_near(grad, expected)
        except (AssertionError, TypeError, IndexError, simulator.Deadlock):
            noticed += 1
            break
    assert noticed
