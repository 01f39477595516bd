"""Wholes and layers whose inputs have names that say nothing: what their parts make of them tells what they are."""

import pytest

from reference_tests.kit.learners.checked import check_text

TEXT = """
class Attention(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        assert width % n_heads == 0, "heads must divide the width"
        self.n_heads = n_heads
        self.to_q, self.to_k = nn.Linear(width, width), nn.Linear(width, width)
        self.to_v, self.to_out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, query, key, value, mask=None):
        parts = zip((self.to_q, self.to_k, self.to_v), (query, key, value))
        q, k, v = (linear(t).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for linear, t in parts)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

class FeedForward(nn.Module):
    def __init__(self, width, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(width, d_ff), nn.Linear(d_ff, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

class EncoderLayer(nn.Module):
    def __init__(self, width, n_heads, d_ff):
        super().__init__()
        self.attend, self.feed = Attention(width, n_heads), FeedForward(width, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, c):
        x = self.norm1(x + self.attend(x, x, x, c))
        return self.norm2(x + self.feed(x))

class DecoderLayer(nn.Module):
    def __init__(self, width, n_heads, d_ff):
        super().__init__()
        self.attend, self.look = Attention(width, n_heads), Attention(width, n_heads)
        self.feed = FeedForward(width, d_ff)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, y, c, d):
        x = self.norm1(x + self.attend(x, x, x, d))
        x = self.norm2(x + self.look(x, y, y, c))
        return self.norm3(x + self.feed(x))

class Model(nn.Module):
    def __init__(self, vocab_a, vocab_b, width, n_heads, d_ff, n_layers, max_len):
        super().__init__()
        self.words, self.others = nn.Embedding(vocab_a, width), nn.Embedding(vocab_b, width)
        self.places = nn.Embedding(max_len, width)
        self.before = nn.ModuleList([EncoderLayer(width, n_heads, d_ff) for _ in range(n_layers)])
        self.behind = nn.ModuleList([DecoderLayer(width, n_heads, d_ff) for _ in range(n_layers)])
        self.out = nn.Linear(width, vocab_b)

    def forward(self, a, b, m1, m2):
        first = self.words(a) + self.places(torch.arange(a.shape[1], device=a.device))
        for layer in self.before:
            first = layer(first, m1)
        second = self.others(b) + self.places(torch.arange(b.shape[1], device=b.device))
        for layer in self.behind:
            second = layer(second, first, m1, m2)
        return self.out(second)
"""
SIDES = ("(self, a, b, m1, m2)", "(self, b, a, m2=None, m1=None)")
"""The source first, or the target."""


@pytest.mark.long
@pytest.mark.parametrize("taken", SIDES)
def test_a_mask_without_a_name_is_what_the_parts_take_it_for(taken, tmp_path):
    results = check_text(TEXT.replace(SIDES[0], taken), tmp_path)
    assert [id for id in results["Model"].ids if id != "B4"] == [], results["Model"]
    assert {name: result.ids for name, result in results.items() if name != "Model" and result.ids} == {}


def test_a_mask_that_is_not_handed_on_is_missed(tmp_path):
    result = check_text(TEXT.replace("(second, first, m1, m2)", "(second, first, m1, None)"), tmp_path)["Model"]
    assert [id for id in result.ids if id != "B4"] == ["A25"], result
