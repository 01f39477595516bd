"""Sizes that are given as one tuple, shape[1], and those whose name says a number of something: n_embeddings."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

SHAPES = """
class PositionalEncoding(nn.Module):
    def __init__(self, shape, device="cpu"):
        super().__init__()
        self.max_len = shape[1]
        self.dmodel = shape[2]
        position = torch.arange(0, self.max_len).float().unsqueeze(1)
        rate = torch.exp(torch.arange(0, self.dmodel, 2).float() * -(math.log(10000.0) / self.dmodel))
        self.register_buffer("table", torch.zeros((1, self.max_len, self.dmodel), device=device))
        self.table[0, :, 0::2] = torch.sin(position * rate)
        self.table[0, :, 1::2] = torch.cos(position * rate)

    def forward(self, x):
        return x + self.table[:, : x.size(1), :]


class FeedForward(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        d_model, d_ff = sizes
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Encoder(nn.Module):
    def __init__(self, vocab_size, shape, heads=4):
        super().__init__()
        self.table = nn.Embedding(vocab_size, shape[2])
        self.positions = PositionalEncoding(shape)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(shape[2], heads, 4 * shape[-1], batch_first=True) for _ in range(2)
        )

    def forward(self, x):
        x = self.positions(self.table(x))
        for layer in self.layers:
            x = layer(x)
        return x
"""


def test_sizes_that_are_taken_apart_by_number(tmp_path):
    results = check_text(SHAPES, tmp_path)
    assert {name: (r.kind, r.problem) for name, r in results.items()} == {
        "PositionalEncoding": ("PositionalEncoding", ""),
        "FeedForward": ("FeedForward", ""),
        "Encoder": ("TokenEncoder", ""),
    }
    assert {results[name].verdict for name in ("PositionalEncoding", "FeedForward")} <= {*FINE}


@pytest.mark.parametrize("old, new", [("10000.0", "1000.0"), ("torch.relu(self.up(x))", "self.up(x)")])
def test_what_is_wrong_with_such_sizes_is_wrong(old, new, tmp_path):
    results = check_text(SHAPES.replace(old, new), tmp_path)
    assert not {results[name].verdict for name in ("PositionalEncoding", "FeedForward")} <= {*FINE}


COUNTED = """
class AttentionHead(nn.Module):
    def __init__(self, head_size, n_embeddings, block_size, dropout):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(n_embeddings, head_size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        T, C = x.shape[1:]
        k = self.key(x)
        weights = self.query(x) @ k.mT * k.shape[-1] ** -0.5
        weights = weights.masked_fill(self.tril[:T, :T] == 0, float("-inf")).softmax(dim=-1)
        return self.dropout(weights) @ self.value(x)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, head_size, n_embeddings, block_size, dropout):
        super().__init__()
        self.heads = nn.ModuleList(
            AttentionHead(head_size, n_embeddings, block_size, dropout) for _ in range(num_heads)
        )
        self.projection = nn.Linear(n_embeddings, n_embeddings)

    def forward(self, x):
        return self.projection(torch.cat([head(x) for head in self.heads], -1))


class Block(nn.Module):
    def __init__(self, n_embeddings, n_heads, block_size, dropout):
        super().__init__()
        self.attention = MultiHeadAttention(n_heads, n_embeddings // n_heads, n_embeddings, block_size, dropout)
        self.mlp = nn.Sequential(
            nn.Linear(n_embeddings, 4 * n_embeddings), nn.ReLU(), nn.Linear(4 * n_embeddings, n_embeddings)
        )
        self.norm1, self.norm2 = nn.LayerNorm(n_embeddings), nn.LayerNorm(n_embeddings)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))
"""
SCALE, SOFTMAX = ("k.shape[-1] ** -0.5", "C ** -0.5"), ("softmax(dim=-1)", "softmax(dim=1)")


@pytest.mark.parametrize(
    "changes, ids",
    [((), set()), ((SCALE,), {"A1"}), ((SCALE, SOFTMAX), {"A1", "A2"})],
    ids=["right", "by the width of the model", "over queries too"],
)
def test_a_number_of_embeddings_is_the_width_where_there_are_no_words(changes, ids, tmp_path):
    text = COUNTED
    for old, new in changes:
        text = text.replace(old, new)
    results = check_text(text, tmp_path)
    for result in results.values():
        found = {m.id for m in result.mistakes if m.severity == "mistake"} | {*result.inherited}
        assert found - {"A14", "B6"} == ids and not result.unexplained, result  # the layer drops nothing itself
