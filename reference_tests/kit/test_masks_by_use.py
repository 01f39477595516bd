"""Masks of any name, keep, allowed, blocked: what scores are filled by is one, whichever of its values blocks."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.kind import NO_MASK

pytestmark = pytest.mark.long

TEXT = """
def attention(q, k, v, NAME=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if NAME is not None:
        scores = USE
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0, "dim must be a multiple of heads"
        self.h = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, query, key, value, NAME=None):
        pairs = zip((self.q, self.k, self.v), (query, key, value))
        q, k, v = (linear(t).unflatten(-1, (self.h, -1)).transpose(1, 2) for linear, t in pairs)
        if NAME is not None:
            NAME = NAME.bool()
        return self.o(attention(q, k, v, NAME).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.own, self.other = Attention(dim, heads), Attention(dim, heads)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, x, memory, NAME=None, there=None):
        x = self.norm1(x + self.own(x, x, x, NAME))
        x = self.norm2(x + self.other(x, memory, memory, there))
        return self.norm3(x + self.mlp(x))
"""
FILLED = "scores.masked_fill({}, -math.inf)"
RIGHT = {
    "keep": FILLED.format("~keep"),
    "allowed": FILLED.format("allowed.logical_not()"),
    "visible": "torch.where(visible, scores, -math.inf)",
    "valid": FILLED.format("valid == 0"),
    "blocked": FILLED.format("blocked"),
    "hidden": FILLED.format("hidden.bool()"),
}
TURNED = {"keep": FILLED.format("keep"), "blocked": FILLED.format("~blocked")}


@pytest.mark.parametrize("name, use", [*RIGHT.items(), *TURNED.items()])
def test_what_scores_are_filled_by_is_a_mask(name, use, tmp_path):
    results = check_text(TEXT.replace("USE", use).replace("NAME", name), tmp_path)
    for part in ("attention", "Attention", "DecoderLayer"):
        found = results[part]
        assert found.verdict == "matches the builtin" and NO_MASK not in found.limits, found
        assert any(f"{name} is its mask" in note for note in found.notes), found


def test_what_it_does_wrong_is_named(tmp_path):
    results = check_text(TEXT.replace("USE", "scores.masked_fill(~keep, 1e-9)").replace("NAME", "keep"), tmp_path)
    assert results["attention"].severe == ["A4"] and results["attention"].verdict == "mistake"
