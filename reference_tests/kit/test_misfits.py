"""B26 also of shapes that never fit: proved by trial, and said of nothing that fits in some way."""

import runpy

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve.trials import uneven
from scratch_transformer.kit.resolve.trials.outcome import Outcome

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


def test_heads_in_place_of_the_length_never_fit_whatever_mask_it_must_be_given(tmp_path):
    right = ATTENTION.format("").replace("mask=None", "mask")
    merged = "contiguous().view(len(query), {}, self.num_heads * self.dim_head)"
    wrong = right.replace("flatten(2)", merged.format("q.shape[1]"))
    (result,) = check_text(wrong, tmp_path).values()
    assert (result.verdict, [m.id for m in result.mistakes]) == ("mistake", ["B26"])
    (result,) = check_text(right.replace("flatten(2)", merged.format("q.shape[2]")), tmp_path).values()
    assert result.verdict == "matches the builtin"


def test_what_fits_without_a_batch_or_as_it_should_is_none(tmp_path):
    results = check_text(ATTENTION.format("") + UNBATCHED, tmp_path)
    assert {m.id for result in results.values() for m in result.mistakes} & {"B26"} == set()
    assert results["MultiHeadAttention"].verdict == "matches the builtin"


LAYER = """
class DecoderLayer(nn.Module):
    def __init__(self, hidden_dim, num_heads, dim_head, ffn_dim):
        super().__init__()
        self.self_attn = MultiHeadAttention(hidden_dim, num_heads, dim_head)
        self.cross_attn = MultiHeadAttention(hidden_dim, num_heads, dim_head)
        self.ffn = nn.Sequential(nn.Linear(hidden_dim, ffn_dim), nn.ReLU(), nn.Linear(ffn_dim, hidden_dim))
        self.norms = nn.ModuleList([nn.LayerNorm(hidden_dim) for _ in range(3)])

    def forward(self, x, {}, src_mask=None, tgt_mask=None):
        x = self.norms[0](x + self.self_attn(x, x, x, tgt_mask))
        x = self.norms[1](x + {})
        return self.norms[2](x + self.ffn(x))
"""


@pytest.mark.parametrize("given, crossed, is_one", [
    ("encoder_output", "self.cross_attn(x, encoder_output, x, src_mask)", True),
    ("encoder_output", "self.cross_attn(x, encoder_output, encoder_output, src_mask)", False),
    ("angles", "angles * self.cross_attn(x, x, x, src_mask)", False),
])  # fmt: skip
def test_what_works_with_one_length_of_source_and_target_alone_is_a_mistake(given, crossed, is_one, tmp_path):
    path = tmp_path / "learner.py"
    path.write_text(IMPORTS + ATTENTION.format("") + LAYER.format(given, crossed))
    namespace = runpy.run_path(str(path))
    outcome = Outcome(KINDS["DecoderLayer"], error=RuntimeError("the size of tensor a must match the size of b"))
    outcome.made = namespace["DecoderLayer"](12, 3, 4, 17).double().eval()
    found = uneven.finding(outcome)
    assert (found is not None) == is_one, found
    if found is not None:
        assert found[0].mistake.id == "B26" and "with 7 and 5 it stops" in found[0].evidence


def test_what_is_told_how_long_its_sequences_are_is_not_said_to_fit_none(tmp_path):
    told = ATTENTION.format("").replace("num_heads, dim_head):", "num_heads, dim_head, seq_len):")
    told = told.replace("len(x), -1, self", "len(x), self.seq_len, self").replace("= num_heads, dim_head\n", (
        "= num_heads, dim_head\n        self.seq_len = seq_len\n"))  # fmt: skip
    right, lacking = check_text(told, tmp_path), check_text(told.replace("flatten(2)", "flatten(self.first)"), tmp_path)
    assert [m.id for m in right["MultiHeadAttention"].mistakes if m.id == "B26"] == []
    assert [m.id for m in lacking["MultiHeadAttention"].mistakes] == ["B26"]
    assert "self.first" in lacking["MultiHeadAttention"].mistakes[0].evidence
