"""The forward pass where exponentials are at their limits, and the sums of tiles meet."""

import contextlib
import math

import pytest
import torch

from reference_tests.agreement import assert_equal, differentiate
from reference_tests.attention.tiled.others import assert_right, builtin, draw, naive, tiled
from scratch_transformer.attention.tiled import forward
from scratch_transformer.attention.tiled.problem import Problem
from scratch_transformer.attention.tiled.products import Way

pytestmark = pytest.mark.usefixtures("small_tiles")

B, H, T, S, D, DV = 2, 3, 7, 11, 5, 6
INF = math.inf


@pytest.fixture
def qkv():
    return [draw(B, H, T, D), draw(B, H, S, D), draw(B, H, S, DV)]


def problem(query, key, scale=1.0, mask=None):
    return Problem.of(query, key, key, mask, None, 0.0, None, None, scale)


def test_scores_are_shifted_only_where_they_may_be_large(monkeypatch):
    row = torch.tensor([3.0, 4.0], dtype=torch.float64).expand(1, 1, 2, 2)  # of length 5
    bound = forward.SAFE / (25 * math.log2(math.e))
    assert not forward.needs_shift(problem(row, row, 0.99 * bound))
    assert not forward.needs_shift(problem(row, -row, -0.99 * bound))
    assert forward.needs_shift(problem(row, row, 1.01 * bound))
    assert forward.needs_shift(problem(row, row, -1.01 * bound))
    assert forward.needs_shift(problem(row, row, 0.0, torch.zeros(1, 1, 1, 1)))
    assert not forward.needs_shift(problem(row, row, 0.0, torch.zeros(1, 1, 1, 1, dtype=torch.bool)))
    for poison in (INF, math.nan):
        assert forward.needs_shift(problem(row * poison, row))
    assert forward.needs_shift(problem(row[:, :, :1], row, 0.0))  # one score a key is less to look at than two numbers
    monkeypatch.setattr(forward, "SAFE", 0.0)
    assert forward.needs_shift(problem(row, row, 0.0))  # room is what is below SAFE


@pytest.mark.parametrize("mask", [None, "bool"])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"window": (3, 0)}], ids=str)
def test_with_and_without_a_shift(mask, options, qkv, monkeypatch):
    mask = mask and torch.rand(B, 1, T, S) < 0.6
    for safe, moderate in ((-1.0, 1.0), (INF, 1.0), (INF, INF)):
        monkeypatch.setattr(forward, "SAFE", safe)
        monkeypatch.setattr(forward, "MODERATE", moderate)
        assert_right(*qkv, mask, **options)


@pytest.mark.parametrize(
    "score, way, is_shifted",
    [
        (3.0, Way.WIDE, False),
        (29.9, Way.WIDE, False),  # 4 keys: a total of 2³¹·⁹
        (30.1, Way.WIDE, True),
        (-33.9, Way.WIDE, False),
        (-34.1, Way.WIDE, True),
        (3.0, Way.NARROWED, True),
    ],
)
def test_what_gradients_may_be_divided_by(score, way, is_shifted, monkeypatch):
    """The total of a row, as it is, if it is moderate and they are not rounded; else 1, and the scores are shifted."""
    monkeypatch.setattr(forward.products, "way", lambda *_: way)
    monkeypatch.setattr(forward.products, "asked_for", lambda _: contextlib.nullcontext())
    row = torch.ones(1, 1, 4, 2, dtype=torch.float64)
    given = problem(row, row, score / (2 * math.log2(math.e)))
    out, norms = torch.empty(1, 1, 1, 4, 2, dtype=torch.float64), torch.empty(1, 1, 1, 4, 2, dtype=torch.float64)
    forward.forward(given, out, norms)
    assert_equal(norms[..., 0], torch.full_like(norms[..., 0], score + 2 if is_shifted else 0))
    assert_equal(norms[..., 1], torch.full_like(norms[..., 1], 1 if is_shifted else 4 * 2**score))


@pytest.mark.parametrize("order", [1, -1], ids=["rising", "falling"])
def test_the_highest_score_may_come_first_or_last(order, qkv):
    query, key, value = qkv
    query = query.abs()
    key = (order * torch.arange(S, dtype=torch.float64)).view(S, 1) * 4 + key
    assert_right(query, key, value)
    assert_right(query, key, value, torch.rand(T, S) < 0.5)


