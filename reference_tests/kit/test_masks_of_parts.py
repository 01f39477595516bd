"""A part's mistake about masks is the whole's only if that may have a mask to hand on."""

import pytest

from reference_tests.kit.learners.checked import check_text, reported

ATTENTION = """
import torch
from torch import nn

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads, self.width = heads, d_model // heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        of = ((self.q, q), (self.k, k), (self.v, v))
        q, k, v = (linear(x).unflatten(-1, (self.heads, self.width)).transpose(1, 2) for linear, x in of)
        scores = q @ k.mT / self.width**0.5
        if mask == True:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
ENCODER = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x))
        return self.norm2(x + self.network(x))

class Encoder(nn.Module):
    def __init__(self, layers, d_model, heads, d_ff):
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer(d_model, heads, d_ff) for _ in range(layers)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.long
def test_a_whole_that_hands_no_mask_on_does_not_stop_with_one(tmp_path):
    found = check_text(ATTENTION + ENCODER, tmp_path)
    assert found["MultiHeadAttention"].ids[0] == "A31"
    for name in ("EncoderLayer", "Encoder"):
        assert "A31" not in [*found[name].ids, *found[name].inherited]


@pytest.mark.long
def test_nor_where_the_part_is_in_another_file(tmp_path):
    (tmp_path / "many_heads_of_it.py").write_text(ATTENTION)
    path = tmp_path / "encoder.py"
    path.write_text("from torch import nn\nfrom many_heads_of_it import MultiHeadAttention\n" + ENCODER)
    found = {result.name: result for result in reported(path).results}
    for name in ("EncoderLayer", "Encoder"):
        assert "A31" not in [*found[name].ids, *found[name].inherited]


@pytest.mark.long
def test_a_whole_that_hands_its_mask_on_stops_with_it(tmp_path):
    masked = ENCODER.replace("forward(self, x)", "forward(self, x, mask=None)")
    masked = masked.replace("(x, x, x)", "(x, x, x, mask)").replace("layer(x)", "layer(x, mask)")
    found = check_text(ATTENTION + masked, tmp_path)
    for name in ("EncoderLayer", "Encoder"):
        assert "A31" in [*found[name].ids, *found[name].inherited]


@pytest.mark.long
def test_a_mask_that_is_asked_whether_it_is_true_is_to_be_asked_whether_it_is_there(tmp_path):
    (named,) = [m for m in check_text(ATTENTION, tmp_path)["MultiHeadAttention"].mistakes if m.id == "A31"]
    assert [line.strip() for line in named.put] == ["if mask is not None:"]


@pytest.mark.long
@pytest.mark.parametrize("handed, ids", [("", []), (", mask=None", []), (", mask=mask", ["A8"])])
def test_a_number_that_blocks_in_another_file_is_only_said_where_a_mask_is_given(handed, ids, tmp_path):
    right = ATTENTION.replace("mask == True", "mask is not None").replace('float("-inf")', "-1e20")
    refuses = "assert d_model % heads == 0\n        self.heads, self"
    (tmp_path / "many_heads_with_numbers.py").write_text(right.replace("self.heads, self", refuses, 1))
    path = tmp_path / "encoder.py"
    imports = "import torch\nfrom torch import nn\nfrom many_heads_with_numbers import MultiHeadAttention\n"
    encoder = ENCODER.replace("(x, x, x)", f"(x, x, x{handed})")
    takes = "forward(self, x, mask=None)" if "=mask" in handed else "forward(self, x)"
    path.write_text(imports + encoder.replace("forward(self, x)", takes, 1))
    found = {result.name: result for result in reported(path).results}
    assert [one.id for one in found["EncoderLayer"].mistakes] == ids
