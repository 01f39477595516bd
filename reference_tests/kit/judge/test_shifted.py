"""A decoder that shifts its target by itself is said to, in place of numbers that differ for no reason."""

import pytest
import torch

from reference_tests.kit.learners.checked import LESS, check_text, time_to_look
from scratch_transformer.kit.judge import shifted
from scratch_transformer.kit.judge.shifted import SHIFTS
from scratch_transformer.kit.kind import Probe

pytestmark = pytest.mark.long

DECODER = """
class Decoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.1):
        super().__init__()
        layer = nn.TransformerDecoderLayer(d_model, num_heads, d_ff, dropout, batch_first=True)
        self.layers = nn.TransformerDecoder(layer, num_layers)

    def forward(self, x, memory):
        x = GIVEN
        hidden = nn.Transformer.generate_square_subsequent_mask(x.size(1), dtype=x.dtype)
        return self.layers(x, memory, tgt_mask=hidden)
"""


@pytest.mark.parametrize("given, is_said", [
    ("F.pad(x[:, :-1], (0, 0, 1, 0))", True), ("torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), dim=1)", True),
    ("x * 3 - 1", False), ("x", False),
])  # fmt: skip
def test_a_decoder_that_shifts_its_target_is_said_to(given, is_said, tmp_path):
    with time_to_look(LESS):
        result = check_text(DECODER.replace("GIVEN", given), tmp_path)["Decoder"]
    assert (SHIFTS in result.limits) == is_said, result
    assert (result.verdict == "unknown mismatch") == (given != "x"), result


@pytest.mark.parametrize("ids", [[[1, 2, 3], [1, 4, 3]], [[5, 5, 5], [5, 5, 6]], [[0, 0, 2], [0, 3, 0]]])
def test_the_last_word_is_another_one_in_every_sample(ids):
    """Of two sentences that end alike, the one's end is no other's."""
    target = torch.tensor(ids)
    for place in (-1, -2):
        other = shifted._without(Probe("words", {"ids": target}), "ids", place)
        assert ((other != target).nonzero()[:, 1] == target.shape[1] + place).all()
        assert (other != target).sum() == len(target) and {*other.unique().tolist()} <= {*target.unique().tolist()}
