"""What the numbers of each mistake look like: the attention core and multi-head attention."""

import math

import pytest
import torch

from reference_tests.mutants.catalogue import MUTANTS
from scratch_transformer import masks, nn
from scratch_transformer.conformance import COMPONENTS, Draw, compare_definition
from scratch_transformer.nn import multihead_attention

H, T, S, D = 3, 5, 7, 4
E = H * D
Q, K = Draw(1).normal(1, H, T, D), Draw(2).normal(1, H, S, D)
BLOCKED = torch.arange(S) >= 4
FIRST_TWO = torch.tensor([True, True, False, False, False, False, False])


def weights(id, query=Q, key=K, attn_mask=None, **options):
    with MUTANTS[id].applied():
        return multihead_attention.attention_weights(query, key, attn_mask, **options)


def slope(id):
    """Of the centred log-probabilities over the right ones."""
    ours, right = (w.log() - w.log().mean(-1, keepdim=True) for w in (weights(id), RIGHT))
    return ((ours * right).sum() / right.square().sum()).item()


RIGHT = multihead_attention.attention_weights(Q, K)


@pytest.mark.parametrize(
    "variant, expected",
    [
        ("unscaled", math.sqrt(D)),
        ("d_k", 1 / math.sqrt(D)),
        ("d_model", 1 / math.sqrt(H)),
        ("heads", math.sqrt(D / H)),
        ("multiplied", D),
    ],
)
def test_A1_is_another_slope(variant, expected):
    assert slope(f"A1-{variant}") == pytest.approx(expected)


def test_A2_sums_to_one_along_another_axis():
    assert (weights("A2").sum(-1) - 1).abs().max() > 0.1
    assert weights("A2").sum(-2).flatten().tolist() == pytest.approx([1.0] * H * S)


def test_A3_sums_to_less_than_one():
    assert weights("A3", attn_mask=~BLOCKED).sum(-1).max() < 1


def test_A4_gives_a_blocked_key_the_weight_of_score_zero():
    A = weights("A4", attn_mask=~BLOCKED)
    scores = (Q @ K.transpose(-2, -1) / math.sqrt(D)).masked_fill(BLOCKED, 0.0)
    total = scores.exp().sum(-1)
    assert (A[..., 5] * total).flatten().tolist() == pytest.approx([1.0] * H * T)


def test_A5_sees_the_future_only():
    A = weights("A5", Q, K[:, :, :T], is_causal=True)
    assert A[..., 0, 1:].min() > 0 and A[..., 0, 0].max() == 0
    assert A.tril().abs().sum() == 0


def test_A6_gives_the_first_row_nothing():
    A = weights("A6", Q, K[:, :, :T], is_causal=True)
    assert A[..., 0, :].abs().sum() == 0 and A.diagonal(dim1=-2, dim2=-1).abs().sum() == 0


def test_A7_hides_the_queries_and_not_the_keys():
    """Of two tokens of padding on the left: the weights of queries that are no padding show it."""
    mha, x = nn.MultiheadAttention(E, H, batch_first=True, dtype=torch.float64), Draw(3).normal(1, S, E)
    with MUTANTS["A7"].applied():
        A = mha(x, x, x, key_padding_mask=FIRST_TWO.unsqueeze(0))[1][0]
    assert A[2:, :2].min() > 0 and A[:2].abs().sum() == 0


def test_A8_is_an_error_in_float16():
    with pytest.raises(RuntimeError, match="overflow"):
        weights("A8", Q.half(), K.half(), ~BLOCKED)


def test_A10_leaks_where_scores_are_lower_still():
    query, key = torch.full_like(Q, -1e5), torch.ones_like(K)
    assert weights("A10", query, key, ~BLOCKED)[..., BLOCKED].sum(-1).flatten().tolist() == pytest.approx([1.0] * H * T)
    assert weights("A10", attn_mask=~BLOCKED)[..., BLOCKED].sum() == 0


