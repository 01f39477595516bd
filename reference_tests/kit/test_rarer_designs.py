"""Designs and pairs of mistakes that few learners write: they are understood, and a wrong twin is not called right."""

import types

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.trials import adjust

pytestmark = pytest.mark.long

WIDE_HEADS = """
class Head(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.ql, self.kl, self.vl = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x, states, mask):
        q, k, v = self.ql(x), self.kl(states), self.vl(states)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -math.inf)
        return scores.softmax(-1) @ v


class MultiHeadAttention(nn.Module):
    def __init__(self, size, n_heads):
        super().__init__()
        self.heads = nn.ModuleList([Head(size) for _ in range(n_heads)])
        self.projection = nn.Linear(size * n_heads, size)

    def forward(self, x, states, mask):
        return self.projection(torch.cat([head(x, states, mask) for head in self.heads], -1))


class SelfAttentionSublayer(nn.Module):
    def __init__(self, size, n_heads):
        super().__init__()
        self.attention, self.norm = MultiHeadAttention(size, n_heads), nn.LayerNorm(size)

    def forward(self, x, mask=None):
        return self.norm(x + self.attention(x, x, mask))
"""
ONE_NORM = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.cross_attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.layernorm = nn.LayerNorm(d_model)

    def forward(self, x, memory):
        later = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
        y = self.layernorm(x + self.self_attention(x, x, x, attn_mask=later)[0])
        y = self.layernorm(y + self.cross_attention(ASKS, memory, memory)[0])
        return self.layernorm(y + self.ffn(y))
"""


OWN_PADDING = """
class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        layers = (nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True) for _ in range(num_layers))
        self.layers = nn.ModuleList(layers)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=ids == 0)
        return x
"""


def verdict_and_ids(text, name, tmp_path):
    result = check_text(text, tmp_path)[name]
    return result.verdict, {mistake.id for mistake in result.mistakes}


@pytest.mark.parametrize("name", ["Head", "MultiHeadAttention", "SelfAttentionSublayer"])
def test_heads_as_wide_as_the_model(name, tmp_path):
    result = check_text(WIDE_HEADS, tmp_path)[name]
    assert (result.verdict in FINE, result.replaced) == (True, []), result


def test_heads_as_wide_as_the_model_that_are_scaled_for_others(tmp_path):
    text = WIDE_HEADS.replace("math.sqrt(q.size(-1))", "math.sqrt(q.size(-1) / 3)")
    assert verdict_and_ids(text, "SelfAttentionSublayer", tmp_path)[0] not in FINE


def test_what_finds_the_padding_itself_is_compared_with_many_tokens_without_any(tmp_path):
    result = check_text(OWN_PADDING, tmp_path)["Encoder"]
    assert result.verdict in FINE, result


def test_what_its_parameters_show_goes_with_any_other_mistake(tmp_path):
    """One norm for all sublayers, and a query from another place."""
    assert verdict_and_ids(ONE_NORM.replace("ASKS", "y"), "DecoderLayer", tmp_path)[0] == "harmless deviation"
    verdict, ids = verdict_and_ids(ONE_NORM.replace("ASKS", "x"), "DecoderLayer", tmp_path)
    assert verdict == "mistake" and {"B15", "B23"} <= ids


TWO_SORTS = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, attn_mask, padding_mask):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w, x in
                   zip((self.wq, self.wk, self.wv), (q, k, v)))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attn_mask is not None:
            scores = scores + attn_mask[None, None]
        if padding_mask is not None:
            scores = scores.masked_fill(padding_mask[:, None, None], -math.inf)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn, self.cross_attn = Attention(d_model, num_heads), Attention(d_model, num_heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, tgt_mask, cross_mask, tgt_pad_mask, src_pad_mask):
        x = self.norm1(x + self.self_attn(x, x, x, tgt_mask, tgt_pad_mask))
        x = self.norm2(x + self.cross_attn(x, memory, memory, cross_mask, src_pad_mask))
        return self.norm3(x + self.ffn(x))
"""


def test_masks_of_two_sorts(tmp_path):
    """Of numbers to add, and of padding that is True."""
    result = check_text(TWO_SORTS, tmp_path)["DecoderLayer"]
    assert result.verdict in FINE, result
    assert "Its tgt_mask was given as (T, S), 0 or -inf, added." in result.notes


