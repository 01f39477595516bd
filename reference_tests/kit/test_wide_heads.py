"""Heads that are each as wide as their model, in lists of one matrix a head: Linear(h · d, d) joins them."""

import pytest

from reference_tests.kit.learners.checked import LESS, check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

LISTS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d = num_heads, d_model
        self.qs, self.ks, self.vs = (nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(self.h)) for _ in "qkv")
        self.proj = nn.Linear(d_model * num_heads, d_model)

    def forward(self, x):
        T, outs = x.shape[1], []
        for q, k, v in zip(self.qs, self.ks, self.vs):
            w = q(x) @ k(x).mT / self.d**0.5
            w = w.masked_fill(torch.ones(T, T, device=x.device).triu(1).bool(), -math.inf)
            outs.append(w.softmax(-1) @ v(x))
        return self.proj(torch.cat(outs, -1))
"""
MATRICES = """
class MultiHeadAttention(nn.Module):
    def __init__(self, size, key_size, heads, causal=False):
        super().__init__()
        self.heads, self.key_size, self.causal = heads, key_size, causal
        self.keys, self.queries, self.values = (self.made(size, key_size) for _ in range(3))
        self.joined = nn.Parameter(torch.randn(heads * key_size, size) * 0.1)

    def made(self, size, key_size):
        return nn.ParameterList([torch.randn(size, key_size) * 0.1 for _ in range(self.heads)])

    def one(self, i, x):
        k, q, v = x @ self.keys[i], x @ self.queries[i], x @ self.values[i]
        scores = q @ k.mT
        if self.causal:
            scores = scores + torch.full(scores.shape[-2:], -math.inf, dtype=x.dtype, device=x.device).triu(1)
        return (scores / self.key_size**0.5).softmax(-1) @ v

    def forward(self, x):
        return torch.cat([self.one(i, x) for i in range(self.heads)], -1) @ self.joined
"""


def ids_of(text, folder):
    result = check_text(text, folder)["MultiHeadAttention"]
    return result, [mistake.id for mistake in result.mistakes if mistake.severity == "mistake"]


@pytest.mark.parametrize("text", [LISTS, MATRICES], ids=["lists", "matrices"])
def test_their_matrices_are_found(text, tmp_path):
    result, mistakes = ids_of(text, tmp_path)
    assert result.verdict in FINE and not mistakes, result


@pytest.mark.parametrize("text, old, new, id", [
    (LISTS, " / self.d**0.5", "", "A1"), (LISTS, "self.d**0.5", "(self.d // self.h)**0.5", "A1"),
    (LISTS, "triu(1)", "triu(2)", "A6"), (LISTS, "k(x).mT", "q(x).mT", "A21"),
    (MATRICES, " / self.key_size**0.5", "", "A1"), (MATRICES, "self.key_size**0.5", "x.size(-1)**0.5", "A1"),
])  # fmt: skip
def test_what_is_wrong_with_them_is_named(text, old, new, id, tmp_path):
    assert old in text
    result, mistakes = ids_of(text.replace(old, new), tmp_path)
    assert mistakes == [id], result


@pytest.mark.parametrize("new", ["nn.Sequential(nn.Linear(d_model, 3), nn.Linear(3, d_model))"])
def test_maps_in_a_sequence_are_no_heads(new, tmp_path):
    """Of low rank: the numbers in its names count no heads, and its numbers are none of an attention that is known."""
    text = LISTS.replace("nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(self.h))", new)
    text = text.replace("d_model * num_heads", "d_model").replace(
        "zip(self.qs, self.ks, self.vs)", "[(self.qs, self.ks, self.vs)]"
    )
    with time_to_look(LESS):
        result, _ = ids_of(text, tmp_path)
    assert "num_heads" not in str(result), result
