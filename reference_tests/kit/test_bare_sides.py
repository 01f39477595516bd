"""A small translation model whose sides are one layer each, and leave out what is around attention: all is named."""

import pytest

from reference_tests.kit.learners.checked import check_text

MODEL = """
class Encoder(nn.Module):
    def __init__(self, vocab, dim, heads, ff):
        super().__init__()
        self.embed, self.attention = nn.Embedding(vocab, dim), nn.MultiheadAttention(dim, heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Linear(ff, dim))

    def forward(self, src):
        x = self.embed(src)
        return self.network(self.attention(x, x, x)[0])


class Decoder(nn.Module):
    def __init__(self, vocab, dim, heads, ff):
        super().__init__()
        self.embed, self.attention = nn.Embedding(vocab, dim), nn.MultiheadAttention(dim, heads, batch_first=True)
        self.cross, self.out = nn.MultiheadAttention(dim, heads, batch_first=True), nn.Linear(dim, vocab)
        self.network = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Linear(ff, dim))

    def forward(self, tgt, memory):
        x = self.embed(tgt)
        x = self.attention(x, x, x)[0]
        x = self.cross(x, memory, memory)[0]
        return self.out(self.network(x))


class BasicTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, dim, heads, ff):
        super().__init__()
        self.encoder = Encoder(src_vocab, dim, heads, ff)
        self.decoder = Decoder(tgt_vocab, dim, heads, ff)

    def forward(self, src, tgt):
        return self.decoder(tgt, self.encoder(src))
"""
LAYER = """
class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.cross = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Linear(ff, dim))

    def forward(self, x, memory):
        x = self.attention(x, x, x)[0]
        x = x + self.cross(x, memory, memory)[0]
        return self.network(x)
"""


@pytest.mark.long
def test_all_that_is_left_out_is_named_and_no_layers_that_nobody_made(tmp_path):
    """Neither side has a stack of which only one layer would count (B9, B28)."""
    results = check_text(MODEL, tmp_path)
    named = {name: {*(m.id for m in one.mistakes), *one.inherited} for name, one in results.items()}
    assert named["Encoder"] == {"A24", "B13", "E2", "P13"}, results
    assert named["Decoder"] == {"A25", "B13", "E2", "P13"}, results
    assert named["BasicTransformer"] == {"A24", "A25", "B13", "E2", "P13"}, results
    assert all(one.verdict == "mistake" for one in results.values())


def test_of_a_layer_that_hides_nothing_what_else_it_leaves_out_is_named(tmp_path):
    bare = check_text(LAYER.replace("x = x + self.cross", "x = self.cross"), tmp_path)["DecoderLayer"]
    assert {*bare.ids} == {"A25", "B13"} and bare.verdict == "mistake", bare
