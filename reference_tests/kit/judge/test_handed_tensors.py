"""A tensor in place of a function: what hands it on is at fault, and not what calls it."""

from reference_tests.kit.learners.checked import check_text

LAYER = """
class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, sublayer):
        return x + sublayer(self.norm(x))

class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.first, self.second = Residual(d_model), Residual(d_model)

    def network(self, x):
        return self.down(torch.relu(self.up(x)))

    def forward(self, x):
        x = self.first(x, lambda x: self.attention(x, x, x)[0])
        x = self.second(x, self.network(x))
        return x
"""


def test_the_line_that_hands_it_on_is_shown_with_a_lambda(tmp_path):
    result = check_text(LAYER, tmp_path)["EncoderLayer"]
    (named,) = (found for found in result.mistakes if found.id == "B26")
    assert named.shown.strip() == "x = self.second(x, self.network(x))", named
    assert "lambda x: self.network(x)" in named.fix and "self.second" in named.evidence
