"""Designs and pairs of mistakes that few learners write: they are understood, and a wrong twin is not called right."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

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
        later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        y = self.layernorm(x + self.self_attention(x, x, x, attn_mask=later)[0])
        y = self.layernorm(y + self.cross_attention(ASKS, memory, memory)[0])
        return self.layernorm(y + self.ffn(y))
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


def test_what_its_parameters_show_goes_with_any_other_mistake(tmp_path):
    """One norm for all sublayers, and a query from another place."""
    assert verdict_and_ids(ONE_NORM.replace("ASKS", "y"), "DecoderLayer", tmp_path)[0] == "harmless deviation"
    verdict, ids = verdict_and_ids(ONE_NORM.replace("ASKS", "x"), "DecoderLayer", tmp_path)
    assert verdict == "mistake" and {"B15", "B23"} <= ids
