"""Self-attention of a language model: against torch.nn.MultiheadAttention, and with a cache in chunks of any size."""

import pytest
import torch

from reference_tests.agreement import assert_agree, assert_equal
from reference_tests.proof import prove
from scratch_transformer import nn
from scratch_transformer.conformance import Draw

test_definition, test_precision, test_errors = prove("CausalSelfAttention")

B, L, E, H, G, D = 2, 7, 12, 6, 2, 8


@pytest.mark.parametrize("bias", [False, True])
def test_without_turns_and_groups_it_is_torchs_multihead_attention_with_a_causal_mask(bias):
    theirs = torch.nn.MultiheadAttention(E, 3, bias=bias, batch_first=True).double()
    Draw(0).randomise(theirs)
    ours = nn.CausalSelfAttention(E, 3, bias=bias).double()
    packed = (
        {"weight": theirs.in_proj_weight, "bias": theirs.in_proj_bias} if bias else {"weight": theirs.in_proj_weight}
    )
    state = {f"o_proj.{key}": value for key, value in theirs.out_proj.state_dict().items()}
    for key, parameter in packed.items():
        for name, part in zip("qkv", parameter.chunk(3), strict=True):
            state[f"{name}_proj.{key}"] = part
    ours.load_state_dict(state)
    future = torch.ones(L, L, dtype=torch.bool).triu(1)
    for parameter in (*ours.parameters(), *theirs.parameters()):
        parameter.requires_grad_(False)
    x = torch.randn(B, L, E, dtype=torch.float64)
    assert_agree(ours, lambda x: theirs(x, x, x, attn_mask=future, need_weights=False)[0], x)


def llamas():
    attention = nn.CausalSelfAttention(E, H, G, D, bias=True, query_key_norm=1e-6).double().eval()
    Draw(1).randomise(attention)
    return attention, nn.RotaryEmbedding(D)


@pytest.mark.parametrize("chunks", [[7], [1] * 7, [3, 1, 2, 1], [1, 6], [6, 1]], ids=str)
def test_in_chunks_with_a_cache_as_at_once(chunks):
    (attention, rotary), x = llamas(), torch.randn(B, L, E, dtype=torch.float64)
    turns = rotary.turns(torch.arange(L))
    with torch.inference_mode():
        cache, outputs = nn.KeyValueCache(3, capacity=1), []
        for piece in torch.arange(L).split(chunks):
            outputs.append(attention(x[:, piece], turns[:, piece], cache, 2))
        assert_equal(torch.cat(outputs, dim=1), attention(x, turns))


def test_texts_of_different_length_in_one_batch_with_a_cache():
    """Padded on the left; each text has its own positions, and nobody looks at the padding."""
    attention, rotary = llamas()
    texts = [torch.randn(length, E, dtype=torch.float64) for length in (7, 4)]
    padded = torch.stack([torch.cat([torch.randn(L - len(text), E, dtype=torch.float64), text]) for text in texts])
    positions = torch.stack([(torch.arange(L) - (L - len(text))).clamp(min=0) for text in texts])
    is_token = torch.stack([torch.arange(L) >= L - len(text) for text in texts])
    turns = rotary.turns(positions)  # (2, B, 1, L, D/2)
    with torch.inference_mode():
        cache, outputs = nn.KeyValueCache(1), []
        for end, piece in ((5, slice(0, 5)), (6, slice(5, 6)), (7, slice(6, 7))):
            mask = is_token[:, None, None, :end]
            outputs.append(attention(padded[:, piece], turns[..., piece, :], cache, mask=mask))
        batch = torch.cat(outputs, dim=1)
        for row, text in enumerate(texts):
            alone = attention(text[None], rotary.turns(torch.arange(len(text))))
            assert_equal(batch[row, L - len(text) :], alone[0])


def test_a_query_that_may_see_nothing_yields_the_bias():
    attention, _ = llamas()
    x = torch.randn(B, L, E, dtype=torch.float64)
    mask = torch.arange(L) > 0  # the first token sees only itself, which is blocked
    out = attention(x, mask=mask[None, None, None])
    assert_equal(out[:, 0], attention.o_proj.bias.expand(B, E))


def test_widths_of_the_heads_may_be_anything():
    shapes = {key: tuple(value.shape) for key, value in llamas()[0].state_dict().items()}
    assert shapes == {
        "q_proj.weight": (H * D, E), "q_proj.bias": (H * D,), "k_proj.weight": (G * D, E), "k_proj.bias": (G * D,),
        "v_proj.weight": (G * D, E), "v_proj.bias": (G * D,), "o_proj.weight": (E, H * D), "o_proj.bias": (E,),
        "q_norm.weight": (D,), "k_norm.weight": (D,),
    }  # fmt: skip
