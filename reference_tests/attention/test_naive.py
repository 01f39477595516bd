"""Attention as the paper writes it: by hand, against a loop, at the extremes, and in rows that may see nothing."""

import math

import pytest
import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_agree, assert_equal, differentiate
from scratch_transformer import masks
from scratch_transformer.attention.naive import attention_weights, naive_attention

B, H, T, S, D, DV = 2, 3, 4, 5, 6, 7
INF = math.inf


@pytest.fixture
def qkv(device):
    return [
        torch.randn(B, H, length, width, dtype=torch.float64, device=device)
        for length, width in ((T, D), (S, D), (S, DV))
    ]


def test_by_hand():
    """Scores 0 and ln 3 after division by √4 = 2: weights 1/4 and 3/4."""
    query = torch.tensor([[2.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    key = torch.tensor([[0.0, 5.0, 5.0, 5.0], [math.log(3), 1.0, 1.0, 1.0]], dtype=torch.float64)
    value = torch.tensor([[4.0, 0.0], [8.0, 100.0]], dtype=torch.float64)
    assert_equal(attention_weights(query, key), torch.tensor([[0.25, 0.75]], dtype=torch.float64))
    assert_equal(naive_attention(query, key, value), torch.tensor([[7.0, 75.0]], dtype=torch.float64))


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_default_device_takes_no_part(is_causal, qkv):
    with torch.device("meta"):
        result = naive_attention(*qkv, is_causal=is_causal)
    assert_equal(result, naive_attention(*qkv, is_causal=is_causal))


@pytest.mark.parametrize("is_causal", [False, True])
def test_against_a_loop_over_single_numbers(is_causal, qkv):
    query, key, value = (x.cpu() for x in qkv)
    result = naive_attention(query, key, value, is_causal=is_causal)
    for b, h, t in torch.cartesian_prod(torch.arange(B), torch.arange(H), torch.arange(T)).tolist():
        seen = range(min(t + 1, S) if is_causal else S)
        e = [math.exp(sum(query[b, h, t, d] * key[b, h, s, d] for d in range(D)) / math.sqrt(D)) for s in seen]
        expected = [sum(e[s] * value[b, h, s, d].item() for s in seen) / sum(e) for d in range(DV)]
        assert result[b, h, t].tolist() == pytest.approx(expected, rel=1e-12, abs=1e-13)


def test_weights_are_softmax_of_the_scores(qkv):
    query, key, _ = qkv

    def builtin(query, key):
        return F.softmax(query @ key.transpose(-2, -1) / math.sqrt(D), dim=-1)

    assert_agree(attention_weights, builtin, query, key)


def test_weights_sum_to_one_or_to_zero_where_nothing_may_be_seen(qkv, device):
    mask = torch.rand(B, H, T, S, device=device) < 0.4
    mask[0, 0, 0] = False
    mask[1, 2, 3] = True
    for given in (mask, masks.to_additive(mask, torch.float64)):
        weights = attention_weights(*qkv[:2], given)
        assert (weights >= 0).all()
        assert (weights[~mask] == 0).all()
        assert_equal(weights.sum(-1), mask.any(-1).double())


@pytest.mark.parametrize("scale", [None, 0.37, 1.0, -0.5, 0.0])
def test_scale(scale, qkv):
    query, key, _ = qkv
    expected = F.softmax(query @ key.transpose(-2, -1) * (1 / math.sqrt(D) if scale is None else scale), dim=-1)
    assert_equal(attention_weights(query, key, scale=scale), expected)


def test_causal_and_a_mask_together_block_what_either_blocks(qkv, device):
    mask = torch.rand(T, S, device=device) < 0.5
    both = attention_weights(*qkv[:2], mask, is_causal=True)
    assert_equal(both, attention_weights(*qkv[:2], mask & masks.causal(T, S, device)))


# ---- Extremes ----


@pytest.mark.parametrize("factor", [1e4, 1e150])
def test_huge_scores_select_one_key(factor, qkv):
    """exp(1e4) is infinite; torch's softmax and ours never compute it."""
    query, key, value = qkv
    assert_agree(naive_attention, F.scaled_dot_product_attention, query * factor, key, value)
    best = (query @ key.transpose(-2, -1)).argmax(-1)
    assert_equal(attention_weights(query * factor, key), F.one_hot(best, S).double(), tolerance=1e-9)


@pytest.mark.parametrize("poison", [math.nan, INF, -INF])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["query", "key", "value"])
def test_poison_spreads_as_in_torch(which, poison, qkv):
    qkv[which][1, 2, 3, 1] = poison
    ours, builtin = (differentiate(f, *qkv)["result"] for f in (naive_attention, F.scaled_dot_product_attention))
    assert torch.equal(ours.isfinite(), builtin.isfinite())
    assert not ours[1, 2].isfinite().all()
    assert ours[0].isfinite().all()  # no other sequence
    assert ours[1, :2].isfinite().all()  # and no other head


def test_a_masked_key_may_be_anything(qkv, device):
    """A boolean mask takes the score out, whatever it was. NaN in a masked value still spreads, as 0 · NaN."""
    query, key, value = qkv
    mask = torch.ones(S, dtype=torch.bool, device=device)
    mask[2] = False
    expected = naive_attention(query, key[:, :, mask], value[:, :, mask])
    for poison in (1e300, math.nan, INF):
        key[:, :, 2] = poison
        assert_equal(naive_attention(query, key, value, mask), expected)


# ---- Rows that may attend to nothing ----


@pytest.mark.parametrize("form", ["bool", "float"])
@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
def test_fully_masked_rows_are_zero_and_so_are_their_gradients(form, dropout_p, qkv, device):
    mask = torch.ones(B, 1, T, S, dtype=torch.bool, device=device)
    mask[0, :, 1:3] = False
    mask[1] = False  # all of it
    given = masks.to_additive(mask, torch.float64) if form == "float" else mask
    outcome = differentiate(naive_attention, *qkv, given, dropout_p=dropout_p)
    result, gradients = outcome["result"], outcome["gradient"]
    assert (result[0, :, 1:3] == 0).all()
    assert (result[1] == 0).all()
    assert (result[0, :, 0] != 0).any()
    assert len(gradients) == (4 if form == "float" else 3)
    for gradient in gradients:
        assert gradient.isfinite().all()
        assert (gradient[-1] == 0).all()  # the second sequence sees nothing
    query_gradient = gradients[0]
    assert (query_gradient[0, :, 1:3] == 0).all()
    assert (query_gradient[0, :, 0] != 0).any()


@pytest.mark.parametrize("form", ["bool", "float"])
def test_fully_masked_rows_leave_the_others_alone(form, qkv, device):
    query, key, value = qkv
    mask = torch.rand(T, S, device=device) < 0.6
    mask[0] = True
    mask[2] = False
    given = masks.to_additive(mask, torch.float64) if form == "float" else mask
    some = mask.any(-1)
    assert_equal(
        naive_attention(query, key, value, given)[:, :, some],
        naive_attention(query[:, :, some], key, value, given[some]),
    )
    assert_agree(naive_attention, F.scaled_dot_product_attention, query, key, value, mask)


def test_no_second_derivative_is_nan(qkv, device):
    query, key, value = (x[:1, :1, :2, :3].contiguous().requires_grad_() for x in qkv)
    mask = torch.tensor([[True, False], [False, False]], device=device)
    result = naive_attention(query, key, value, mask)
    first = torch.autograd.grad(result.square().sum(), (query, key, value), create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), (query, key, value))
    for gradient in (*first, *second):
        assert gradient.isfinite().all()
