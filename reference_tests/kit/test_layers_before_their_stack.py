"""The layers that a stack is given are judged before it, wherever both stand: their mistakes are those of its parts."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

TEXT = """
class Decoder(nn.Module):
    def __init__(self, layers: nn.ModuleList):
        super().__init__()
        self.layers = layers

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x, mask)
        return x


class DecoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        assert d_model % num_heads == 0
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        y = self.norm1(x)
        q, k, v = (w(y).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.q, self.k, self.v))
        scores = (q @ k.transpose(-2, -1)).masked_fill(mask == 0, float("-inf"))
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.net(self.norm2(x))
"""


def test_a_mistake_of_the_layers_is_in_a_part_of_the_stack(tmp_path):
    found = check_text(TEXT, tmp_path)
    assert [*found] == ["DecoderBlock", "Decoder"]
    assert (found["DecoderBlock"].severe, found["Decoder"].inherited) == (["A1"], ["A1"])
    assert not found["Decoder"].unexplained
