"""A mask that is kept as a plain attribute is that (A30), and no weight (B10), of what has it, and of nothing else."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

ATTENTION = """
class CausalAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.hidden = MADE

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (y.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + self.hidden[:T, :T]
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
OF_LISTS = 'torch.tensor([[0.0] * (i + 1) + [float("-inf")] * (max_len - i - 1) for i in range(max_len)]TRAINED)'


@pytest.mark.parametrize("made", [
    OF_LISTS.replace("TRAINED", ", requires_grad=True"), OF_LISTS.replace("TRAINED", ""),
    'torch.full((max_len, max_len), float("-inf")).triu(1).requires_grad_()',
])  # fmt: skip
def test_a_mask_is_no_weight_though_it_is_made_with_gradients(made, tmp_path):
    (result,) = check_text(ATTENTION.replace("MADE", made), tmp_path).values()
    assert result.severe == ["A30"], result
    assert "register_buffer" in "".join(one.fix for one in result.mistakes)


def test_a_matrix_with_gradients_that_is_no_triangle_is_a_weight(tmp_path):
    made = "torch.randn(max_len, max_len, requires_grad=True)"
    (result,) = check_text(ATTENTION.replace("MADE", made), tmp_path).values()
    assert "B10" in result.severe, result


WITH_A_FLAG = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads, max_len, looks_back=True):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.looks_back = num_heads, looks_back
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        if looks_back:
            self.hidden = torch.full((max_len, max_len), float("-inf")).triu(1)

    def forward(self, x):
        T = x.shape[1]
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if self.looks_back:
            scores = scores + self.hidden[:T, :T]
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, max_len, dropout=0.1):
        super().__init__()
        self.attention = Attention(d_model, num_heads, max_len, looks_back=FLAG)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.dropout(self.network(x)))
"""


@pytest.mark.parametrize("flag, inherited", [("False", []), ("True", ["A30"])])
def test_a_whole_has_the_attributes_of_its_own_parts_and_not_those_of_their_class(flag, inherited, tmp_path):
    results = check_text(WITH_A_FLAG.replace("FLAG", flag), tmp_path)
    assert results["Attention"].severe == ["A30"], results["Attention"]
    layer = results["EncoderLayer"]
    assert layer.inherited == inherited and (layer.verdict in FINE) == (not inherited), layer
