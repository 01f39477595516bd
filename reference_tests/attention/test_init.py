"""`scaled_dot_product_attention` against torch's, over its whole signature, and `attention_weights` beside it."""

import inspect
import itertools

import pytest
import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_agree, assert_equal
from scratch_transformer.attention import attention_weights, scaled_dot_product_attention

B, H, T, S, D, DV = 2, 3, 4, 5, 6, 7
BATCHES = {2: (), 3: (B,), 4: (B, H), 5: (8, B, H)}
every_rank = pytest.mark.parametrize("batch", BATCHES.values(), ids=[f"{rank}-D" for rank in BATCHES])


@pytest.fixture
def draw(device):
    return lambda *shape: torch.randn(*shape, dtype=torch.float64, device=device)


@pytest.fixture
def draw_qkv(draw):
    def draw_qkv(batch=(B, H), queries=T, keys=S, width=D, value_width=DV):
        return draw(*batch, queries, width), draw(*batch, keys, width), draw(*batch, keys, value_width)

    return draw_qkv


def agree(*args, **kwargs):
    assert_agree(scaled_dot_product_attention, F.scaled_dot_product_attention, *args, **kwargs)


def test_signature():
    """Torch's is written in C++: its documentation says it in words."""
    parameters = inspect.signature(scaled_dot_product_attention).parameters
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    assert list(parameters)[:3] == ["query", "key", "value"]
    torchs = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False}
    assert defaults == torchs | {"bottom_right": False, "window": (None, None), "algorithm": "auto"}
    kinds = [p.kind for p in parameters.values()]
    assert kinds == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 8 + [inspect.Parameter.KEYWORD_ONLY] * 3
    doc = F.scaled_dot_product_attention.__doc__
    assert "attn_mask=None, dropout_p=0.0" in doc
    assert "is_causal=False, scale=None, enable_gqa=False" in doc


@every_rank
@pytest.mark.parametrize("scale", [None, 0.37, -0.5])
def test_without_masks(batch, scale, draw_qkv):
    agree(*draw_qkv(batch), scale=scale)


@every_rank
@pytest.mark.parametrize("lengths", [(4, 5), (5, 5), (5, 4), (1, 5), (5, 1), (1, 1)], ids=str)
def test_causal(batch, lengths, draw_qkv):
    agree(*draw_qkv(batch, *lengths), is_causal=True)


def test_causal_is_aligned_at_the_top_left(draw_qkv):
    """The first query sees the first key alone, however many keys there are."""
    query, key, value = draw_qkv()
    assert_equal(scaled_dot_product_attention(query, key, value, is_causal=True)[:, :, 0], value[:, :, 0])


# Every subset of the dimensions (B, H, T, S) may be 1, and leading dimensions may be absent
SIZES = list(itertools.product((1, B), (1, H), (1, T), (1, S)))
MASK_SHAPES = [*SIZES, *{size[1:] for size in SIZES}, *{size[2:] for size in SIZES}]


@pytest.mark.parametrize("form", ["bool", "float", "float with -inf"])
@pytest.mark.parametrize("shape", sorted(MASK_SHAPES, key=lambda shape: (len(shape), shape)), ids=str)
def test_masks_of_every_shape(shape, form, draw, draw_qkv, device):
    allowed = torch.rand(shape, device=device) < 0.6  # some rows see nothing
    additive = draw(*shape)
    mask = {"bool": allowed, "float": additive, "float with -inf": additive.masked_fill(~allowed, -torch.inf)}[form]
    agree(*draw_qkv(), mask)


@pytest.mark.parametrize("batch", [(), (B,), (8, B, H)], ids=str)
@pytest.mark.parametrize("form", ["bool", "float"])
def test_masks_at_other_ranks(batch, form, draw, draw_qkv, device):
    for shape in {(T, S), (*batch, T, S)}:
        mask = torch.rand(shape, device=device) < 0.6 if form == "bool" else draw(*shape)
        agree(*draw_qkv(batch), mask)


@pytest.mark.parametrize("heads", [(6, 1, 1), (6, 2, 2), (6, 3, 3), (6, 6, 6)], ids=str)
@pytest.mark.parametrize("is_causal", [False, True])
def test_grouped_queries(heads, is_causal, draw):
    queries, keys, values = heads
    qkv = draw(B, queries, T, D), draw(B, keys, S, D), draw(B, values, S, DV)
    agree(*qkv, is_causal=is_causal, enable_gqa=True)


@pytest.mark.parametrize("batch", [(), (8, B)], ids=["3-D", "5-D"])
def test_grouped_queries_at_other_ranks(batch, draw):
    agree(draw(*batch, 6, T, D), draw(*batch, 2, S, D), draw(*batch, 3, S, DV), enable_gqa=True)


@pytest.mark.parametrize("ranks", [(2, 3), (3, 2), (2, 2)], ids=str)
def test_grouped_queries_need_heads(ranks, draw):
    query, key = (draw(*(6, length, D)[-rank:]) for rank, length in zip(ranks, (T, S), strict=True))
    with pytest.raises(RuntimeError, match=r"enable_gqa needs query and key with a head dimension, \(\.\.\., H"):
        scaled_dot_product_attention(query, key, key, enable_gqa=True)


