"""What a tile drops: the same going forward and backward, at the right rate, whatever the number of threads."""

import math

import pytest
import torch

from reference_tests.agreement import assert_equal, differentiate
from reference_tests.attention.tiled.others import draw, tiled
from scratch_transformer.attention import attention_weights
from scratch_transformer.attention.naive import repeat_heads
from scratch_transformer.attention.tiled import products, tile, workers
from scratch_transformer.attention.tiled.problem import Problem
from scratch_transformer.attention.tiled.products import Way

pytestmark = pytest.mark.usefixtures("small_tiles")

B, H, G, T, S, D, DV = 2, 4, 2, 7, 11, 5, 6


@pytest.fixture
def qkv():
    return [draw(B, H, T, D), draw(B, G, S, D), draw(B, G, S, DV)]


def kept(query, key, dropout_p, **options):
    """Where a weight was kept, (B, H, T, S): values that are one number of each key let it be seen."""
    torch.manual_seed(0)  # as `differentiate`
    identity = torch.eye(S, dtype=query.dtype).expand(B, G, S, S).contiguous()
    return tiled(query, key, identity, dropout_p=dropout_p, enable_gqa=True, **options) != 0


@pytest.mark.parametrize("dropout_p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 50.0}, {"mask": True}], ids=str)
def test_backward_drops_what_forward_dropped(dropout_p, options, qkv):
    """The result and all gradients are those of weights times a constant: what was kept, divided by its share."""
    options = {**options, "attn_mask": draw(B, 1, T, S)} if options.pop("mask", None) else options
    mask = options.pop("attn_mask", None)
    keep = kept(*qkv[:2], dropout_p, attn_mask=mask, **options).double() / tile.keep_share(dropout_p)

    def dropped(query, key, value, mask):
        weights = attention_weights(query, key, mask, enable_gqa=True, **options)
        return (weights * keep) @ repeat_heads(query, value)

    ours = differentiate(tiled, *qkv, mask, dropout_p, enable_gqa=True, **options)
    assert_equal(ours, differentiate(dropped, *qkv, mask), tolerance=1e-10 if "scale" in options else 1e-12)


@pytest.mark.parametrize("dropout_p", [0.1, 0.5, 0.9])
def test_the_share_that_is_kept(dropout_p):
    """Of 16 · 48 · 48 weights, each for itself: within 5 standard deviations, in all and for every key and query."""
    query = key = torch.zeros(2, 8, 48, 4)
    out = tiled(query, key, torch.eye(48).expand(2, 8, 48, 48).contiguous(), dropout_p=dropout_p)
    share = (out != 0).double()
    for dims in ((0, 1, 2, 3), (0, 1, 2), (0, 1, 3), (2, 3)):
        n = math.prod(share.shape[dim] for dim in dims)
        deviation = math.sqrt(dropout_p * (1 - dropout_p) / n)
        assert (share.mean(dims) - (1 - dropout_p)).abs().max() < 5 * deviation
    neighbours = (share[..., 1:] * share[..., :-1]).mean()
    assert abs(neighbours - (1 - dropout_p) ** 2) < 0.01


def test_rare_dropout_and_rare_keeping():
    assert tile.keep_share(1e-9) == 1
    assert tile.keep_share(0.25) == 0.75
    assert 0 < tile.keep_share(1 - 2**-16) < 1e-4


def test_the_mean_of_many_draws(qkv):
    """1 / keep_share makes up for what is dropped."""
    options = {"enable_gqa": True, "is_causal": True}
    mean = torch.stack([tiled(*qkv, dropout_p=0.3, **options) for _ in range(100)]).mean(0)
    assert (mean - tiled(*qkv, **options)).abs().max() < 0.8
    assert (mean - tiled(*qkv, **options)).mean().abs() < 0.04


def test_seeds(qkv):
    """torch.manual_seed decides; no dropout draws nothing."""
    torch.manual_seed(5)
    first, second = (tiled(*qkv, dropout_p=0.5, enable_gqa=True) for _ in range(2))
    torch.manual_seed(5)
    tiled(*qkv, enable_gqa=True)
    again = tiled(*qkv, dropout_p=0.5, enable_gqa=True)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_threads_do_not_matter(qkv, monkeypatch):
    outcomes = []
    usual = torch.get_num_threads()
    try:
        for threads, over in ((1, -math.inf), (2, -math.inf), (2, math.inf), (3, math.inf)):
            monkeypatch.setattr(workers._crowd, "over", over)
            torch.set_num_threads(threads)
            outcomes.append(differentiate(tiled, *qkv, dropout_p=0.5, is_causal=True, enable_gqa=True))
    finally:
        torch.set_num_threads(usual)
    for outcome in outcomes[1:]:
        assert_equal(outcome, outcomes[0])


@pytest.mark.parametrize("mask", [None, torch.ones(1, H, 1, S)], ids=["merged", "a mask for each head"])
def test_a_tiles_seed_counts_its_first_score(mask, qkv, monkeypatch):
    """Through all of (B, K, T, S), beginning with the call's seed: no two tiles have one."""
    problem = Problem.of(*qkv, mask, torch.tensor(1000), 0.5, None, None, 1.0)
    assert (problem.key.shape[0] == 1) == (mask is None)
    K = problem.key.shape[1]
    seeds, expected = [], []
    usual = torch.Generator

    class Generator:
        def __init__(self, device):
            assert device == qkv[0].device

        def manual_seed(self, seed):
            seeds.append(seed)
            return usual().manual_seed(seed)

    monkeypatch.setattr(torch, "Generator", Generator)
    scores = torch.arange(problem.key.shape[0] * K * T * S).view(-1, K, T, S)
    for block in problem.blocks():
        for keys in problem.key_tiles(block):
            tile.keep(problem, block, keys, workers.Scratch(torch.float64, qkv[0].device))
            expected.append(1000 + scores[block.b, block.h0, block.t0, keys.start].item())
    assert seeds == expected
    assert len(set(seeds)) == len(seeds) > 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_triangles_block_one_side_of_the_diagonal(dtype):
    t = torch.arange(tile.QUERIES)
    for found, blocked in zip(
        tile._triangles.__wrapped__(dtype, t.device), (t >= t[:, None], t < t[:, None]), strict=True
    ):
        assert torch.equal(found, torch.zeros_like(found).masked_fill(blocked, -math.inf))
        assert found.dtype == dtype
    assert {x.device.type for x in tile._triangles.__wrapped__(dtype, torch.device("meta"))} == {"meta"}


def test_without_dropout_nothing_is_drawn_or_scaled(qkv, monkeypatch):
    def fail(*args):
        raise AssertionError(args)

    monkeypatch.setattr(tile, "keep", fail)
    monkeypatch.setattr(tile, "keep_share", fail)
    x = [x.requires_grad_() for x in qkv]
    assert tiled(*x, enable_gqa=True).sum().backward() is None
    assert all(x.grad.isfinite().all() for x in qkv)


def test_a_tile_is_computed_where_its_problem_is(monkeypatch):
    """And in its dtype: triangles too, which the CPU would cast each time."""
    asked, triangles = [], tile._triangles
    monkeypatch.setattr(tile, "_triangles", lambda *args: asked.append(args) or triangles(*args))
    q, kv = (torch.empty(1, 1, n, D, device="meta", dtype=torch.float64) for n in (T, S))
    mask = torch.empty(1, 1, T, S, device="meta", dtype=torch.bool)
    problem = Problem.of(q, kv, kv, mask, None, 0.5, -2, 2, 1.0)
    scratch = workers.Scratch(q.dtype, q.device)
    for block in problem.blocks():
        for keys in problem.key_tiles(block):
            query, key = tile.query_rows(problem, block, scratch), tile.keys_of(kv, "key", block, keys, scratch)
            scores = tile.exponents(problem, block, keys, query, key, scratch)
            assert (scores.dtype, scores.device) == (q.dtype, q.device)
    assert set(asked) == {(q.dtype, q.device)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_product_is_rounded_before_it_is_added_if_its_factors_are_bfloat16(dtype):
    scratch = workers.Scratch(torch.float64, torch.device("cpu"))
    first, second, total = draw(2, 3, 4).to(dtype), draw(2, 4, 5).to(dtype), draw(2, 3, 5)
    exact = first.double() @ second.double()
    expected = total + exact.to(dtype).double()
    tile.add_product(total, first, second, scratch)
    assert (total - expected).abs().max() < 1e-14 * exact.abs().max()


@pytest.mark.parametrize("way", Way)
def test_a_factor_is_what_it_is_or_rounded(way, qkv, monkeypatch):
    monkeypatch.setattr(products, "way", lambda *_: way)
    problem = Problem.of(*(x.bfloat16() for x in qkv), None, None, 0.0, None, None, 1.0)
    x = torch.randn(2, 3)
    found = tile.factor(problem, "x", x, workers.Scratch(torch.float32, x.device))
    if way is Way.ROUNDED:
        assert found.dtype == torch.bfloat16
        assert torch.equal(found, x.bfloat16())
    else:
        assert found is x


def test_a_tile_drops_for_itself(qkv):
    """No two rows, heads or tiles drop the same."""
    keep = kept(qkv[0], qkv[1], 0.5)
    assert len({tuple(row) for row in keep.flatten(0, 2).tolist()}) > 0.95 * B * H * T
