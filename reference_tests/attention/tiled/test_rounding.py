"""Low precision, by the doctrine: our error against float64 is at most 2× torch's (gradients: 3×) plus a rounding."""

import pytest
import torch

from reference_tests.agreement import differentiate
from reference_tests.attention.tiled.others import builtin, draw, naive, tiled
from scratch_transformer.attention.tiled import problem, products
from scratch_transformer.attention.tiled.products import Way
from scratch_transformer.conformance.measures import error_ratio

B, H, T, S, D, DV = 2, 4, 150, 530, 24, 16  # two tiles of keys, as large as they are

CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "boolean mask": {"attn_mask": torch.bool},
    "float mask": {"attn_mask": torch.float32},
    "grouped queries": {"enable_gqa": True, "is_causal": True},
    "large scores": {"scale": 9.0},
    "small scores": {"scale": 1e-6},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_errors_beside_torchs(dtype, options):
    """On whatever way this machine has for bfloat16."""
    assert_as_close_as_torch(dtype, options)


@pytest.mark.parametrize("keys", [512, 32], ids=["one tile", "many tiles"])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_errors_of_rounded_products(options, keys, rounded, monkeypatch):
    monkeypatch.setattr(problem, "KEYS", keys)
    monkeypatch.setattr(problem, "QUERIES", min(keys, problem.QUERIES))
    assert_as_close_as_torch(torch.bfloat16, options, DV=D)


@pytest.mark.parametrize("far", ["query", "key", "value"])
def test_errors_of_rounded_products_far_from_zero(far, rounded):
    """Of values far from zero, the gradient of a weight is large, and nearly the row sum that is subtracted."""
    assert_as_close_as_torch(torch.bfloat16, {}, DV=D, far=far)


@pytest.fixture
def rounded(monkeypatch):
    """As on a processor that multiplies bfloat16, where oneDNN does not narrow."""
    monkeypatch.setattr(products, "way", lambda dtype, *_: Way.ROUNDED if dtype == torch.bfloat16 else Way.WIDE)


def assert_as_close_as_torch(dtype, options, DV=DV, far=None):
    """In results and gradients. DV: as D is, torch has a kernel; else it computes in float32 throughout.

    far: which of query, key and value is 20 on average.
    """
    options = dict(options)
    heads = H // 2 if options.get("enable_gqa") else H
    drawn = draw(B, H, T, D), draw(B, heads, S, D), draw(B, heads, S, DV)
    qkv = [(x + 20 * (name == far)).to(dtype) for name, x in zip(("query", "key", "value"), drawn, strict=True)]
    kind = options.pop("attn_mask", None)
    mask = None if kind is None else torch.rand(T, S) < 0.8 if kind is torch.bool else draw(T, S).to(kind)
    outcomes = [differentiate(lambda *x, f=f: f(*x, mask, **options), *qkv) for f in (tiled, builtin)]
    wide = mask.double() if kind is torch.float32 else mask
    golden = differentiate(lambda *x: naive(*x, wide, **options), *(x.double() for x in qkv))
    ours, theirs = outcomes
    assert error_ratio(ours["result"], theirs["result"], golden["result"], 2) <= 2
    for name, *gradients in zip("qkv", ours["gradient"], theirs["gradient"], golden["gradient"], strict=True):
        assert error_ratio(*gradients, 3) <= 3, name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_float_masks(dtype):
    qkv = [x.to(dtype) for x in (draw(1, H, T, D), draw(1, H, S, D), draw(1, H, S, DV))]
    for shape, kind in (((T, S), dtype), ((H, 1, S), torch.float32)):
        mask = draw(*shape).to(kind)
        ours, theirs = (differentiate(f, *qkv, mask)["gradient"][3] for f in (tiled, builtin))
        golden = differentiate(naive, *(x.double() for x in (*qkv, mask)))["gradient"][3]
        assert ours.dtype == kind
        assert error_ratio(ours, theirs, golden, 3) <= 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_one_rounding(dtype, monkeypatch):
    """Half precision is computed in float32 throughout: the result is that of float32, rounded once.

    (Not where the processor multiplies bfloat16 itself: `test_products`.)
    """
    monkeypatch.setattr(products, "way", lambda *_: Way.WIDE)
    qkv = [x.to(dtype) for x in (draw(B, H, T, D), draw(B, H, S, D), draw(B, H, S, DV))]
    assert torch.equal(tiled(*qkv), tiled(*(x.float() for x in qkv)).to(dtype))


def test_gradients_of_values_are_summed_over_blocks_before_they_are_rounded(monkeypatch):
    """Sums of bfloat16 numbers, rounded after each of many blocks, would be off by several roundings."""
    monkeypatch.setattr(problem, "QUERIES", 8)
    monkeypatch.setattr(products, "way", lambda *_: Way.WIDE)
    *qkv, upstream = (draw(1, 2, length, D).to(torch.bfloat16) for length in (512, 5, 5, 512))

    def gradient(dtype):
        given = [x.to(dtype).requires_grad_() for x in qkv]
        return torch.autograd.grad(tiled(*given), given[2], upstream.to(dtype))[0].double()

    exact = gradient(torch.float64)
    rounding = (exact.to(torch.bfloat16).double() - exact).abs().mean()
    assert (gradient(torch.bfloat16) - exact).abs().mean() <= 1.2 * rounding
