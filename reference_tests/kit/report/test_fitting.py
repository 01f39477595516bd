"""The fix in the names of the learner's own code: its table, its norms, its words; and that it mends the code."""

import pytest
from torch import nn

from reference_tests.kit.learners.checked import check_text, written
from reference_tests.kit.learners.mended import mended
from scratch_transformer.kit.report.fitting import fitting

POSITIONS = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        places, steps = torch.arange(max_len).unsqueeze(1), torch.arange(0, d_model, 2)
        angles = places * torch.exp(steps * (-math.log(10000.0) / d_model))
        table = torch.zeros(max_len, 1, d_model)
        table[:, 0, 0::2], table[:, 0, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("table", table)

    def forward(self, x):
        "x: (batch, seq_len, d_model)"
        return x + self.table[: x.size(0), :]
"""
LAYER = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, num_heads, dropout, batch_first=True)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.ln1 = nn.LayerNorm(d_model)
        self.ln2 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        hidden = None if mask is None else ~mask
        x = self.ln1(x + self.dropout(self.attn(x, x, x, key_padding_mask=hidden)[0]))
        return self.ln1(x + self.dropout(self.network(x)))

    def network(self, x):
        return self.down(self.dropout(torch.relu(self.up(x))))
"""
WORDS = """
class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, emb_size):
        super().__init__()
        self.lut = nn.Embedding(vocab_size, emb_size)

    def forward(self, ids):
        return self.lut(ids)
"""


@pytest.mark.parametrize("text, name, id, put", [
    (POSITIONS, "PositionalEncoding", "P4", "return x + self.table[: x.size(1)].transpose(0, 1)"),
    (LAYER, "EncoderLayer", "B15", "return self.ln2(x + self.dropout(self.network(x)))"),
    (WORDS, "TokenEmbedding", "E2", "return self.lut(ids) * self.lut.embedding_dim ** 0.5"),
])  # fmt: skip
def test_it_is_proposed_in_the_names_of_the_code_and_mends_it(text, name, id, put, tmp_path):
    named = next(one for one in check_text(text, tmp_path)[name].mistakes if one.id == id)
    assert [line.strip() for line in named.put] == [put]
    assert id not in mended(written(text, tmp_path), name, id).ids


def test_one_norm_for_all_is_to_be_two_of_its_kind(tmp_path):
    text = LAYER.replace("self.ln1(", "self.after(").replace("self.ln1 =", "self.after =")
    text = text.replace("        self.ln2 = nn.LayerNorm(d_model)\n", "")
    named = next(one for one in check_text(text, tmp_path)["EncoderLayer"].mistakes if one.id == "B15")
    assert (named.put, named.fix) == ([], (
        "self.after1 = nn.LayerNorm(d_model); self.after2 = nn.LayerNorm(d_model), one for each sublayer, in place of "
        "self.after."
    ))  # fmt: skip


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.lut = nn.Embedding(3, 4)

    def forward(self, ids):
        return self.lut(ids).transpose(0, 1)


@pytest.mark.parametrize("id, form", [("E2", "not scaled"), ("E2", "times d_model"), ("P4", ""), ("B15", "")])
def test_what_does_not_fit_is_not_put(id, form):
    line = Words.forward.__code__.co_firstlineno + 1
    found = fitting(id, form, __file__, line, Words().modules())
    assert (found is not None and found.text) == (id == "E2" and "self.lut(…) * self.lut.embedding_dim ** 0.5.")
    assert found is None or found.put == []
