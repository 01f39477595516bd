"""One class that attends to the sentence and to the encoder, and cuts its packed matrix otherwise for each."""

import pytest

from reference_tests.kit.learners.checked import LESS, check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

LAYER = """
class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        assert width % heads == 0
        self.h, self.d = heads, width // heads
        self.packed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, memory=None, padding=None, future=None):
        B, T, E = x.shape
        if memory is None:
            q, k, v = self.packed(x).view(B, T, self.h, 3 * self.d).chunk(3, dim=-1)
        else:
            W, b = self.packed.weight.split([E, 2 * E]), self.packed.bias.split([E, 2 * E])
            q = F.linear(x, W[0], b[0]).view(B, T, self.h, self.d)
            k, v = F.linear(memory, W[1], b[1]).view(B, memory.size(1), self.h, 2 * self.d).chunk(2, dim=-1)
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        scores = q @ k.mT / math.sqrt(self.d)
        if padding is not None:
            scores = scores.masked_fill(~padding[:, None, None, :], -1e9)
        if future is not None:
            scores = scores.masked_fill(~future, -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, E))


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, d_ff):
        super().__init__()
        self.cross, self.own = Attention(width, heads), Attention(width, heads)
        self.ff = nn.Sequential(nn.Linear(width, d_ff), nn.ReLU(), nn.Linear(d_ff, width))
        self.n1, self.n2, self.n3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, memory, src_padding_mask=None, future_mask=None):
        x = self.n1(x + self.own(x, future=future_mask))
        x = self.n2(x + self.cross(x, memory=memory, padding=src_padding_mask))
        return self.n3(x + self.ff(x))
"""


IN_BLOCKS = LAYER.replace("view(B, memory.size(1), self.h, 2 * self.d).chunk(2, dim=-1)", "chunk(2, dim=-1)").replace(
    "for y in (q, k, v))\n        scores",
    "for y in (q, k.view(B, -1, self.h, self.d), v.view(B, -1, self.h, self.d)))\n        scores",
)


@pytest.mark.parametrize("text", [LAYER, IN_BLOCKS], ids=["head by head", "in blocks"])
def test_each_has_a_layout_of_its_own(text, tmp_path):
    results = check_text(text, tmp_path)
    assert all(result.verdict in FINE for result in results.values()), results


@pytest.mark.parametrize("text, old, new, id", [
    (LAYER, " / math.sqrt(self.d)", "", "A1"), (IN_BLOCKS, " / math.sqrt(self.d)", "", "A1"),
    (LAYER, "x + self.cross(x", "self.cross(x", ""), (LAYER, "q = F.linear(x", "q = F.linear(memory[:, :T]", ""),
])  # fmt: skip
def test_what_is_wrong_beside_is_not_called_right(text, old, new, id, tmp_path):
    assert old in text
    with time_to_look(1 if id else LESS):
        results = check_text(text.replace(old, new), tmp_path)
    assert results["DecoderLayer"].verdict == ("mistake" if id else "unknown mismatch"), results
    assert not id or id in results["Attention"].ids, results
