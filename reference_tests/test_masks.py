"""Masks, entry by entry: every mask of a tiny size, in every convention, against a loop that says who may see what."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_equal
from scratch_transformer import masks, nn

INF = math.inf
SHAPES = [(1, 1), (1, 3), (3, 1), (2, 2), (2, 3), (0, 3), (3, 0)]


def every_boolean_mask(*shape):
    for values in itertools.product([False, True], repeat=math.prod(shape)):
        yield torch.tensor(values).reshape(shape)


# ---- causal and padding ----


@pytest.mark.parametrize("T", range(5))
@pytest.mark.parametrize("S", range(5))
def test_causal(T, S, device):
    mask = masks.causal(T, S, device)
    assert (mask.shape, mask.dtype, mask.device.type) == ((T, S), torch.bool, device.type)
    assert mask.tolist() == [[j <= i for j in range(S)] for i in range(T)]


@pytest.mark.parametrize("T, S", [(4, 7), (7, 4), (5, 5)])
def test_causal_at_the_bottom_right(T, S, device):
    mask = masks.causal(T, S, device, bottom_right=True)
    assert mask.device.type == device.type
    assert mask.tolist() == [[j <= i + S - T for j in range(S)] for i in range(T)]


def test_within_no_limits(device):
    assert torch.equal(masks.within(2, 3, None, None, device), torch.ones(2, 3, dtype=torch.bool, device=device))


def test_causal_is_square_by_default_and_the_complement_of_torchs():
    assert torch.equal(masks.causal(4), masks.causal(4, 4))
    builtin = torch.nn.Transformer.generate_square_subsequent_mask(4)
    assert torch.equal(masks.to_additive(masks.causal(4)), builtin)


@pytest.mark.parametrize("pad_id", [0, 2])
def test_padding(pad_id):
    for ids in itertools.product(range(3), repeat=4):
        mask = masks.padding(torch.tensor(ids).reshape(2, 2), pad_id)
        assert (mask.shape, mask.dtype) == ((2, 1, 1, 2), torch.bool)
        assert mask.flatten().tolist() == [i != pad_id for i in ids]


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), ()], ids=str)
def test_padding_of_another_rank(shape):
    with pytest.raises(ValueError, match=r"ids must be \(batch, length\), but has shape"):
        masks.padding(torch.zeros(shape, dtype=torch.long), 0)


# ---- Conversions ----


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_from_blocked_turns_booleans_round(shape):
    for blocked in every_boolean_mask(*shape):
        assert masks.from_blocked(blocked).tolist() == [[not b for b in row] for row in blocked.tolist()]


def test_from_blocked_keeps_float_masks():
    mask = torch.tensor([0.0, -INF, 1.5])
    assert masks.from_blocked(mask) is mask
    assert masks.from_blocked(None) is None


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8], ids=str)
def test_from_blocked_refuses_integers(dtype):
    """Whether 1 means "attend" or "blocked" is anybody's guess."""
    with pytest.raises(AssertionError, match="bool and floating types of tgt_mask are supported, but got torch.*int"):
        masks.from_blocked(torch.ones(2, dtype=dtype), "tgt_mask")
    with pytest.raises(AssertionError, match="types of mask are supported"):
        masks.from_blocked(torch.ones(2, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float32, torch.float16], ids=str)
