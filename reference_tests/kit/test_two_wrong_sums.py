"""Layers after the paper's design whose sums, or whose attention to the encoder, are others than they should be."""

import pytest
from torch import nn

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.learners.pieces import HEADS
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.trials import match

pytestmark = pytest.mark.long

TEXT = (
    HEADS.replace("MASK", "mask.unsqueeze(1)")
    + """


class EncoderLayer(nn.Module):
    def __init__(self, width, hidden, n_heads, dropout=0.1):
        super().__init__()
        self.own = Heads(width, n_heads)
        self.net = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))
        self.norm_a, self.norm_b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        attended = self.norm_a(x + self.drop(self.own(x, x, mask)))
        return self.norm_b(x + self.drop(self.net(attended)))


class DecoderLayer(nn.Module):
    def __init__(self, width, hidden, n_heads, dropout=0.1):
        super().__init__()
        self.own, self.other = Heads(width, n_heads), Heads(width, n_heads)
        self.net = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))
        self.norm_a, self.norm_b, self.norm_c = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, y, y_mask=None):
        first = self.norm_a(y + self.drop(self.own(y, y, y_mask)))
        second = self.norm_b(y + self.drop(self.other(first, x)))
        return self.norm_c(y + self.drop(self.net(second)))


class DecoderStack(nn.Module):
    def __init__(self, width, hidden, n_heads, dropout=0.1, N=6):
        super().__init__()
        self.blocks = nn.ModuleList([DecoderLayer(width, hidden, n_heads, dropout) for _ in range(N)])

    def forward(self, x, y, y_mask=None):
        for block in self.blocks:
            y = block(x, y, y_mask)
        return y
"""
)


def _changed(text, changes):
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def _line(result, id):
    named = next(found for found in result.mistakes if found.id == id)
    return named.shown.strip()


@pytest.mark.parametrize("sums, shown", [
    ("y y", "second = self.norm_b(y"), ("y second", "second = self.norm_b(y"), ("first y", "return self.norm_c(y"),
])  # fmt: skip
@pytest.mark.long
def test_the_blocks_input_is_added_to_what_later_sublayers_give(sums, shown, tmp_path):
    of_cross, of_network = sums.split()
    changes = [("self.norm_b(y +", f"self.norm_b({of_cross} +"), ("self.norm_c(y +", f"self.norm_c({of_network} +")]
    results = check_text(_changed(TEXT, changes), tmp_path)
    encoder, layer, stack = (results[name] for name in ("EncoderLayer", "DecoderLayer", "DecoderStack"))
    assert encoder.ids == layer.ids == ["B23"] and stack.inherited == ["B23"], (encoder, layer, stack)
    assert _line(layer, "B23").startswith(shown)
    assert _line(encoder, "B23").startswith("return self.norm_b(x")


class Stack(nn.Module):
    """The memory comes first; with the target in its place, the mask does not fit."""

    def __init__(self, d_model):
        super().__init__()
        self.map = nn.Linear(d_model, d_model)

    def forward(self, x, y, y_mask=None):
        scores = y @ y.transpose(-2, -1)
        if y_mask is not None:
            scores = scores.masked_fill(y_mask == 0, float("-inf"))
        return self.map(scores.softmax(-1) @ y + x.mean(1, keepdim=True))


def test_however_little_time_is_left_the_memory_may_come_first():
    kind, library = KINDS["Decoder"], Library(KINDS)
    library.allow(0, False)
    found = list(match._called(Stack(12), kind, library, dict(kind.defaults), {}))
    assert any(outcome.candidate is not None for outcome in found), found
