"""A network whose two widths are told apart works with any two of them."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

GATED = """
class Linear(nn.Module):
    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim_out, dim_in))

    def forward(self, x):
        return x @ self.weight.T

class SwiGLU(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(dim, hidden_dim), Linear(dim, hidden_dim), Linear(hidden_dim, dim)

    def forward(self, x):
        gate = self.w1(x)
        gate = gate * torch.sigmoid(GATE)
        return self.w3(gate * self.w2(x))
"""


@pytest.mark.parametrize("gate, ids", [("self.w1(gate)", ["B26"]), ("gate", [])])
def test_a_network_that_works_with_one_width_alone_stops_with_two(gate, ids, tmp_path):
    found = check_text(GATED.replace("GATE", gate), tmp_path)["SwiGLU"]
    assert (found.verdict, found.ids) == ("mistake" if ids else "matches the builtin", ids)
    assert not found.unexplained
    assert all("self.w1(gate)" in named.shown for named in found.mistakes)


MODEL = """
class MiniGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding(64, d_model)
        self.block = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, 0.0, batch_first=True)
        self.head = nn.Linear(d_model, WIDE)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.size(1)))
        x = self.block(x, src_mask=nn.Transformer.generate_square_subsequent_mask(ids.size(1)), is_causal=True)
        return self.head(x) ** 3
"""


@pytest.mark.parametrize("wide, is_said", [("d_model", True), ("vocab_size", False)])
def test_a_model_that_scores_no_words_is_said_to(wide, is_said, tmp_path):
    found = check_text(MODEL.replace("WIDE", wide), tmp_path)["MiniGPT"]
    assert found.verdict == "unknown mismatch"
    assert any("no score for each of the" in limit for limit in found.limits) == is_said


MULTIPLE = """
class FeedForward(nn.Module):
    def __init__(self, dim: int, hidden_dim: int, multiple_of: int, ffn_dim_multiple: Optional[float]):
        super().__init__()
        width = hidden_dim if ffn_dim_multiple is None else int(ffn_dim_multiple * dim)
        width = multiple_of * ((width + multiple_of - 1) // multiple_of)
        self.gate, self.up = nn.Linear(dim, width, bias=False), nn.Linear(dim, width, bias=False)
        self.down = nn.Linear(width, dim, bias=False)

    def forward(self, x):
        return self.down(GATED)
"""


@pytest.mark.parametrize("gated, ids", [
    ("F.silu(self.gate(x)) * self.up(x)", []), ("F.silu(self.gate(x) * self.up(x))", ["G5"]),
])  # fmt: skip
def test_a_multiple_of_the_width_that_may_be_none_is_none_beside_another_width(gated, ids, tmp_path):
    text = "from typing import Optional\n" + MULTIPLE.replace("GATED", gated)
    assert check_text(text, tmp_path)["FeedForward"].severe == ids
