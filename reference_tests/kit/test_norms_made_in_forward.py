"""A layer that is made inside forward (B21): where it is made, and what it is to be."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.width = d_model
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        normed = x
        MADE
        return self.down(torch.relu(self.up(normed)))
"""
OWN = """
class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x)

"""


@pytest.mark.parametrize(
    ("before", "made", "fix"),
    [
        ("", "normed = nn.LayerNorm(self.width).to(x.device)(x)", "self.norm = nn.LayerNorm(…) in __init__; "),
        ("", "normed = nn.Linear(self.width, self.width)(x)", "self.linear = nn.Linear(…) in __init__; "),
        (OWN, "normed = Scale(self.width)(x)", ""),
    ],
)
def test_the_line_that_makes_it_is_shown(before, made, fix, tmp_path):
    result = check_text(before + NETWORK.replace("MADE", made), tmp_path)["FeedForward"]
    (found,) = [one for one in result.mistakes if one.id == "B21"]
    assert found.shown.strip() == made
    assert found.fix.startswith(fix or "self.linear = nn.Linear(...)")


WITH_THE_SUM = """
d_model, d_ff, n_heads = 12, 17, 3


class MultiHeadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.W_Q, self.W_K, self.W_V, self.fc = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, q, k, v, attn_mask):
        residual = q
        split = lambda y: y.unflatten(-1, (n_heads, -1)).transpose(1, 2)
        q, k, v = split(self.W_Q(q)), split(self.W_K(k)), split(self.W_V(v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(d_model // n_heads)
        scores = scores.masked_fill(attn_mask.unsqueeze(1), -math.inf)
        output = self.fc((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return nn.LayerNorm(d_model).to(output.device)(SUM)


class PoswiseFeedForwardNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(d_model, d_ff, bias=False), nn.ReLU(), nn.Linear(d_ff, d_model, bias=False))

    def forward(self, inputs):
        output, residual = self.fc(inputs), inputs
        return nn.LayerNorm(d_model)(SUM)


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc_self_attn, self.pos_ffn = MultiHeadAttention(), PoswiseFeedForwardNet()

    def forward(self, enc_inputs, enc_self_attn_mask):
        return self.pos_ffn(self.enc_self_attn(enc_inputs, enc_inputs, enc_inputs, enc_self_attn_mask))
"""
ALL = ("MultiHeadAttention", "PoswiseFeedForwardNet", "EncoderLayer")


def test_a_norm_of_the_sum_that_is_made_anew_is_all_that_is_wrong(tmp_path):
    """It has a scale of 1 and a shift of 0, and computes what a norm does that has just been made."""
    results = check_text(WITH_THE_SUM.replace("SUM", "output + residual"), tmp_path)
    assert [results[name].verdict for name in ALL] == ["mistake"] * 3
    assert not any(results[name].unexplained or results[name].error > 1e-12 for name in ALL)
    assert [results[name].severe for name in ALL[:2]] == [["B21"]] * 2 and results["EncoderLayer"].inherited[:1] == [
        "B21"
    ]


def test_what_is_wrong_besides_is_not_passed_over(tmp_path):
    text = WITH_THE_SUM.replace("SUM", "output - residual * 0.5")
    result = check_text(text, tmp_path, {ALL[1]})[ALL[1]]
    assert result.ids == ["B21"] and result.unexplained, result