def test_scores_of_ten_thousand(qkv):
    """Beside a rounding of 1e4 · 2⁻⁵³ in a score."""
    query, key, value = qkv
    scores = (query @ key.mT / math.sqrt(D)).abs().max()
    query *= 1e4 / scores
    for mask in (None, torch.rand(T, S) < 0.6, draw(T, S)):
        ours = differentiate(tiled, query, key, value, mask)
        for other in (naive, builtin):
            assert_equal(ours, differentiate(other, query, key, value, mask), tolerance=1e-10)


def test_the_largest_numbers(qkv):
    query, key, value = qkv
    for other in (naive, builtin):
        assert_equal(tiled(query * 1e150, key, value), other(query * 1e150, key, value))
    tiny = 1e-300
    assert_equal(tiled(query * tiny, key * tiny, value), value.mean(-2, keepdim=True).expand(B, H, T, DV))


@pytest.mark.parametrize("poison", [math.nan, INF, -INF])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["query", "key", "value"])
def test_poison_spreads_as_in_torch(which, poison, qkv):
    qkv[which][1, 2, 3, 1] = poison
    ours, theirs = (f(*qkv) for f in (tiled, builtin))
    assert torch.equal(ours.isfinite(), theirs.isfinite())
    assert not ours[1, 2].isfinite().all()
    assert ours[0].isfinite().all()


def test_a_masked_key_may_be_as_large_as_numbers_are(qkv):
    query, key, value = qkv
    mask = torch.ones(S, dtype=torch.bool)
    mask[2] = False
    expected = naive(query, key[:, :, mask], value[:, :, mask])
    key[:, :, 2] = 1e300
    assert_equal(tiled(query, key, value, mask), expected)


@pytest.mark.parametrize("form", ["bool", "float"])
@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
@pytest.mark.parametrize("factor", [1, 1e4])
def test_fully_masked_rows_are_zero_and_so_are_their_gradients(form, dropout_p, factor, qkv):
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[0, :, 1:3] = False
    mask[1] = False
    given = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -INF) if form == "float" else mask
    outcome = differentiate(tiled, qkv[0] * factor, *qkv[1:], given, dropout_p)
    result, gradients = outcome["result"], outcome["gradient"]
    assert (result[0, :, 1:3] == 0).all()
    assert (result[1] == 0).all()
    assert (result[0, :, 0] != 0).any()
    assert len(gradients) == (4 if form == "float" else 3)
    for gradient in gradients:
        assert gradient.isfinite().all()
        assert (gradient[-1] == 0).all()
    assert (gradients[0][0, :, 1:3] == 0).all()


@pytest.mark.parametrize("low", [torch.finfo(torch.float64).min, torch.finfo(torch.float32).min, -1e9, -1e4])
def test_masks_of_very_low_numbers(low, qkv):
    """What Hugging Face adds instead of -inf: a row of nothing else attends to all keys alike, in exact gradients.

    Not so in torch's fused kernel, which a mask without gradients is handed to: these are wrong by the number of keys.
    """
    mask = torch.zeros(B, 1, T, S, dtype=torch.float64)
    mask[0, :, 1] = low  # everything
    mask[0, :, 2, :6] = low  # two whole tiles
    mask[1, :, :, 4:] = low
    assert_right(*qkv, mask)
    ours, right = (differentiate(lambda *x, f=f: f(*x, mask), *qkv) for f in (tiled, naive))
    assert_equal(ours, right)


def test_widened_keys_are_those_of_their_batch_entry(qkv, monkeypatch):
    """One head of several can't be merged with the batch: the same head and the same tile of keys, twice in a row."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    query, key, value = (x.half()[:, :1] for x in qkv)
    key, value = key[:, :, :3], value[:, :, :3]
    expected = naive(query.double(), key.double(), value.double())
    assert (tiled(query, key, value) - expected).abs().max() < 2**-8


@pytest.mark.parametrize("dropout_p", [0.0, 0.5, 1 - 2**-16])
def test_without_denormal_numbers(dropout_p, qkv):
    """Rows that see nothing stay zero where the least numbers are flushed to it, however few weights are kept."""
    nothing = torch.zeros(T, S, dtype=torch.bool)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor doesn't flush denormal numbers")
    try:
        result = tiled(*(x.float() for x in qkv), nothing, dropout_p)
    finally:
        torch.set_flush_denormal(False)
    assert (result == 0).all()
