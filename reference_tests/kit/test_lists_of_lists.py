"""B26 of a call in a stack whose layers are lists: for attention, network in self.layers."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

STACK = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.norm(x + self.inner(x, x, x)[0])


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.norm(x + self.second(torch.relu(self.first(x))))


class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff):
        super().__init__()
        MADE

    def forward(self, x):
        for attention, network in self.layers:
            x = network(attention(GIVEN))
        return x
"""
AT_ONCE = """self.layers = nn.ModuleList(
            [nn.ModuleList([Attention(d_model, num_heads), FeedForward(d_model, d_ff)]) for _ in range(num_layers)])"""
ONE_BY_ONE = """self.layers = nn.ModuleList([])
        for _ in range(num_layers):
            self.layers.append(nn.ModuleList([Attention(d_model, num_heads), FeedForward(d_model, d_ff)]))"""
BY_ANOTHER = """made = Attention
        self.layers = nn.ModuleList([
            nn.ModuleList([made(d_model, num_heads), FeedForward(d_model, d_ff)]) for _ in range(num_layers)])"""


@pytest.mark.parametrize("made, given, ids", [
    (AT_ONCE, "x", []), (AT_ONCE, "x, x", ["B26"]), (ONE_BY_ONE, "x, x", ["B26"]), (BY_ANOTHER, "x, x", []),
])  # fmt: skip
def test_a_layer_of_a_list_of_lists_that_is_given_too_much(made, given, ids, tmp_path):
    encoder = check_text(STACK.replace("MADE", made).replace("GIVEN", given), tmp_path)["Encoder"]
    named = [found for found in encoder.mistakes if found.severity == "mistake"]
    assert [found.id for found in named] == ids, encoder
    assert all("calls attention with arguments" in found.evidence for found in named)
    assert (encoder.verdict in FINE) == (given == "x"), encoder
