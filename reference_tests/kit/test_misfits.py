"""B26 also of shapes that never fit: proved by trial, and said of nothing that fits in some way."""

import pytest

from reference_tests.kit.learners.checked import check_text

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, dim_head):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, dim_head * num_heads)
        self.key_proj = nn.Linear(hidden_dim, dim_head * num_heads)
        self.value_proj = nn.Linear(hidden_dim, dim_head * num_heads)
        self.dense = nn.Linear(dim_head * num_heads, hidden_dim)
        self.num_heads, self.dim_head = num_heads, dim_head

    def split(self, x):
        return x.view(len(x), -1, self.num_heads, self.dim_head).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k = self.split(self.query_proj(query)), self.split(self.key_proj(key))
        v = self.split(self.value_proj(value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.dim_head)
        weights = (scores if mask is None else scores.masked_fill(mask == 0, -math.inf)).softmax(-1)
        return self.dense((weights @ v{}).transpose(1, 2).flatten(2))
"""
POSITIONS = """
class PositionalEncoding(nn.Module):
    def __init__(self, dimension, max_len):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dimension, max_len))

    def forward(self, x):
        return x + self.weight.narrow(1, 0, x.size(1))
"""
UNBATCHED = """
class SelfAttention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x):
        weights = (self.q(x) @ self.k(x).T / x.shape[-1] ** 0.5).softmax(-1)
        return torch.mm(weights, self.v(x))
"""


@pytest.mark.parametrize(
    "name, text, line",
    [
        ("MultiHeadAttention", ATTENTION.format(".transpose(0, 1)"), "weights @ v.transpose(0, 1)"),
        ("PositionalEncoding", POSITIONS, "self.weight.narrow(1, 0, x.size(1))"),
    ],
)
def test_shapes_that_never_fit_are_a_mistake_with_the_line_where_it_stops(name, text, line, tmp_path):
    result = check_text(text, tmp_path)[name]
    assert (result.verdict, [m.id for m in result.mistakes]) == ("mistake", ["B26"])
    assert line in result.mistakes[0].evidence


def test_what_fits_without_a_batch_or_as_it_should_is_none(tmp_path):
    results = check_text(ATTENTION.format("") + UNBATCHED, tmp_path)
    assert {m.id for result in results.values() for m in result.mistakes} & {"B26"} == set()
    assert results["MultiHeadAttention"].verdict == "matches the builtin"
