"""Positions that a call makes on the CPU and returns alone: what adds them to embeddings on a GPU stops (B32)."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

POSITIONS = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=100):
        super().__init__()
        self.d_model, self.max_len = d_model, max_len

    def forward(self, GIVEN):
        length = LENGTH
        table = torch.zeros(length, self.d_modelWHERE)
        place = torch.arange(lengthWHERE).unsqueeze(1).float()
        rate = torch.exp(torch.arange(0, self.d_modelWHERE, 2).float() * -(math.log(10000.0) / self.d_model))
        table[:, 0::2] = torch.sin(place * rate)
        table[:, 1::2] = torch.cos(place * rate)
        return table.unsqueeze(0)
"""
TOLD = {"WHERE, 2": ", 2, device=x.device", "WHERE": ", device=x.device"}
SILENT = {"WHERE": ""}
OF_X = {"GIVEN": "x", "LENGTH": "x.shape[1]"}
OF_NOTHING = {"GIVEN": "", "LENGTH": "self.max_len", "(self, )": "(self)"}
MODEL = """

class Embedded(nn.Module):
    def __init__(self, vocab_size, d_model, max_len):
        super().__init__()
        self.tokens, self.pos = nn.Embedding(vocab_size, d_model), PositionalEncoding(d_model, max_len)

    def forward(self, ids):
        x = self.tokens(ids)
        return x + self.pos(x).to(x.device)
"""
SPEAKS = "\nDEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"


@pytest.mark.parametrize(("changes", "after", "is_named"), [
    (OF_X | SILENT, SPEAKS, True), (OF_X | TOLD, SPEAKS, False), (OF_X | SILENT, SPEAKS + MODEL, False),
    (OF_NOTHING | SILENT, SPEAKS, False),
])  # fmt: skip
def test_a_table_that_is_returned_is_to_be_where_the_vectors_are(changes, after, is_named, tmp_path):
    """Unless whoever calls it moves it; of what is given nothing, nobody but that can know where."""
    text = POSITIONS
    for old, new in changes.items():
        text = text.replace(old, new)
    result = check_text(text + after, tmp_path)["PositionalEncoding"]
    assert (result.verdict, result.ids) == (("mistake", ["B32"]) if is_named else ("matches the builtin", [])), result
    for named in result.mistakes if is_named else ():
        assert "returned" in named.evidence and "torch.zeros(length" in named.shown


TURNED = """
from einops import rearrange

device = "cuda" if torch.cuda.is_available() else "cpu"


class TurningAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads, width = num_heads, d_model // num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        rates = 10000.0 ** (-2 * torch.arange(width // 2) / width)
        KEPT

    def turn(self, x):
        angles = torch.arange(x.size(-2), device=x.device)[:, None] * rearrange(self.rates, "w -> 1 w")
        even, odd, cos, sin = x[..., 0::2], x[..., 1::2], angles.cos(), angles.sin()
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def forward(self, x):
        q, k, v = (rearrange(w(x), "b t (h d) -> b h t d", h=self.num_heads) for w in (self.q, self.k, self.v))
        causal = torch.ones(x.size(1), x.size(1), device=x.device).tril()
        scores = (self.turn(q) @ self.turn(k).mT / q.size(-1) ** 0.5).masked_fill(causal == 0, float("-inf"))
        return self.o(rearrange(scores.softmax(-1) @ v, "b h t d -> b t (h d)"))
"""


@pytest.mark.parametrize("kept, ids", [
    ("self.rates = rates", ["B32"]), ('self.register_buffer("rates", rates, persistent=False)', []),
])  # fmt: skip
def test_what_einops_is_given_stays_where_the_learner_left_it(kept, ids, tmp_path):
    """What the learner's file says of devices counts, wherever in einops the tensors of two devices meet."""
    result = check_text(TURNED.replace("KEPT", kept), tmp_path)["TurningAttention"]
    assert result.severe == ids, result
