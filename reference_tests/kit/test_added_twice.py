"""B23: attention that has its residual and norm inside, in a layer that has them around it again."""

import pytest

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.made import variant
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.mistakes.paths import IN_AND_AROUND
from scratch_transformer.kit.report.finding import FINE

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.h = n_heads
        self.w_q, self.w_k, self.w_v, self.fc = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout, self.norm = nn.Dropout(dropout), nn.LayerNorm(d_model)

    def forward(self, q, k, v, mask=None):
        residual = q
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
                   for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = self.dropout(self.fc((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))
        return self.norm(residual + out)
"""
LAYER = """

class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, n_heads, dropout)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        NORMS
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        x = ATTENDED
        return self.norm2(x + self.dropout(self.ff(x)))
"""
STACK = """

class Encoder(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, n_layers):
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer(d_model, n_heads, d_ff) for _ in range(n_layers)])

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x
"""
ONE, TWO = (
    "self.norm2 = nn.LayerNorm(d_model)",
    "self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)",
)


@pytest.mark.long
@pytest.mark.parametrize(
    "norms, attended, ids",
    [
        (ONE, "self.attn(x, x, x, mask)", []),
        (TWO, "self.norm1(x + self.dropout(self.attn(x, x, x, mask)))", ["B23"]),
    ],
    ids=["inside", "inside and around"],
)
def test_what_adds_its_input_inside_needs_nothing_around(norms, attended, ids, tmp_path):
    layer = LAYER.replace("NORMS", norms).replace("ATTENDED", attended)
    results = check_text(ATTENTION + layer + STACK, tmp_path)
    found = [one for one in results["EncoderLayer"].mistakes if one.severity == "mistake"]
    assert [(one.id, one.form) for one in found] == [(id, IN_AND_AROUND) for id in ids], results["EncoderLayer"]
    for name in ("EncoderLayer", "Encoder"):
        assert (results[name].verdict in FINE) == (not ids), results[name]
        assert results[name].verdict in (*FINE, "mistake")
    assert all(any("x = self.norm1(x + " in line for line in one.code) for one in found)


def test_only_what_agrees_with_another_part_has_it():
    layer = variant("EncoderLayer")
    assert "B23" not in diagnose(layer).ids
    layer.added_twice = ("Attention",)
    assert "B23" in diagnose(layer).ids