def test_A11_is_uniform_or_nan():
    nothing = torch.zeros(S, dtype=torch.bool)
    assert weights("A11-uniform", attn_mask=nothing).flatten().tolist() == pytest.approx([1 / S] * H * T * S)
    assert weights("A11-nan", attn_mask=nothing).isnan().all()


def test_A12_changes_the_mask():
    mask = BLOCKED.clone()
    with MUTANTS["A12"].applied():
        masks.from_blocked(mask)
    assert torch.equal(mask, ~BLOCKED)


# ---- Multi-head attention ----


def module(heads=H, **options):
    mha = nn.MultiheadAttention(E, heads, batch_first=True, dtype=torch.float64, **options)
    Draw(4).randomise(mha)
    return mha


def both(id, mha, *inputs, **options):
    """The outputs of the mutant and of the real module, with the same parameters."""
    with MUTANTS[id].applied():
        mutant = module(mha.num_heads)
        mutant.load_state_dict(mha.state_dict())
        output = mutant(*inputs, **options)[0]
    return output, mha(*inputs, **options)[0]


CROSS = (Draw(5).normal(2, T, E), Draw(6).normal(2, S, E), Draw(7).normal(2, S, E))


@pytest.mark.parametrize("heads, length, matches", [(H, T, False), (1, T, True), (H, 1, True)])
def test_A13_matches_for_one_head_or_one_token(heads, length, matches):
    x = CROSS[0][:, :length]
    mutant, right = both("A13", module(heads), x, x, x)
    assert torch.allclose(mutant, right) == matches


def test_A14_of_values_and_output_is_a_constant():
    mha = module()
    mutant, right = both("A14-b_v", mha, *CROSS)
    assert torch.allclose(right - mutant, mha.out_proj.weight @ mha.in_proj_bias[2 * E :])
    mutant, right = both("A14-b_o", mha, *CROSS)
    assert torch.allclose(right - mutant, mha.out_proj.bias)


def test_A14_of_queries_depends_on_the_data_and_of_keys_on_nothing():
    mutant, right = both("A14-b_q", module(), *CROSS)
    assert (right - mutant).std(1).min() > 1e-3
    mutant, right = both("A14-b_k", module(), *CROSS)
    assert (right - mutant).abs().max() < 1e-14


def test_A15_has_a_bias_too_many():
    with MUTANTS["A15"].applied():
        assert "out_proj.bias" in module(bias=False).state_dict()


def test_A16_keeps_the_weight_of_blocked_keys():
    with MUTANTS["A16"].applied():
        assert module()(*CROSS, attn_mask=BLOCKED.expand(T, S))[1][..., BLOCKED].min() > 0


@pytest.mark.parametrize("library", [nn, torch.nn])
def test_A17_is_what_torch_does(library):
    mha = library.MultiheadAttention(E, H, dropout=0.5, batch_first=True, dtype=torch.float64)
    assert (mha(*CROSS)[1].sum(-1) - 1).abs().max() > 0.1


def test_A18_is_deterministic_in_training():
    with MUTANTS["A18"].applied():
        mha = module(dropout=0.5)
    assert torch.equal(mha(*CROSS)[0], mha(*CROSS)[0])


def test_A19_fails_late():
    with MUTANTS["A19"].applied():
        mha = nn.MultiheadAttention(E, 5)
    with pytest.raises(RuntimeError):
        mha(*CROSS)


def case(description):
    component = COMPONENTS["MultiheadAttention"]
    return component, next(case for case in component.cases if case.description == description)


def test_A21_passes_self_attention_and_fails_across():
    with MUTANTS["A21-swapped"].applied():
        assert compare_definition(*case("self-attention")).passed
        with pytest.raises(RuntimeError):
            compare_definition(*case("cross-attention"))


def test_A23_is_a_permutation_of_the_columns():
    mha = module()
    mutant, _ = both("A23-interleaved", mha, *CROSS)
    with torch.no_grad():
        columns = mha.out_proj.weight
        columns.copy_(columns.unflatten(1, (D, H)).transpose(1, 2).flatten(1))
    assert torch.allclose(mha(*CROSS)[0], mutant)
