"""Where torch surprises, and what this package does in the same place: masks, attention and its fast path.

Every test records what torch does, so that a change upstream is noticed. All hold from torch 2.6 to 2.13.
"""

import pytest
import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_equal, differentiate
from scratch_transformer import nn
from scratch_transformer.attention import scaled_dot_product_attention
from scratch_transformer.conformance import Draw

B, T, E, H, FF = 2, 3, 8, 2, 5
LAYER = {"d_model": E, "nhead": H, "dim_feedforward": FF, "dropout": 0.0, "batch_first": True}
NESTED = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # the fast path makes some


def pair(name, *args, **kwargs):
    """Ours and torch's with the same random parameters, in evaluation."""
    ours, builtin = (getattr(library, name)(*args, **kwargs).double().eval() for library in (nn, torch.nn))
    Draw(0).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    return ours, builtin


def attention_pair(**kwargs):
    return pair("MultiheadAttention", E, H, batch_first=True, **kwargs)


@pytest.fixture
def x():
    return torch.randn(B, T, E, dtype=torch.float64)


@pytest.fixture
def padding():
    """The first sequence ends in one padded position; the second is nothing but padding."""
    return torch.tensor([[False, False, True], [True, True, True]])


# ---- Rows in which everything is masked ----


def test_fully_masked_in_the_function(x):
    """Zero, in torch and here."""
    nothing = torch.zeros(T, T, dtype=torch.bool)
    for attention in (F.scaled_dot_product_attention, scaled_dot_product_attention):
        assert (attention(x, x, x, nothing) == 0).all()


def test_fully_masked_in_multihead_attention(x, padding):
    """Torch: NaN with weights, zero without, on one and the same input. Here: zero, so that out_proj.bias is left."""
    ours, builtin = attention_pair()
    for need_weights in (True, False):
        output, weights = ours(x, x, x, key_padding_mask=padding, need_weights=need_weights)
        assert_equal(output[1], ours.out_proj.bias.expand(T, E))
        assert weights is None or (weights[1] == 0).all()
        assert_equal(output[0], builtin(x, x, x, key_padding_mask=padding)[0][0])
    output, weights = builtin(x, x, x, key_padding_mask=padding)
    assert output[1].isnan().all()
    assert weights[1].isnan().all()
    output, _ = builtin(x, x, x, key_padding_mask=padding, need_weights=False)
    assert_equal(output[1], builtin.out_proj.bias.expand(T, E))


def test_fully_masked_poisons_torchs_gradients(x, padding):
    """One padded sequence in the batch, and every parameter is NaN after the next step. Not here."""
    ours, builtin = attention_pair()
    assert any(g.isnan().any() for g in differentiate(builtin, x, x, x, padding)["gradient"])
    assert all(g.isfinite().all() for g in differentiate(ours, x, x, x, padding)["gradient"])


def test_fully_masked_on_the_fast_path(x, padding):
    """Torch: NaN in evaluation, with and without weights. Here there is one path."""
    ours, builtin = attention_pair()
    torch.backends.mha.set_fastpath_enabled(True)
    for need_weights in (True, False):
        with torch.no_grad():
            output, _ = builtin(x, x, x, key_padding_mask=padding, need_weights=need_weights)
            mine, _ = ours(x, x, x, key_padding_mask=padding, need_weights=need_weights)
        assert output[1].isnan().all()
        assert mine.isfinite().all()
        assert_equal(mine[0], output[0])


# ---- The fast path of torch's encoder ----


def encoder_pair(norm=False):
    modules = []
    for library in (nn, torch.nn):
        layer = library.TransformerEncoderLayer(**LAYER)
        modules.append(library.TransformerEncoder(layer, 2, library.LayerNorm(E) if norm else None).double().eval())
    Draw(0).randomise(modules[1])
    modules[0].load_state_dict(modules[1].state_dict())
    return modules


@NESTED
def test_the_encoders_fast_path_zeroes_padded_positions(x, padding):
    """In evaluation without gradients torch's encoder computes on the valid positions only, and fills in zeros.

    Its slow path, and this package, compute something at padded positions. Valid positions agree.
    """
    ours, builtin = encoder_pair()
    slow = builtin(x, src_key_padding_mask=padding)
    torch.backends.mha.set_fastpath_enabled(True)
    with torch.no_grad():
        fast = builtin(x, src_key_padding_mask=padding)
    mine = ours(x, src_key_padding_mask=padding)
    assert (fast[padding] == 0).all()
    assert (slow[padding] != 0).all()
    assert_equal(mine, slow)
    assert_equal(mine[~padding].detach(), fast[~padding])


