"""The portable kernels' results: on a GPU, or on the CPU in Triton's interpreter (`tox -e kernels`).

The interpreter multiplies bfloat16 matrices wrongly, without a word, so bfloat16 is for the GPU. It takes milliseconds
for each pair of tiles, so shapes are small; and a few programs tell as much as many.
"""

import math

import pytest
import torch

pytest.importorskip("triton", reason="needs triton: tox -e kernels")

from reference_tests.attention.gpu.budget import assert_within_budget, random_inputs, with_gradients
from reference_tests.attention.gpu.interpreted import DEVICE, DTYPES, MARKS
from scratch_transformer.attention import triton_flash
from scratch_transformer.attention.naive import naive_attention

pytestmark = MARKS
B, H, G, T, S = 2, 2, 1, 37, 70


def inputs(dtype=torch.float32, heads=G, width=16, value_width=24, queries=T, keys=S):
    return random_inputs(
        [(B, H, queries, width), (B, heads, keys, width), (B, heads, keys, value_width)], dtype, DEVICE
    )


def band(lower, upper, queries=T, keys=S):
    t, s = torch.arange(queries, device=DEVICE)[:, None], torch.arange(keys, device=DEVICE)
    return (s >= t + lower) & (s <= t + upper)


@pytest.mark.parametrize("deterministic", [True, False], ids=["deterministic", "adding"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dense(dtype, deterministic):
    assert_within_budget(lambda *qkv: triton_flash.run(*qkv, deterministic=deterministic), inputs(dtype))


@pytest.mark.parametrize("width", [16, 40, 80, 256])
def test_widths(width):
    given = random_inputs([(1, 1, 33, width), (1, 1, 35, width), (1, 1, 35, 2 * 8 + 1)], torch.float32, DEVICE)
    assert_within_budget(triton_flash.run, given)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("queries", "keys"), [(70, 90), (90, 70), (128, 128)])
def test_causal(queries, keys, dtype):
    mask = band(-math.inf, 0, queries, keys)
    given = inputs(dtype, queries=queries, keys=keys)
    assert_within_budget(lambda *qkv: triton_flash.run(*qkv, is_causal=True), given, mask)


@pytest.mark.parametrize("deterministic", [True, False], ids=["deterministic", "adding"])
@pytest.mark.parametrize(("queries", "keys"), [(70, 90), (90, 70)])
def test_causal_from_the_bottom_right(queries, keys, deterministic):
    """With more queries than keys the first queries see nothing: zero."""

    def ours(*qkv):
        return triton_flash.run(*qkv, is_causal=True, bottom_right=True, deterministic=deterministic)

    mask = band(-math.inf, keys - queries, queries, keys)
    assert_within_budget(ours, inputs(queries=queries, keys=keys), mask)


@pytest.mark.parametrize("window", [(20, 0), (20, 13), (None, 13), (3, None), (1, 0)])
def test_window(window):
    before, after = (math.inf if limit is None else limit for limit in window)
    assert_within_budget(lambda *qkv: triton_flash.run(*qkv, window=window), inputs(), band(-before, after))


@pytest.mark.parametrize("shape", [(T, S), (B, 1, 1, S), (B, H, T, 1), (1, H, T, S)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32], ids=str)
def test_masks(shape, dtype):
    mask = torch.rand(shape, device=DEVICE) < 0.6
    if dtype != torch.bool:
        mask = torch.randn(shape, device=DEVICE).masked_fill(~mask, -math.inf)
    assert_within_budget(lambda *qkv: triton_flash.run(*qkv, attn_mask=mask), inputs(), mask)


def test_a_mask_with_a_causal_one():
    mask = torch.rand(T, S, device=DEVICE) < 0.5
    both = mask & band(-math.inf, 0)
    assert_within_budget(lambda *qkv: triton_flash.run(*qkv, attn_mask=mask, is_causal=True), inputs(), both)


def test_rows_that_see_nothing():
    mask = torch.zeros(B, 1, T, S, device=DEVICE)
    mask[0, 0, 3] = mask[1, 0, 5] = mask[1, 0, :, 40:] = -math.inf
    assert_within_budget(lambda *qkv: triton_flash.run(*qkv, attn_mask=mask), inputs(), mask)
    assert (triton_flash.run(*inputs(), attn_mask=mask)[0, :, 3] == 0).all()


@pytest.mark.parametrize("deterministic", [True, False], ids=["deterministic", "adding"])
@pytest.mark.parametrize("blocked", [-1e9, torch.finfo(torch.float32).min])
def test_rows_of_large_negative_numbers(blocked, deterministic):
    """Another way to block: scores that are all the same to float32 have equal weights, as in naive attention."""
    given = inputs(heads=H)
    mask = torch.zeros(B, 1, T, S, device=DEVICE)
    mask[0, 0, 3] = mask[1, 0, 5] = mask[1, 0, :, 40:] = blocked
    upstream = torch.randn(B, H, T, 24, device=DEVICE)

    def ours(*qkv):
        return triton_flash.run(*qkv, attn_mask=mask, deterministic=deterministic)

    actual = with_gradients(ours, given, upstream, torch.float32)
    expected = with_gradients(lambda *qkv: naive_attention(*qkv, mask), given, upstream, torch.float32)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 2])
def test_shared_heads(heads):
    assert_within_budget(triton_flash.run, inputs(heads=heads))


@pytest.mark.parametrize("scale", [0.5, 0.0, -0.3])
def test_scale(scale):
    assert_within_budget(lambda *qkv: triton_flash.run(*qkv, scale=scale), inputs(), scale=scale)