def test_from_keep(dtype):
    values = torch.tensor([[0, 1], [1, 0]]).to(dtype)
    assert masks.from_keep(values).tolist() == [[False, True], [True, False]]
    assert masks.from_keep(None) is None


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_is_causal_recognizes_the_causal_mask_alone(size, dtype):
    def blocked(allowed):
        return ~allowed if dtype == torch.bool else masks.to_additive(allowed, dtype)

    allowed = masks.causal(size)
    assert masks.is_causal(blocked(allowed))
    assert not masks.is_causal(blocked(masks.causal(size, size + 1)))
    assert not masks.is_causal(blocked(masks.causal(size + 1, size)))
    assert not masks.is_causal(blocked(~allowed))
    if size > 1:
        assert not masks.is_causal(blocked(allowed.T))
        assert not masks.is_causal(blocked(torch.ones_like(allowed)))


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32], ids=str)
def test_is_causal_with_a_mask_of_another_rank(dtype):
    blocked = ~masks.causal(3) if dtype == torch.bool else masks.to_additive(masks.causal(3))
    assert masks.is_causal(blocked)
    assert not masks.is_causal(blocked[0])
    assert not masks.is_causal(blocked[None])


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32], ids=str)
def test_is_causal_compares_on_the_masks_device(dtype, device):
    allowed = masks.causal(3, device=device)
    blocked = ~allowed if dtype == torch.bool else masks.to_additive(allowed)
    with torch.device("meta"):
        assert masks.is_causal(blocked)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_from_keep_refuses_additive_masks(dtype):
    message = "^mask must say 1 = keep and 0 = block, but has entries of -inf: it is an additive mask$"
    with pytest.raises(ValueError, match=message):
        masks.from_keep(masks.to_additive(masks.causal(3), dtype))


