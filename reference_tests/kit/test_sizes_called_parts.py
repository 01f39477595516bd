"""What is called like a part, ffn, and is the size of one: it is handed on to nn.Linear. Masks called alike."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

SOURCE = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, heads, d_model, dropout):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        split = lambda x: x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = split(self.q(q)), split(self.k(k)), split(self.v(v))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        return self.dropout(self.out((self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2)))


class FeedForward(nn.Module):
    def __init__(self, d_model, ffn, dropout):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(d_model, ffn), nn.ReLU(), nn.Linear(ffn, d_model), nn.Dropout(dropout))

    def forward(self, x):
        return self.fc(x)


class EncoderLayer(nn.Module):
    def __init__(self, heads, d_model, ffn, dropout=0.1):
        super().__init__()
        self.attention = Attention(heads, d_model, dropout)
        self.norms = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(2)])
        self.fc = FeedForward(d_model, ffn, dropout)

    def forward(self, x, mask):
        x = self.norms[0](x + self.attention(x, x, x, mask))
        return self.norms[1](x + self.fc(x))


class DecoderLayer(nn.Module):
    def __init__(self, heads, d_model, ffn, dropout=0.1):
        super().__init__()
        self.attention, self.cross = (Attention(heads, d_model, dropout) for _ in range(2))
        self.norms = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(3)])
        self.fc = FeedForward(d_model, ffn, dropout)

    def forward(self, x, memory, memory_mask, mask):
        x = self.norms[0](x + self.attention(x, x, x, mask))
        x = self.norms[1](x + self.cross(x, memory, memory, memory_mask))
        return self.norms[2](x + self.fc(x))
"""


@pytest.mark.parametrize("called", ["ffn", "feedforward"])
def test_a_size_that_is_called_like_a_part_is_a_number(called, tmp_path):
    results = check_text(SOURCE.replace("ffn", called), tmp_path)
    for name in ("EncoderLayer", "DecoderLayer"):
        assert (results[name].verdict, results[name].mistakes) == ("harmless deviation", []), results[name].problem
        assert results[name].inherited == ["A19"]


def test_what_its_layer_does_wrong_is_named(tmp_path):
    text = SOURCE.replace("self.cross(x, memory", "self.attention(x, memory")
    layer = check_text(text, tmp_path)["DecoderLayer"]
    assert [mistake.id for mistake in layer.mistakes] == ["A36"]


def test_what_cannot_be_given_its_masks_is_said_to_be_so(tmp_path):
    text = SOURCE.replace("memory, memory_mask, mask):", "memory, dec_mask_a, dec_mask_b):")
    text = text.replace("x, x, x, mask)", "x, x, x, dec_mask_a)").replace("memory, memory_mask)", "memory, dec_mask_b)")
    layer = check_text(text.replace("if mask is not None:", "if True:"), tmp_path)["DecoderLayer"]
    assert layer.verdict == "crashed" and "missing 1 required positional argument" in layer.problem


EMBEDDED = """
class Embedding(nn.Module):
    def __init__(self, vocab_size, embedding_s):
        super().__init__()
        self.table = nn.Embedding(vocab_size, embedding_s)

    def forward(self, x):
        return self.table(x)


class MultiHeadAttention(nn.Module):
    def __init__(self, embedding_s, n_heads):
        super().__init__()
        assert embedding_s % n_heads == 0, "heads must divide the width"
        self.n_heads, self.width = n_heads, embedding_s // n_heads
        self.q, self.k, self.v, self.out = (nn.Linear(embedding_s, embedding_s) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        split = lambda x: x.view(x.size(0), -1, self.n_heads, self.width).transpose(1, 2)
        q, k, v = split(self.q(q)), split(self.k(k)), split(self.v(v))
        scores = q @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        scaled = scores / self.width**0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
ONE_WIDE = "Its heads are one number wide, of which every root is 1: a wrong scale would not be seen."


def test_a_size_is_none_of_the_embeddings_that_a_file_has(tmp_path):
    found = check_text(EMBEDDED, tmp_path)["MultiHeadAttention"]
    assert (found.ids, ONE_WIDE in found.limits) == (["A1"], False), found


def test_of_heads_that_are_one_number_wide_it_is_said_that_no_scale_shows(tmp_path):
    text = EMBEDDED.replace("embedding_s, n_heads):", "embedding_s=3, n_heads=3):\n        assert embedding_s == 3")
    found = check_text(text, tmp_path)["MultiHeadAttention"]
    assert (found.ids, ONE_WIDE in found.limits) == ([], True), found
