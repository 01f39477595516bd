"""A network that a model has besides its layers, in front of its head: it is told of, and the rest is judged."""

import pytest

from reference_tests.kit.learners.checked import MORE, check_text, time_to_look
from scratch_transformer.kit.report.words import explanation

pytestmark = pytest.mark.long

MODEL = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.h, self.d_k = n_heads, d_model // n_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (y.view(B, T, self.h, self.d_k).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        hidden = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.transpose(-2, -1) / SCALE).masked_fill(hidden, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention, self.network = Attention(d_model, n_heads), FeedForward(d_model, d_ff)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.network(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, max_len):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.norm, self.last = nn.LayerNorm(d_model), FeedForward(d_model, d_ff)
        self.lm_head = nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(ENDS)
"""
RIGHT = "math.sqrt(self.d_k)"


@pytest.mark.parametrize(("ends", "scale", "besides", "ids"), [
    ("self.last(self.norm(x))", RIGHT, "last", []), ("self.norm(self.last(x))", RIGHT, "last", []),
    ("self.last(self.norm(x))", "self.d_k", "last", ["A1"]), ("self.norm(x) + self.last(self.norm(x))", RIGHT, "", []),
])  # fmt: skip
@pytest.mark.long
def test_a_network_between_the_layers_and_the_head_is_told_of(ends, scale, besides, ids, tmp_path):
    """Where all else agrees without it: with its own residual connection, it does not."""
    text = MODEL.replace("ENDS", ends).replace("SCALE", scale)
    with time_to_look(MORE):
        result = check_text(text, tmp_path)["GPT"]
    assert result.besides == besides, result
    assert result.inherited == ids and result.verdict == ("mistake" if ids else "unknown mismatch")
    said = " ".join(" ".join(explanation(result)).split())
    assert (f"besides its layers it has self.{besides}, a network" in said) == bool(besides)
    assert (result.error is None) == bool(besides)
