"""Sizes that are written into how features are cut, or into products, in place of what the constructor is told."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.checking import Checking
from scratch_transformer.kit.report.finding import FINE

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, 8, -1).transpose(1, 2) for part in self.qkv(x).split(C, dim=-1))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(C // 8)).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(B, T, C))
"""
PACKED = "nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)"
CUT, SCALE = "view(B, T, 8, -1)", "math.sqrt(C // 8)"


def test_heads_that_are_written_in_are_told_not_used(tmp_path):
    result = check_text(ATTENTION, tmp_path)["MultiHeadAttention"]
    assert result.ids[:1] == ["B29"] and any("8 is written in; it was checked with 3" in one for one in result.limits)


@pytest.mark.parametrize(
    "changed",
    [
        {CUT: "view(B, T, self.num_heads, 64)", SCALE: "64 ** 0.5"},  # whose root is computed in advance
        {CUT: "view(B, T, self.num_heads, -1)", SCALE: "math.sqrt(k.size(-1))",
         PACKED: "nn.Linear(64, 3 * 64), nn.Linear(64, 64)"},
        {CUT: "view(B, T, self.num_heads, -1)", SCALE: "math.sqrt(k.size(-1))",
         "        self.num_heads = num": "        assert d_model % num_heads**2 == 0\n        self.num_heads = num"},
    ],
)  # fmt: skip
def test_what_is_right_with_its_sizes_is_right(changed, tmp_path):
    text = ATTENTION
    for old, new in changed.items():
        text = text.replace(old, new)
    result = check_text(text, tmp_path)["MultiHeadAttention"]
    assert result.verdict in FINE and "B29" not in result.ids, result


def test_what_takes_too_long_as_it_is_large_is_said_to_be_large():
    checking = Checking({}, None, lambda *_, **__: None)
    assert "endless" in checking._why_long()
    checking.library.most_weights = 17_000_000
    assert "17 million weights" in checking._why_long()
