"""Flags that a constructor must be given and hands on: they are what its parts have by default."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

STACK = """
class Layer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, leave_norm_out=False, norm_first: bool = FIRST):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        make = nn.Identity if leave_norm_out else nn.LayerNorm
        self.norm1, self.norm2 = make(d_model), make(d_model)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.wide, self.narrow, self.norm_first = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), norm_first

    def attend(self, x, mask):
        return self.attention(x, x, x, key_padding_mask=mask)[0]

    def forward(self, x, padding_mask):
        if self.norm_first:
            x = x + self.attend(self.norm1(x), padding_mask)
            return x + self.narrow(torch.relu(self.wide(self.norm2(x))))
        x = self.norm1(x + self.attend(x, padding_mask))
        return self.norm2(x + self.narrow(torch.relu(self.wide(x))))


class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, leave_norm_out, norm_first):
        super().__init__()
        self.layers = nn.ModuleList([
            Layer(d_model, num_heads, d_ff, leave_norm_out=leave_norm_out, norm_first=norm_first)
            for _ in range(num_layers)
        ])

    def forward(self, x, padding_mask):
        for layer in self.layers:
            x = layer(x, padding_mask)
        return x
"""


@pytest.mark.parametrize("first, place", [("False", "post-norm"), ("True", "pre-norm")])
def test_a_flag_that_must_be_given_is_what_the_part_has_by_default(first, place, tmp_path):
    with time_to_look(1):
        result = check_text(STACK.replace("FIRST", first), tmp_path)["Encoder"]
    assert result.verdict in FINE and place in result.design, result
