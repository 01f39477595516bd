"""Weights that the reference has none for, and what a layer without a network is not."""

import math

import pytest
from torch import nn

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit import check

NORM = """
class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x * self.weight + self.bias
"""

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, heads, max_len=32):
        super().__init__()
        self.heads, self.d_k = heads, d_model // heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.distances = nn.Parameter(torch.zeros(heads, 2 * max_len))
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, q, k, v, mask=None):
        of = ((self.q, q), (self.k, k), (self.v, v))
        q, k, v = (linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear, x in of)
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        rows, columns = torch.arange(q.shape[2]), torch.arange(k.shape[2])
        scores = scores + self.distances[:, rows[:, None] - columns + self.distances.shape[1] // 2]
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)) * self.gain
"""


@pytest.mark.parametrize("text, name, said", [
    (NORM, "RMSNorm", "bias (12,)"), (ATTENTION, "MultiHeadAttention", "distances (3, 38) and gain (1,)"),
])  # fmt: skip
def test_weights_that_the_reference_has_none_for_are_said(text, name, said, tmp_path):
    result = check_text(text, tmp_path)[name]
    assert not [found for found in result.mistakes if found.severity == "mistake"]
    assert [limit for limit in result.limits if limit.startswith("Besides the reference's weights")] == [
        f"Besides the reference's weights it has {said}: what becomes of that in training was not checked."
    ]


def test_what_has_the_references_weights_alone_has_none_besides(tmp_path):
    ordinary = NORM.replace("        self.bias = nn.Parameter(torch.zeros(dim))\n", "").replace(" + self.bias", "")
    result = check_text(ordinary, tmp_path)["RMSNorm"]
    assert result.verdict == "matches the builtin" and not [limit for limit in result.limits if "Besides" in limit]


class Attention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads, self.d_k = heads, d_model // heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask):
        of = ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        q, k, v = (linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear, x in of)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@pytest.mark.long
def test_an_attention_is_not_explained_as_a_layer_without_a_network():
    result = check(Attention, kind="EncoderLayer", d_model=12, num_heads=3)
    assert (result.verdict, result.ids) == ("unknown mismatch", ["A8", "A19"])