@pytest.mark.parametrize("dtype", [None, torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_to_additive(dtype):
    for mask in every_boolean_mask(2, 2):
        additive = masks.to_additive(mask, dtype)
        assert additive.dtype == (dtype or torch.get_default_dtype())
        assert additive.tolist() == [[0.0 if allowed else -INF for allowed in row] for row in mask.tolist()]
    given = torch.tensor([0.3])
    assert masks.to_additive(given, dtype) is given


# ---- Combinations ----


def allows(mask, *index):
    """Whether a mask, broadcast, lets through; what any convention means by it."""
    if mask is None:
        return True
    value = mask[tuple(0 if size == 1 else i for i, size in zip(index[-mask.dim() :], mask.shape, strict=True))]
    return bool(value) if mask.dtype == torch.bool else value.item() != -INF


@pytest.mark.parametrize("first_is_float", [False, True], ids=["bool", "float"])
@pytest.mark.parametrize("second_is_float", [False, True], ids=["bool", "float"])
@pytest.mark.parametrize("shapes", [((2, 2), (2, 2)), ((2, 2), (1, 2)), ((2, 1), (1, 2)), ((2, 1, 2), (2, 2))], ids=str)
def test_combine_blocks_what_either_blocks(shapes, first_is_float, second_is_float):
    for first, second in itertools.product(*(every_boolean_mask(*shape) for shape in shapes)):
        first = masks.to_additive(first, torch.float64) if first_is_float else first
        second = masks.to_additive(second, torch.float64) if second_is_float else second
        combined = masks.combine(first, second)
        assert combined.dtype == (torch.float64 if first_is_float or second_is_float else torch.bool)
        assert combined.shape == torch.broadcast_shapes(*shapes)
        for index in itertools.product(*map(range, combined.shape)):
            assert allows(combined, *index) == (allows(first, *index) and allows(second, *index))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_combine_with_a_boolean_mask_keeps_the_float_masks_dtype(dtype):
    boolean, additive = torch.tensor([True, False]), torch.tensor([0.5, 1.0], dtype=dtype)
    for pair in ((boolean, additive), (additive, boolean)):
        combined = masks.combine(*pair)
        assert combined.dtype == dtype
        assert combined.tolist() == [0.5, -INF]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_combine_any_number_with_none_among_them(count):
    candidates = [
        None,
        torch.tensor([True, False, True]),
        torch.tensor([[False], [True]]),
        torch.tensor([0.5, -1.0, 2.0]),
    ]
    for chosen in itertools.product(candidates, repeat=count):
        combined = masks.combine(*chosen)
        given = [mask for mask in chosen if mask is not None]
        if not given:
            assert combined is None
            continue
        for index in itertools.product(*map(range, combined.shape)):
            assert allows(combined, *index) == all(allows(mask, *index) for mask in given)
        floats = [mask for mask in given if mask.is_floating_point()]
        if floats:
            expected = sum(floats).expand(combined.shape)
            assert_equal(combined[combined != -INF], expected[combined != -INF])


def test_combine_nothing():
    assert masks.combine() is None
    assert masks.combine(None, None) is None


def test_combine_keeps_the_float_masks_dtype():
    allowed, added = torch.tensor([True, False]), torch.tensor([0.25, 0.5], dtype=torch.float64)
    for combined in (masks.combine(allowed, added), masks.combine(added, allowed)):
        assert combined.dtype == torch.float64
        assert combined.tolist() == [0.25, -INF]


# ---- Further keys, and their use ----


@pytest.mark.parametrize("count", [0, 1, 2])
def test_append_open_keys(count):
    for mask in every_boolean_mask(2, 2):
        extended = masks.append_open_keys(mask, count)
        assert extended.tolist() == [[*row, *[True] * count] for row in mask.tolist()]
        additive = masks.append_open_keys(masks.to_additive(mask), count)
        assert additive.tolist() == masks.to_additive(extended).tolist()
    assert masks.append_open_keys(None, count) is None


def test_apply(device):
    scores = torch.randn(2, 2, dtype=torch.float64, device=device)
    assert masks.apply(scores, None) is scores
    for mask in every_boolean_mask(2, 2):
        applied = masks.apply(scores, mask.to(device))
        for i, j in itertools.product(range(2), repeat=2):
            assert applied[i, j] == (scores[i, j] if mask[i, j] else -INF)
    added = torch.randn(1, 2, dtype=torch.float64, device=device)
    assert torch.equal(masks.apply(scores, added), scores + added)


# ---- The two masks of MultiheadAttention, every combination of them ----


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("forms", list(itertools.product(["bool", "float"], repeat=2)), ids="-".join)
def test_every_pair_of_masks_of_multihead_attention(forms, need_weights):
    """One query, three keys, two heads: 8 padding masks × 64 masks per head, against softmax over the keys left."""
    torch.manual_seed(0)
    module = nn.MultiheadAttention(2, 2, batch_first=True, dtype=torch.float64)
    torch.nn.init.normal_(module.in_proj_bias)
    query, keys = torch.randn(1, 1, 2, dtype=torch.float64), torch.randn(1, 3, 2, dtype=torch.float64)
    b_q, b_k, b_v = module.in_proj_bias.chunk(3)
    W_q, W_k, W_v = module.in_proj_weight.chunk(3)
    q, k, v = (F.linear(x[0], W, b) for x, W, b in ((query, W_q, b_q), (keys, W_k, b_k), (keys, W_v, b_v)))
    for padding, attn in itertools.product(every_boolean_mask(1, 3), every_boolean_mask(2, 1, 3)):
        given = [
            masks.to_additive(~m, torch.float64) if form == "float" else m
            for m, form in zip((attn, padding), forms, strict=True)
        ]
        output, weights = module(
            query, keys, keys, given[1], need_weights, attn_mask=given[0], average_attn_weights=False
        )
        expected = torch.zeros(2, 3, dtype=torch.float64)
        for head in range(2):  # the width of a head is one
            left = [key for key in range(3) if not padding[0, key] and not attn[head, 0, key]]
            if left:
                expected[head, left] = F.softmax(q[0, head] * k[left, head], dim=0)
        heads = torch.stack([expected[head] @ v[:, head] for head in range(2)])
        assert_equal(output[0, 0], F.linear(heads, module.out_proj.weight, module.out_proj.bias))
        if need_weights:
            assert_equal(weights[0, :, 0], expected)


def test_band_without_options_has_no_limits():
    assert masks.band(4, 7) == (None, None)
    assert masks.band(4, 7, True) == (None, 0)
    assert masks.band(4, 7, True, True, (2, None)) == (1, 3)
