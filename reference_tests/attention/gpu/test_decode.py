"""Few queries, many keys: on a GPU, or on the CPU in Triton's interpreter (`tox -e kernels`)."""

import math

import pytest
import torch

pytest.importorskip("triton", reason="needs triton: tox -e kernels")

from reference_tests.attention.gpu.interpreted import DEVICE, DTYPES, MARKS
from scratch_transformer.attention import decode
from scratch_transformer.attention.gpu import split_kv
from scratch_transformer.attention.naive import naive_attention

pytestmark = MARKS
B, H, G, S = 2, 4, 2, 300


def assert_right(T, mask=None, dtype=torch.float32, width=40, value_width=24, **options):
    query = torch.randn(B, H, T, width, device=DEVICE).to(dtype)
    key, value = (torch.randn(B, G, S, n, device=DEVICE).to(dtype) for n in (width, value_width))
    assert decode.unsupported(query, key, value, mask) is None
    result = decode.run(query, key, value, mask, **options)
    expected = naive_attention(
        query.double(), *(x.double().repeat_interleave(H // G, 1) for x in (key, value)), allowed(T, mask, **options)
    )
    assert (result.shape, result.dtype) == (expected.shape, dtype)
    assert (result - expected).abs().max() <= 8 * torch.finfo(dtype).eps * expected.abs().max()


def allowed(T, mask, is_causal=False, bottom_right=False, window=(None, None)):
    distance = torch.arange(S, device=DEVICE) - torch.arange(T, device=DEVICE)[:, None] - (S - T) * bottom_right
    visible = distance <= 0 if is_causal else torch.ones_like(distance, dtype=torch.bool)
    if window[0] is not None:
        visible &= distance >= -window[0]
    if mask is None:
        return visible
    return visible & mask if mask.dtype == torch.bool else mask.double().masked_fill(~visible, -math.inf)


@pytest.fixture(autouse=True, params=[1, 4], ids=["one-split", "splits"])
def splits(request, monkeypatch):
    """As a GPU with so many processors per program would, with splits of two tiles."""
    monkeypatch.setattr(split_kv, "KEYS_PER_SPLIT", 300 // request.param)
    monkeypatch.setattr(split_kv, "PROGRAMS_PER_PROCESSOR", 16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("T", [1, 3])
def test_dense(T, dtype):
    assert_right(T, dtype=dtype)


@pytest.mark.parametrize(
    "options",
    [
        {"is_causal": True, "bottom_right": True},
        {"is_causal": True},
        {"is_causal": True, "bottom_right": True, "window": (70, None)},
        {"bottom_right": True, "window": (70, None)},
    ],
    ids=str,
)
def test_causal_and_windows(options):
    assert_right(3, **options)


@pytest.mark.parametrize("shape", [(B, 1, 1, S), (1, H, 3, S)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32], ids=str)
def test_masks_and_queries_that_see_nothing(shape, dtype):
    mask = torch.rand(shape, device=DEVICE) < 0.6
    mask[-1, -1, -1] = False
    if dtype != torch.bool:
        mask = torch.randn(shape, device=DEVICE).masked_fill(~mask, -math.inf)
    assert_right(3, mask)


@pytest.mark.parametrize("blocked", [-1e9, torch.finfo(torch.float32).min])
def test_rows_of_large_negative_numbers(blocked):
    """Scores that are all the same to float32 have equal weights, though splits differ in length."""
    query = torch.randn(B, H, 1, 40, device=DEVICE)
    key, value = torch.randn(2, B, G, S, 40, device=DEVICE)
    result = decode.run(query, key, value, torch.full((1, S), blocked, device=DEVICE))
    expected = value.mean(2, keepdim=True).repeat_interleave(H // G, 1)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)


def test_what_is_refused():
    query, key = torch.randn(B, H, 33, 16, device=DEVICE), torch.randn(B, G, S, 16, device=DEVICE)
    assert "66 query rows" in decode.unsupported(query, key, key)
    assert "no dropout" in decode.unsupported(query[:, :, :1], key, key, dropout_p=0.5)
    assert "no backward" in decode.unsupported(query[:, :, :1].requires_grad_(), key, key)
    with torch.no_grad():
        assert decode.unsupported(query[:, :, :1], key, key) is None


@pytest.mark.parametrize(
    ("keys", "programs", "expected"),
    [(100, 1, 1), (4096, 1, 16), (4096, 264, 2), (8192, 64, 8), (4096, 10000, 1), (10**6, 1, 128)],
)
def test_number_of_splits(keys, programs, expected, monkeypatch):
    monkeypatch.undo()
    assert split_kv.num_splits(keys, programs, 132) == expected