def test_grouped_queries_need_a_multiple_of_the_values_heads_too(draw):
    query, key, value = draw(B, 6, T, D), draw(B, 2, S, D), draw(B, 4, S, DV)
    with pytest.raises(RuntimeError, match=r"number of heads, 6, must be a multiple of value's, 4$"):
        scaled_dot_product_attention(query, key, value, enable_gqa=True)


def test_grouped_queries_share_keys_in_a_row(draw):
    """Queries 0 and 1 use head 0, queries 2 and 3 head 1; not 0 and 2."""
    query, key, value = draw(1, 4, T, D), draw(1, 2, S, D), draw(1, 2, S, DV)
    grouped = scaled_dot_product_attention(query, key, value, enable_gqa=True)
    for head in range(4):
        expected = scaled_dot_product_attention(query[:, head], key[:, head // 2], value[:, head // 2])
        assert_equal(grouped[:, head], expected)


@pytest.mark.parametrize("width", [1, D, 64])
@pytest.mark.parametrize("value_width", [1, DV, 32])
def test_widths(width, value_width, draw_qkv):
    agree(*draw_qkv(width=width, value_width=value_width))


@pytest.mark.parametrize("sizes", [(0, T, S), (B, 0, S), (B, T, 0)], ids=["no batch", "no queries", "no keys"])
@pytest.mark.parametrize("has_mask", [False, True])
def test_nothing(sizes, has_mask, draw, device):
    batch, queries, keys = sizes
    mask = torch.ones(queries, keys, dtype=torch.bool, device=device) if has_mask else None
    qkv = draw(batch, H, queries, D), draw(batch, H, keys, D), draw(batch, H, keys, DV)
    result = scaled_dot_product_attention(*qkv, mask)
    assert_equal(result, F.scaled_dot_product_attention(*qkv, mask))
    assert result.shape == (batch, H, queries, DV)
    if keys == 0:
        assert (result == 0).all()


@pytest.mark.parametrize("dropout_p", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"attn_mask": True}, {"scale": 2.0}], ids=str)
def test_dropout_drops_what_torch_drops(dropout_p, options, draw_qkv, device):
    """Torch's mathematical kernel, which it takes for dropout on the CPU, draws the mask that we draw."""
    if device.type != "cpu":
        pytest.skip("other devices draw other random numbers in their fused kernels")
    mask = torch.rand(T, S) < 0.7 if "attn_mask" in options else None
    agree(*draw_qkv(), **{**options, "attn_mask": mask}, dropout_p=dropout_p)


def test_dropout_is_inverted(draw_qkv):
    """The mean over many masks is what it is without dropout: what is kept is scaled by 1 / (1 - p)."""
    query, key, value = draw_qkv()
    mean = torch.stack([scaled_dot_product_attention(query, key, value, dropout_p=0.3) for _ in range(4000)]).mean(0)
    assert (mean - scaled_dot_product_attention(query, key, value)).abs().max() < 0.1


def test_inputs_that_are_not_contiguous(draw):
    query, key, value = (draw(B, length, H, width).transpose(1, 2) for length, width in ((T, D), (S, D), (S, DV)))
    agree(query, key, value)
    agree(query, key[:, :1].expand(B, H, S, D), value[..., ::2])


# ---- attention_weights ----


@every_rank
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.37}], ids=str)
def test_weights_times_values_are_attention(batch, options, draw_qkv):
    query, key, value = draw_qkv(batch)
    weights = attention_weights(query, key, **options)
    assert weights.shape == (*batch, T, S)
    assert_equal(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert_equal(weights @ value, F.scaled_dot_product_attention(query, key, value, **options))


@pytest.mark.parametrize("form", ["bool", "float"])
def test_weights_under_a_mask(form, draw, draw_qkv, device):
    query, key, value = draw_qkv()
    mask = torch.rand(B, 1, T, S, device=device) < 0.6 if form == "bool" else draw(T, S)
    expected = F.scaled_dot_product_attention(query, key, value, mask)
    assert_equal(attention_weights(query, key, mask) @ value, expected)


def test_weights_of_grouped_queries(draw):
    query, key, value = draw(B, 6, T, D), draw(B, 2, S, D), draw(B, 2, S, DV)
    weights = attention_weights(query, key, enable_gqa=True)
    assert weights.shape == (B, 6, T, S)
    expected = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    assert_equal(weights @ value.repeat_interleave(3, dim=1), expected)


def test_weights_refuse_what_attention_refuses(draw):
    query, key = draw(B, H, T, D), draw(B, 2, S, D)
    with pytest.raises(RuntimeError, match=f"enable_gqa query's number of heads, {H}, must be a multiple of key's, 2"):
        attention_weights(query, key, enable_gqa=True)
    with pytest.raises(RuntimeError, match=rf"attn_mask \({T}, {T}\) must broadcast"):
        attention_weights(query, draw(B, H, S, D), torch.ones(T, T, dtype=torch.bool))