def test_high_scores_do_not_overflow():
    query, key, value = inputs(torch.float16, heads=H)
    expected = naive_attention(query.double(), key.double(), value.double(), scale=100.0)
    torch.testing.assert_close(triton_flash.run(query, key, value, scale=100.0).double(), expected, rtol=0, atol=5e-3)


def test_any_strides():
    """Heads beside each other, as nn.MultiheadAttention has them; transposed; every other; broadcast."""
    query = torch.randn(B, T, H, 16, device=DEVICE).transpose(1, 2)
    key = torch.randn(B, G, 16, S, device=DEVICE).transpose(2, 3)
    value = torch.randn(B, G, 2 * S, 24, device=DEVICE)[:, :, ::2]
    expected = triton_flash.run(*(x.contiguous() for x in (query, key, value)))
    assert torch.equal(triton_flash.run(query, key, value), expected)
    one = key[:1, :1]
    expected = triton_flash.run(query, one.expand(B, H, -1, -1).contiguous(), value)
    torch.testing.assert_close(triton_flash.run(query, one, value), expected)


@pytest.mark.parametrize("dims", [2, 3])
def test_fewer_dimensions(dims):
    query, key, value = (x[0, 0].expand(*[2] * (dims - 2), *x.shape[2:]) for x in inputs())
    result = triton_flash.run(query, key, value)
    assert result.shape == (*query.shape[:-1], 24)
    torch.testing.assert_close(result, naive_attention(query, key, value), rtol=1e-5, atol=1e-6)


def test_empty():
    query, key, value = inputs()
    assert triton_flash.run(query[:0], key[:0], value[:0]).shape == (0, H, T, 24)
    assert triton_flash.run(query[:, :, :0], key, value).shape == (B, H, 0, 24)
    out = triton_flash.run(query, key[:, :, :0], value[:, :, :0])
    assert (out == 0).all()
    assert all((x == 0).all() for x in torch.autograd.grad(out.sum(), (query, key, value)))


# ---- Dropout ----


@pytest.mark.parametrize("deterministic", [True, False], ids=["deterministic", "adding"])
def test_dropout(deterministic):
    """The backward pass, with tiles of its own, drops what the forward pass dropped, and `kept_weights` says what."""
    torch.manual_seed(3)
    kept = triton_flash.kept_weights((B, H, T, S), 0.3, DEVICE)

    def ours(*qkv):
        torch.manual_seed(3)
        return triton_flash.run(*qkv, dropout_p=0.3, deterministic=deterministic)

    assert_within_budget(ours, inputs(), kept=kept, dropout_p=0.3)


def test_dropout_follows_the_generator():
    query, key, value = inputs()
    torch.manual_seed(3)
    first, second = (triton_flash.run(query, key, value, dropout_p=0.3) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(first, triton_flash.run(query, key, value, dropout_p=0.3))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_what_dropout_keeps_is_random(p):
    """Its frequency, and its correlation between neighbours in every direction, within five standard deviations."""
    kept = triton_flash.kept_weights((2, 3, 320, 256), p, DEVICE).double() - (1 - p)
    pairs = [(kept, torch.ones_like(kept) * math.sqrt(p * (1 - p)))]
    for dim in range(4):
        for distance in (1, 2, 64):
            if distance < kept.shape[dim]:
                length = kept.shape[dim] - distance
                pairs.append((kept.narrow(dim, 0, length), kept.narrow(dim, distance, length)))
    for x, y in pairs:
        assert abs((x * y).mean()) < 5 * p * (1 - p) / math.sqrt(x.numel())
    for dim in (2, 3):
        means = kept.mean(dim)
        assert means.var() == pytest.approx(p * (1 - p) / kept.shape[dim], rel=0.25)


# ---- As an operator of torch ----


def test_compiled_graphs_have_no_break():
    def loss(query, key, value):
        return triton_flash.run(query * 2, key, value, is_causal=True).square().sum()

    given = inputs()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    expected = torch.autograd.grad(loss(*given), given)
    for a, e in zip(torch.autograd.grad(compiled(*given), given), expected, strict=True):
        torch.testing.assert_close(a, e)


def test_what_the_operators_declare_is_true():
    from scratch_transformer.attention.gpu.flash import flash_forward

    query, key, value = inputs()
    mask = torch.ones(B, H, T, S, dtype=torch.bool, device=DEVICE)
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(flash_forward, (query, key, value, mask, None, 0.0, None, 0, 0.25, True), test_utils=checks)


@pytest.mark.parametrize("deterministic", [True, False], ids=["deterministic", "adding"])
def test_gradients_lie_in_memory_as_the_operators_declare(deterministic):
    """Also those of heads that lie beside each other, which compiled graphs take for granted."""
    from scratch_transformer.attention.gpu.flash import flash_backward, flash_forward

    query, key, value = (torch.randn(B, n, H, 16, device=DEVICE).half().transpose(1, 2) for n in (T, S, S))
    rest = (None, None, 0.0, None, 0, 0.25, deterministic)
    results = flash_forward(query, key, value, *rest)
    args = (torch.randn_like(results[0]), query, key, value, *rest, *results)
    torch.library.opcheck(flash_backward, args, test_utils=("test_schema", "test_faketensor"))


def test_no_second_derivative():
    query, key, value = inputs()
    (grad,) = torch.autograd.grad(triton_flash.run(query, key, value).sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(grad.sum(), key)


def test_autocast():
    query, key, value = inputs()
    with torch.autocast(DEVICE.type, torch.float16):
        result = triton_flash.run(query, key, value)
    assert result.dtype == torch.float16
    assert torch.equal(result, triton_flash.run(query.half(), key.half(), value.half()))
