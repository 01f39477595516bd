"""How a call is cut into blocks and tiles: each score in one tile, none that a band blocks for a whole tile."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference_tests.attention.tiled.others import visible
from scratch_transformer import masks
from scratch_transformer.attention.tiled import problem as tiles
from scratch_transformer.attention.tiled import products
from scratch_transformer.attention.tiled.problem import Problem
from scratch_transformer.attention.tiled.products import Way

pytestmark = pytest.mark.usefixtures("small_tiles")


def problem(query, key, mask=None, dropout_p=0.0, lower=None, upper=None):
    return Problem.of(query, key, key, mask, None, dropout_p, lower, upper, 1.0)


sizes = st.integers(1, 5)
sides = st.none() | st.integers(0, 20)


@given(sizes, sizes, sizes, st.integers(1, 17), st.integers(1, 17), sides, sides, st.sampled_from([0.0, 0.5]))
def test_each_score_that_counts_is_in_one_tile(B, K, G, T, S, before, after, dropout_p):
    lower, upper = masks.band(T, S, False, False, (before, after))
    cut = problem(torch.zeros(B, K * G, T, 2), torch.zeros(B, K, S, 2), None, dropout_p, lower, upper)
    times = torch.zeros(*cut.query.shape[:-1], S)
    tiles = 0
    for block in cut.blocks():
        for keys in cut.key_tiles(block):
            cut.queries(times, block)[..., keys].add_(1)
            tiles += 1
            assert 0 < keys.stop - keys.start <= 3 * max(1, 4 // (G * min(T, cut.queries_per_block)))
            assert 0 < block.t1 - block.t0 <= cut.queries_per_block <= 2 * 4
    seen = visible(T, S, window=(before, after))
    assert (times[..., seen] == 1).all()
    assert times.max() <= 1
    assert tiles or not seen.any()
    assert cut.flops >= 2 * 4 * B * K * G * seen.sum()


@pytest.mark.parametrize("queries, counted", [(1, 16), (15, 16), (17, 17)])
def test_reading_the_keys_takes_as_long_as_some_queries(queries, counted, monkeypatch):
    """Or a call of few queries would always look as if it had been held up. Heads that share a key count together."""
    monkeypatch.setattr(tiles, "READING", 16)
    monkeypatch.setattr(tiles, "QUERIES", 99)
    for shared in (1, queries):
        cut = problem(torch.zeros(2, 3 * shared, queries // shared, 4), torch.zeros(2, 3, 50, 4))
        assert cut.rows == queries
        assert cut.flops == 2 * (4 + 4) * 2 * 3 * counted * 50


@pytest.mark.parametrize("T, S, lower, upper", [(11, 7, None, None), (11, 17, None, 3), (11, 17, -2, 1), (11, 5, 0, 1)])
def test_work_is_counted_block_by_block(T, S, lower, upper, monkeypatch):
    """Queries times the keys from the first to the last that any of them sees, of which there may be none."""
    monkeypatch.setattr(tiles, "READING", 1)
    cut = problem(torch.zeros(2, 6, T, 4), torch.zeros(2, 3, S, 4), lower=lower, upper=upper)
    seen, pairs = masks.within(T, S, lower, upper), 0
    for block in cut.blocks():
        rows = seen.expand(T, S)[block.t0 : block.t1]
        keys = rows.any(0).nonzero()
        pairs += (block.h1 - block.h0) * 2 * len(rows) * (int(keys.max() - keys.min()) + 1 if len(keys) else 0)
    assert cut.flops == 2 * (4 + 4) * pairs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "keys, upper, part", [(33, None, 0.5), (32, None, 2), (16, None, 2), (33, 5, 2), (32, 5, 4), (17, 5, 4), (16, 5, 8)]
)
def test_blocks_are_short_for_few_keys_and_before_a_diagonal(dtype, keys, upper, part, monkeypatch):
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: False)
    monkeypatch.setattr(tiles, "QUERIES", 80)
    monkeypatch.setattr(tiles, "SHORT", 32)
    cut = problem(torch.zeros(1, 2, 500, 4, dtype=dtype), torch.zeros(1, 2, keys, 4, dtype=dtype), upper=upper)
    assert cut.queries_per_block == 80 // part


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("dropout_p", [0.0, 0.1])
@pytest.mark.parametrize("upper", [None, 5])
def test_tiles_have_twice_as_many_keys_where_products_are_rounded(way, dropout_p, upper, monkeypatch):
    """But not with dropout, which has the same tiles on any way."""
    monkeypatch.setattr(products, "way", lambda *_: way)
    query, key = (torch.zeros(1, 2, length, 4, dtype=torch.bfloat16) for length in (3000, 2000))
    cut = problem(query, key, upper=upper, dropout_p=dropout_p)
    stretch = 2 if way is Way.ROUNDED and dropout_p == 0 else 1
    assert cut.queries_per_block == (tiles.QUERIES * 2 if upper is None else tiles.QUERIES // 2)
    assert cut.keys_per_tile == tiles.KEYS * stretch


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_what_is_multiplied(way, dtype, monkeypatch):
    asked = []
    monkeypatch.setattr(products, "way", lambda *args: asked.append(args) or way)
    query, key = torch.zeros(1, 6, 5, 4, dtype=dtype), torch.zeros(1, 2, 7, 4, dtype=dtype)
    cut = problem(query, key)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert cut.factors == (torch.bfloat16 if way is Way.ROUNDED else wide)
    assert asked == [(dtype, query.device, 3 * 5)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_dropout_is_cut_alike_for_any_number_of_threads(threads, monkeypatch):
    """Which weights are dropped follows from the tiles, going forward and backward."""
    cut = problem(torch.zeros(2, 6, 9, 4), torch.zeros(2, 3, 8, 4), dropout_p=0.1)
    expected = cut.blocks()
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert cut.blocks() == expected
    assert {(block.b, block.h0, block.h1) for block in cut.groups()} == {(x.b, x.h0, x.h1) for x in expected}


@pytest.mark.parametrize("dropout_p, queries", [(0.0, 4), (0.1, 8)])
def test_blocks_have_half_as_many_queries_going_backward(dropout_p, queries):
    """But with dropout, which is to be the same then."""
    cut = problem(torch.zeros(1, 2, 20, 4), torch.zeros(1, 2, 30, 4), dropout_p=dropout_p)
    assert (cut.queries_per_block, cut.queries_backward) == (8, queries)
    short = problem(torch.zeros(1, 2, 20, 4), torch.zeros(1, 2, 5, 4), dropout_p=dropout_p)
    assert short.queries_per_block == short.queries_backward == 2


def test_enough_groups_of_heads_to_share_out_where_threads_are_held_up(monkeypatch):
    cut = problem(torch.zeros(1, 8, 2, 4), torch.zeros(1, 8, 2, 4))
    monkeypatch.setattr("scratch_transformer.attention.tiled.workers.SHARES", 2)
    for over, numbers in ((math.inf, (1, 4, 8, 8)), (-math.inf, (1, 1, 1, 1))):
        monkeypatch.setattr("scratch_transformer.attention.tiled.workers._crowd.over", over)
        for threads, wanted in zip((1, 2, 4, 64), numbers, strict=True):
            monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            assert len(cut.groups(heads=8)) == wanted


@pytest.mark.parametrize(
    "dtype, device, dropout_p, asked, step",
    [
        (torch.float32, "cpu", 0.0, None, 1),  # 8 tasks for 2 threads that are held up
        (torch.float32, "cpu", 0.1, None, 3),  # 2 · 7 queries and 20 keys are 280 scores a head
        (torch.float32, "cpu", 0.1, 8, 8),
        (torch.bfloat16, "cpu", 0.1, None, 1),  # 40 · 20 numbers a head, once widened
        (torch.float32, "meta", 0.0, None, 8),
    ],
)
def test_as_many_heads_as_make_a_tile(dtype, device, dropout_p, asked, step, monkeypatch):
    sizes = {"TILE": 1000, "TILE_ON_GPU": 3000, "QUERIES": 10, "KEYS": 25, "SHORT": 1}
    for name, size in sizes.items():
        monkeypatch.setattr(tiles, name, size)
    monkeypatch.setattr("scratch_transformer.attention.tiled.workers._crowd.over", math.inf)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    options = {"dtype": dtype, "device": device}
    cut = problem(torch.zeros(1, 16, 7, 40, **options), torch.zeros(1, 8, 20, 40, **options), dropout_p=dropout_p)
    assert cut.groups(heads=asked) == [tiles.Block(0, h0, min(h0 + step, 8), 0, 7) for h0 in range(0, 8, step)]


def test_batch_and_heads_are_one_dimension_without_copies():
    query, key = torch.zeros(2, 6, 4, 8), torch.zeros(2, 3, 5, 8)
    cut = problem(query, key, torch.zeros(1, 1, 4, 5))
    assert cut.query.shape == (1, 6, 2, 4, 8)
    assert cut.key.shape == (1, 6, 5, 8)
    assert cut.mask.shape == (1, 1, 1, 4, 5)
    assert cut.query.data_ptr() == query.data_ptr()
    assert cut.key.data_ptr() == key.data_ptr()


@pytest.mark.parametrize(
    "query, mask",
    [
        (torch.zeros(2, 4, 6, 8).transpose(1, 2), None),
        (torch.zeros(2, 6, 4, 8), torch.zeros(2, 1, 1, 5)),
        (torch.zeros(2, 6, 4, 8), torch.zeros(1, 6, 1, 5)),
    ],
    ids=["heads beside the width", "a mask for each batch entry", "a mask for each head"],
)
def test_batch_and_heads_stay_apart_where_copies_were_needed(query, mask):
    cut = problem(query, torch.zeros(2, 3, 5, 8), mask)
    assert cut.query.shape == (2, 3, 2, 4, 8)
    assert cut.query.data_ptr() == query.data_ptr()
    assert mask is None or cut.mask.data_ptr() == mask.data_ptr()


def test_shared_heads_and_expanded_ones_are_not_copied():
    key = torch.zeros(1, 1, 5, 8).expand(2, 3, 5, 8)
    assert problem(torch.zeros(2, 6, 4, 8), key).key.untyped_storage().nbytes() == 5 * 8 * 4
