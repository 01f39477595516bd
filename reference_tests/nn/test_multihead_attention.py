"""MultiheadAttention against torch.nn.MultiheadAttention."""

import pytest
import torch

from reference_tests.agreement import assert_agree, assert_equal
from reference_tests.proof import prove
from scratch_transformer import nn
from scratch_transformer.conformance import Draw
from scratch_transformer.nn import multihead_attention

test_definition, test_precision, test_errors = prove("MultiheadAttention")

B, T, S, H, E = 2, 3, 5, 3, 6


@pytest.fixture
def pair():
    """Ours and torch's with the same parameters, none of them zero."""
    ours, builtin = (library.MultiheadAttention(E, H, batch_first=True).double() for library in (nn, torch.nn))
    Draw(0).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    return ours, builtin


@pytest.fixture
def qkv():
    return tuple(torch.randn(B, length, E, dtype=torch.float64) for length in (T, S, S))


def test_averaged_weights_are_the_mean_over_the_heads(pair, qkv):
    for attention in pair:
        per_head = attention(*qkv, average_attn_weights=False)[1]
        averaged = attention(*qkv)[1]
        assert per_head.shape == (B, H, T, S)
        assert_equal(averaged.detach(), per_head.mean(1).detach())
        assert (per_head - averaged.unsqueeze(1)).abs().max() > 0.01  # the heads differ, or the mean would say nothing


def test_weights_say_what_was_taken_from_each_key(pair, qkv):
    """By hand: the output is out_proj of each head's weights times its own columns of the projected values."""
    ours, _ = pair
    query, key, value = qkv
    output, weights = ours(query, key, value, average_attn_weights=False)
    W_v, b_v = ours.in_proj_weight[2 * E :], ours.in_proj_bias[2 * E :]
    values = (value @ W_v.T + b_v).unflatten(-1, (H, E // H)).transpose(1, 2)  # (B, H, S, D)
    heads = (weights @ values).transpose(1, 2).flatten(2)
    assert_equal((heads @ ours.out_proj.weight.T + ours.out_proj.bias).detach(), output.detach())


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_query_that_may_attend_to_nothing(need_weights, pair, qkv):
    """Ours: the bias of out_proj, weights of zero. Torch: NaN if it returns weights, otherwise what ours returns."""
    ours, builtin = pair
    blocked = torch.zeros(T, S, dtype=torch.bool)
    blocked[1] = True
    output, weights = ours(*qkv, attn_mask=blocked, need_weights=need_weights)
    assert_equal(output[:, 1].detach(), ours.out_proj.bias.detach().expand(B, E))
    assert weights is None or not weights[:, 1].any()
    theirs = builtin(*qkv, attn_mask=blocked, need_weights=need_weights)[0]
    if need_weights:
        assert theirs[:, 1].isnan().all()
    else:
        assert_equal(output.detach(), theirs.detach())
    output.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in ours.parameters())


def test_a_key_bias_changes_nothing(pair, qkv):
    """It adds the same to all scores of a query: softmax ignores it. That it is there, only an inventory shows."""
    ours, _ = pair
    before = ours(*qkv)[0].detach()
    with torch.no_grad():
        ours.in_proj_bias[E : 2 * E] += 1
    assert_equal(ours(*qkv)[0].detach(), before)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("options", [{"add_bias_kv": True}, {"add_zero_attn": True}], ids=str)
def test_appended_keys_in_a_batch_of_any_size(options, need_weights):
    ours, builtin = (
        library.MultiheadAttention(E, H, batch_first=True, **options).double() for library in (nn, torch.nn)
    )
    Draw(0).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    for batch in (1, 4):
        sequences = [torch.randn(batch, length, E, dtype=torch.float64) for length in (T, S, S)]
        assert_agree(ours, builtin, *sequences, need_weights=need_weights)


def test_appended_keys_have_the_others_dtype_under_autocast(monkeypatch, device):
    """The parameters are float32, the projections bfloat16; attention's kernels want one dtype."""
    module = nn.MultiheadAttention(E, H, batch_first=True, add_bias_kv=True).to(device)
    x, dtypes = torch.randn(B, T, E, device=device), []

    def spy(query, key, value, *_, **__):
        dtypes.extend(tensor.dtype for tensor in (query, key, value))
        return query

    monkeypatch.setattr(multihead_attention, "scaled_dot_product_attention", spy)
    with torch.autocast(device.type, torch.bfloat16):
        module(x, x, x, need_weights=False)
    assert dtypes == [torch.bfloat16] * 3


@pytest.mark.parametrize("sizes", [(0, 3), (-6, 3), (6, 0), (6, -3)], ids=str)
def test_no_width_or_no_heads_is_refused_as_by_torch(sizes):
    message = rf"embed_dim and num_heads must be greater than 0, got embed_dim={sizes[0]} and num_heads={sizes[1]}"
    for library in (nn, torch.nn):
        with pytest.raises(ValueError, match=message):
            library.MultiheadAttention(*sizes)


def test_one_head_of_one_number():
    ours, builtin = (library.MultiheadAttention(1, 1).double() for library in (nn, torch.nn))
    Draw(0).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    assert_agree(ours, builtin, *(torch.randn(length, B, 1, dtype=torch.float64) for length in (T, S, S)))


def test_a_causal_hint_that_is_trusted_spares_the_mask_every_look(pair, qkv):
    """Not even its size matters, as in torch."""
    query = qkv[0]
    outputs = [
        attention(query, query, query, attn_mask=torch.zeros(size, size), is_causal=True, need_weights=False)[0]
        for attention in pair
        for size in (T, T + 1)
    ]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    expected = pair[1](query, query, query, attn_mask=future, need_weights=False)[0]
    for output in outputs:
        assert_equal(output.detach(), expected.detach())


@pytest.mark.parametrize("name", ["attn_mask", "key_padding_mask"])
def test_a_mask_of_integers_is_refused_by_its_name(name, pair, qkv):
    shape = (T, S) if name == "attn_mask" else (B, S)
    with pytest.raises(
        AssertionError, match=f"^only bool and floating types of {name} are supported, but got torch.int64"
    ):
        pair[0](*qkv, **{name: torch.zeros(shape, dtype=torch.long)})


@pytest.mark.parametrize("position, name", list(enumerate(["query", "key", "value"])))
def test_nested_tensors_are_refused(position, name, pair):
    inputs = [torch.randn(B, T, E, dtype=torch.float64)] * 3
    inputs[position] = torch.nested.nested_tensor([torch.randn(T, E), torch.randn(S, E)], layout=torch.jagged)
    with pytest.raises(NotImplementedError, match=f"{name} is a nested tensor.*key_padding_mask"):
        pair[0](*inputs)
