"""What is proposed, and with which numbers a mistake is shown, fits the code that it was found in."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import OF_CALLS, OF_FORWARD
from scratch_transformer.kit.report.words import explanation

ROTARY = """
class RotaryAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len=64):
        super().__init__()
        self.heads, self.width = num_heads, d_model // num_heads
        self.wq, self.wk, self.wv = (nn.Linear(d_model, WIDE, bias=False) for _ in range(3))
        self.wo = nn.Linear(WIDE, d_model, bias=False)
        angles = torch.outer(torch.arange(max_len), 10000.0 ** (-torch.arange(0, self.width, 2) / self.width))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def turned(self, x):
        even, odd = x[..., 0::2], x[..., 1::2]
        cos, sin = self.cos[: x.size(-2)], self.sin[: x.size(-2)]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = self.turned(q), self.turned(k)
        hidden = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        scores = (q @ k.mT / math.sqrt(self.width)).masked_fill(hidden, float("-inf"))
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("wide, ids", [("self.heads * self.width", []), ("d_model", ["A19"])])
def test_rotary_heads_that_need_not_divide_the_width_are_no_mistake(wide, ids, tmp_path):
    found = check_text(ROTARY.replace("WIDE", wide), tmp_path)["RotaryAttention"]
    assert [id for id in found.ids if id == "A19"] == ids


NETWORK = """
class Half(nn.Module):
    def __init__(self, d_model, d_ff, bias):
        super().__init__()
        self.linear = nn.Linear(d_model, d_ff, bias=bias)

    def forward(self, x):
        return self.linear(x)

class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.first, self.second = Half(d_model, d_ff), Half(d_ff, d_model, True)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
"""
WHOLE = NETWORK.replace("Half(d_model, d_ff)", "Half(d_model, d_ff, True)")
NOTHING = WHOLE.replace(
    "return self.second(torch.relu(self.first(x)))", "x = self.first(x)\n        x = self.second(x.relu())"
)
MISSPELT = WHOLE.replace("return self.second", "return self.secnd")


@pytest.mark.parametrize("text, fix", [(NETWORK, OF_CALLS), (NOTHING, OF_FORWARD), (MISSPELT, MISTAKES["B26"].fix)])
def test_what_mends_code_that_stops_fits_its_form_and_is_said_once(text, fix, tmp_path):
    found = check_text(text, tmp_path)["FeedForward"]
    (named,) = found.mistakes
    assert (named.id, named.fix) == ("B26", fix)
    assert " ".join(" ".join(explanation(found)).split()).count("missing 1 required positional argument") <= 1