@pytest.mark.parametrize(
    "old, new",
    [
        ("cross_mask, src_pad_mask))", "cross_mask, None))"),
        ("tgt_mask, tgt_pad_mask))", "None, tgt_pad_mask))"),
        ("scores + attn_mask[None, None]", "scores - attn_mask[None, None].exp()"),
    ],
)
def test_masks_of_two_sorts_one_of_which_is_lost(old, new, tmp_path):
    assert old in TWO_SORTS
    assert verdict_and_ids(TWO_SORTS.replace(old, new), "DecoderLayer", tmp_path)[0] not in FINE


BARE_NORMS = """
def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.h, self.d = n_head, n_embd // n_head
        self.c_q, self.c_k, self.c_v, self.c_proj = (nn.Linear(n_embd, n_embd, bias=False) for _ in range(4))

    def turned(self, x):
        angles = torch.arange(x.size(1))[:, None] / 10000.0 ** (torch.arange(0, self.d, 2) / self.d)
        cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos + b * sin, b * cos - a * sin), -1)

    def forward(self, x):
        q, k, v = (w(x).view(*x.shape[:2], self.h, self.d) for w in (self.c_q, self.c_k, self.c_v))
        q, k = norm(self.turned(q)), norm(self.turned(k))
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.attn = CausalSelfAttention(n_embd, n_head)
        self.up, self.down = nn.Linear(n_embd, 4 * n_embd, bias=False), nn.Linear(4 * n_embd, n_embd, bias=False)

    def forward(self, x):
        x = x + self.attn(norm(x))
        return x + self.down(F.relu(self.up(norm(x))).square())


class GPT(nn.Module):
    def __init__(self, vocab_size, n_layer, n_head, n_embd):
        super().__init__()
        self.wte, self.lm_head = nn.Embedding(vocab_size, n_embd), nn.Linear(n_embd, vocab_size, bias=False)
        self.blocks = nn.ModuleList([Block(n_embd, n_head) for _ in range(n_layer)])

    def forward(self, idx):
        x = self.wte(idx)
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(norm(x))
        return 15 * torch.tanh(logits / 15)
"""


def test_norms_without_weights_and_scores_that_are_kept_within_bounds(tmp_path):
    results = check_text(BARE_NORMS, tmp_path)
    assert {name: result.verdict in FINE for name, result in results.items()} == dict.fromkeys(results, True), results
    assert "normalized queries and keys" in results["CausalSelfAttention"].design
    assert results["GPT"].notes[0].startswith("Its scores are kept within ±15")


def test_values_that_are_rotated_in_place_of_the_keys(tmp_path):
    old, new = "q, k = norm(self.turned(q)), norm(self.turned(k))", "q, v = map(self.turned, (q, v))"
    assert old in BARE_NORMS
    text = BARE_NORMS[: BARE_NORMS.index("class Block")].replace(old, new)
    verdict, ids = verdict_and_ids(text, "CausalSelfAttention", tmp_path)
    assert verdict == "mistake" and "R4" in ids


class Capped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.softcap, self.inner = 15.0, inner

    def forward(self, x):
        return self.softcap * torch.tanh(x / self.inner)


@pytest.mark.parametrize("inner, is_right", [(15.0, True), (10.0, False)])
def test_bounds_of_scores_are_undone_as_they_should_have_been_made(inner, is_right):
    made, x = Capped(inner), torch.linspace(-40, 40, 9, dtype=torch.float64)
    candidate = types.SimpleNamespace(made=made, notes=[], post=None)
    adjust._uncap(candidate, made(x))
    assert torch.allclose(candidate.post(made(x), {}), x) == is_right


BOTH_BY_ONE = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.other = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory):
        later = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
        x = self.norm1(x + self.attention(x, x, x, attn_mask=later)[0])
        x = self.norm2(x + self.CROSSES(x, KEYS, KEYS)[0])
        return self.norm3(x + self.ffn(x))
"""


@pytest.mark.parametrize("crosses, keys, ids", [
    ("other", "memory", set()), ("attention", "memory", {"A36"}), ("other", "x", {"A21"}),
    ("attention", "x", {"A21", "A36"}),
])  # fmt: skip
def test_one_attention_for_both_that_is_given_the_target_twice_is_two_mistakes(crosses, keys, ids, tmp_path):
    text = BOTH_BY_ONE.replace("CROSSES", crosses).replace("KEYS", keys)
    if "other" not in crosses:
        text = text.replace("        self.other = nn.MultiheadAttention(d_model, num_heads, batch_first=True)\n", "")
    verdict, found = verdict_and_ids(text, "DecoderLayer", tmp_path)
    assert found == ids and (verdict in FINE) == (not ids)