@NESTED
def test_the_zeros_are_normalized_too(x, padding):
    """With a final norm the zeros of the fast path become its bias."""
    ours, builtin = encoder_pair(norm=True)
    torch.backends.mha.set_fastpath_enabled(True)
    with torch.no_grad():
        fast = builtin(x, src_key_padding_mask=padding)
    assert_equal(fast[padding], builtin.norm.bias.detach().expand(int(padding.sum()), E))
    assert_equal(ours(x, src_key_padding_mask=padding)[~padding].detach(), fast[~padding])


# ---- Attention's arguments ----


def test_booleans_mean_the_opposite(x):
    """True is "blocked" for MultiheadAttention and "may attend" for scaled_dot_product_attention."""
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    ours, builtin = attention_pair()
    for module in (ours, builtin):
        _, weights = module(x, x, x, attn_mask=mask.logical_not())
        assert (weights[:, ~mask] == 0).all()
        assert (weights[:, mask] > 0).all()
    for attention in (scaled_dot_product_attention, F.scaled_dot_product_attention):
        assert_equal(attention(x, x, x, mask), attention(x, x, x, is_causal=True))


def test_weights_are_returned_after_dropout(x):
    """In training the weights do not sum to one: some are dropped, the others scaled. In evaluation they do."""
    for module in attention_pair(dropout=0.5):
        _, clean = module.eval()(x, x, x, average_attn_weights=False)
        torch.manual_seed(3)
        _, dropped = module.train()(x, x, x, average_attn_weights=False)
        assert_equal(clean.sum(-1), torch.ones(B, H, T, dtype=torch.float64))
        kept = dropped != 0
        assert 0 < kept.sum() < kept.numel()
        assert_equal(dropped[kept], 2 * clean[kept])


def test_the_functions_dropout_knows_no_evaluation(x):
    """dropout_p is always applied; the caller says 0 in evaluation."""
    for attention in (scaled_dot_product_attention, F.scaled_dot_product_attention):
        with torch.no_grad():
            assert (attention(x, x, x, dropout_p=1.0) == 0).all()


def test_the_bias_of_the_keys_cannot_be_seen(x):
    """It adds the same number to all scores of a row, and softmax does not see it; comparing outputs cannot find it.

    With further keys, which have no bias, it can.
    """
    for options, is_visible in (({}, False), ({"add_bias_kv": True}, True), ({"add_zero_attn": True}, True)):
        for module in attention_pair(**options):
            before, _ = module(x, x, x)
            with torch.no_grad():
                module.in_proj_bias[E : 2 * E] += 10
            after, _ = module(x, x, x)
            assert ((after - before).abs().max() > 1e-3) == is_visible


def test_the_hint_is_causal_is_believed(x):
    """Without weights and padding the mask that comes with is_causal=True is not looked at; with them it is used."""
    ours, builtin = attention_pair()
    not_causal = torch.ones(T, T, dtype=torch.bool).tril(-1)
    causal = torch.ones(T, T, dtype=torch.bool).triu(1)
    no_padding = torch.zeros(B, T, dtype=torch.bool)
    for module in (ours, builtin):

        def attend(mask, module=module, **options):
            return module(x, x, x, attn_mask=mask, **options)[0]

        assert_equal(attend(not_causal, need_weights=False, is_causal=True), attend(causal))
        assert_equal(attend(not_causal, is_causal=True), attend(not_causal))
        with_padding = {"need_weights": False, "key_padding_mask": no_padding}
        assert_equal(attend(not_causal, is_causal=True, **with_padding), attend(not_causal))


def test_a_negative_scale_makes_causal_attention_nan():
    """Torch's kernel for CPUs blocks keys with -inf and scales then: by a negative scale to inf. Masks are fine."""
    x = torch.randn(1, 1, T, E)
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    ours = scaled_dot_product_attention(x, x, x, is_causal=True, scale=-0.5)
    assert_equal(ours, F.scaled_dot_product_attention(x, x, x, mask, scale=-0.5), tolerance=1e-6)
    assert F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=-0.5).isnan().any()
