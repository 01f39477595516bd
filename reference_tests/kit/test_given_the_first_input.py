"""Layers that are all given what the first is (B19), where the numbers explain nothing: the reference's stand in."""

import pytest

from reference_tests.kit.learners.checked import reported

pytestmark = pytest.mark.long

PARTS = "import torch.nn as nn\n\nclass Norm(nn.Module):\n    def __init__(self, d_model):\n        self.scale =\n"
MODEL = """
import torch
import torch.nn as nn
from parts import EncoderLayer, DecoderLayer

class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model, max_len):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        at = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        table = torch.zeros(max_len, d_model)
        table[:, 0::2], table[:, 1::2] = at.sin(), at.cos()
        self.register_buffer("table", table)

    def forward(self, ids):
        return self.words(ids) + self.table[: ids.size(1)]

class Transformer(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, n_layers, n_heads, d_ff, max_len, dropout=0.1):
        super().__init__()
        self.src_embedding = Embedding(src_vocab_size, d_model, max_len)
        self.tgt_embedding = Embedding(tgt_vocab_size, d_model, max_len)
        self.encoders = nn.ModuleList([EncoderLayer(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)])
        self.decoders = nn.ModuleList([DecoderLayer(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)])
        self.linear = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt):
        x, y = self.src_embedding(src), self.tgt_embedding(tgt)
        for i in range(len(self.encoders)):
            memory = self.encoders[i](x)
            out = self.decoders[i](y, memory)
        return self.linear(out)
"""
IN_A_ROW = {
    "memory = self.encoders[i](x)": "x = self.encoders[i](x)",
    "out = self.decoders[i](y, memory)": "y = self.decoders[i](y, x)",
    "(out)": "(y)",
}
SUMMED = {"            out = ": "            out = (out if i else 0) + "}


@pytest.mark.parametrize(("changes", "ids"), [({}, ["B19"]), (IN_A_ROW, []), (SUMMED, [])])
def test_what_the_first_of_lent_layers_makes_is_lost(changes, ids, tmp_path):
    text = MODEL
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "model.py").write_text(text)
    (result,) = (one for one in reported(tmp_path / "model.py").results if one.name == "Transformer")
    assert {*result.replaced} == {"EncoderLayer", "DecoderLayer"}
    assert [one.id for one in result.mistakes if one.severity == "mistake" and one.id == "B19"] == ids, result
    shown = [one.shown.strip() for one in result.mistakes if one.id == "B19"]
    assert shown == ["for i in range(len(self.encoders)):"] * len(ids)
