"""The layer that gives scores of words: whatever their number is called, and where it gives another number."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report import words
from scratch_transformer.kit.report.finding import FINE

HEAD = """
class LMHead(nn.Module):
    def __init__(self, d_model, {0}):
        super().__init__()
        self.layer = nn.Linear(d_model, {1})

    def forward(self, x):
        return self.layer(x)
"""


@pytest.mark.parametrize("name", ["n_output", "n_out", "output_dim", "num_outputs", "dim_out"])
def test_outputs_are_the_words(name, tmp_path):
    result = check_text(HEAD.format(name, name), tmp_path)["LMHead"]
    assert (result.verdict, result.error) == ("matches the builtin", 0)


def test_of_another_width_no_numbers_are_compared(tmp_path):
    result = check_text(HEAD.format("vocab_size", "2 * vocab_size"), tmp_path)["LMHead"]
    said = " ".join(words.explanation(result))
    assert "numbers differ" not in said and "–" not in said
    assert "its output differs from that of torch.nn.Linear (with random tokens)" in said
    assert "Each token of it has 26 numbers, and the reference's has 13." in said


ONE_HEAD = """
class EmbeddingLayer(nn.Module):
    def __init__(self, vocab_size, d_model, context_length):
        super().__init__()
        self.token = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(context_length, d_model)

    def forward(self, x):
        return self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))


class SelfAttention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1])
        future = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
        return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


class TransformerBlock(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.attention = SelfAttention(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.network(self.norm2(x))


class SmallGPT(nn.Module):
    def __init__(self, vocab_size, d_model, context_length):
        super().__init__()
        self.embedding = EmbeddingLayer(vocab_size, d_model, context_length)
        self.block, self.norm = TransformerBlock(d_model), nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, x):
        return self.head(self.norm(self.block(self.embedding(x))))
"""


def test_a_head_of_words_is_no_number_of_heads(tmp_path):
    """A model of one head, as its parts have it, is compared with one head."""
    model = check_text(ONE_HEAD, tmp_path)["SmallGPT"]
    assert model.verdict in FINE and [one.id for one in model.mistakes] == ["B1"]


PACKED = """
class PackedSelfAttention(nn.Module):
    def __init__(self, embed_dim):
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, x):
        B, T, E = x.shape
        q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).{}.permute(2, 0, 1, 3)
        weights = (q @ k.transpose(1, 2) / E ** 0.5).softmax(dim=-1)
        return self.out_proj(weights @ v), weights
"""


@pytest.mark.parametrize("cut", ["unflatten(-1, (3, E))", "view(B, T, 3, E)"])
def test_queries_keys_and_values_of_one_matrix_are_no_three_heads(cut, tmp_path):
    result = check_text(PACKED.format(cut), tmp_path)["PackedSelfAttention"]
    assert (result.verdict, result.mistakes) == ("matches the builtin", [])
