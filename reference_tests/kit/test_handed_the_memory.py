"""A decoder that hands its layers the encoder's output where the target belongs."""

import pytest

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.made import variant
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

LAYER = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, tgt_mask=None, memory_mask=None):
        x = self.norm1(x + self.self_attn(x, x, x, attn_mask=tgt_mask)[0])
        x = self.norm2(x + self.cross_attn(x, memory, memory, key_padding_mask=memory_mask)[0])
        return self.norm3(x + self.ff(x))
"""
DECODER = """
class Decoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])

    def forward(self, x, memory, tgt_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(HANDED, tgt_mask, memory_mask)
        return x
"""
GIVEN = """
class Decoder(nn.Module):
    def __init__(self, layer, N):
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(N)])

    def forward(self, x, memory, src_mask, tgt_mask):
        for layer in self.layers:
            x = layer(HANDED, src_mask, tgt_mask)
        return x
"""


@pytest.mark.parametrize("handed, ids", [("x, memory", []), ("memory, x", ["B25"])])
def test_of_layers_that_are_there_it_is_a_mistake(handed, ids, tmp_path):
    result = check_text(LAYER + DECODER.replace("HANDED", handed), tmp_path)["Decoder"]
    assert [found.id for found in result.mistakes if found.severity != "note"] == ids, result
    assert (result.verdict in FINE) == (not ids)


@pytest.mark.parametrize("handed, is_told", [("x, memory", False), ("memory, x", True)])
def test_of_a_layer_that_is_lent_it_is_only_told(handed, is_told, tmp_path):
    """Its own layer may take the encoder's output first."""
    result = check_text(GIVEN.replace("HANDED", handed), tmp_path)["Decoder"]
    assert [(found.id, found.severity) for found in result.mistakes] == [("B25", "note")] * is_told, result
    assert (result.verdict in FINE) == (not is_told)


@pytest.mark.parametrize("kind", ["Decoder", "TokenDecoder"])
def test_its_numbers_are_those_of_the_reference_with_it(kind):
    made = variant(kind, roles="exchanged in every layer")
    assert diagnose(made).ids[0] == "B25"
    made.says_sides = False  # nobody says which of the two is the encoder's output
    assert "B25" not in diagnose(made).ids
