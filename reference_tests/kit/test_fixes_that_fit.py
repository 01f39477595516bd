"""What is proposed, and with which numbers a mistake is shown, fits the code that it was found in."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.mistakes.construction import OF_CALLS, OF_FORWARD
from scratch_transformer.kit.report.fixes import repeated
from scratch_transformer.kit.report.words import explanation, listing

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


MEANT = "self.second, which is set, in place of self.secnd, if that is what is meant."


@pytest.mark.parametrize("text, fix", [(NETWORK, OF_CALLS), (NOTHING, OF_FORWARD), (MISSPELT, MEANT)])
def test_what_mends_code_that_stops_fits_its_form_and_is_said_once(text, fix, tmp_path):
    found = check_text(text, tmp_path)["FeedForward"]
    (named,) = found.mistakes
    assert (named.id, named.fix) == ("B26", fix)
    assert " ".join(" ".join(explanation(found)).split()).count("missing 1 required positional argument") <= 1


PROJECTIONS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.heads, self.width = num_heads, d_model // num_heads
        self.wq = nn.Linear(d_model, d_model, bias=False)  # queries
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(0.0)
        self.wo = nn.Linear(d_model, d_model, bias=False)

    def forward(self, q, k, v, mask=None):
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (self.wq(q), self.wk(k), self.wv(v)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.width)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.wo((self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2))
"""


def test_all_projections_are_mended_one_below_the_other_and_the_rest_is_told(tmp_path):
    named = next(one for one in check_text(PROJECTIONS, tmp_path)["MultiHeadAttention"].mistakes if one.id == "A14")
    shown = [(sign, line.strip().partition(" = ")[0]) for sign, _, line in listing(named) if sign in ("-", "+")]
    assert shown == [(sign, f"self.w{which}") for sign in "-+" for which in "qkv"]
    assert not any("bias" in line for line in named.put) and named.put[0].endswith("# queries")
    last = next(n for n, line in enumerate((IMPORTS + PROJECTIONS).splitlines(), 1) if "self.wo =" in line)
    assert named.fix.endswith(f"The same in line {last}.")


def test_of_many_layers_without_biases_not_all_are_projections():
    more = "".join(f"        self.l{n} = nn.Linear(8, 8, bias=False)\n" for n in range(2))
    assert repeated("A14", "", (PROJECTIONS + more).splitlines()) == {}


@pytest.mark.parametrize("told, fix", [
    ("size, device", "Tell it where: device=device."), ("ids", "Tell it where: device=ids.device."),
    ("size", "Tell it where: device=next(self.parameters()).device."),
])  # fmt: skip
def test_what_is_told_a_device_and_makes_its_mask_elsewhere_is_told_to_use_it(told, fix, tmp_path):
    given = {"size": "x.size(1)", "device": "x.device", "ids": "x"}
    call = ", ".join(given[name] for name in told.split(", "))
    size = "ids.size(1), ids.size(1)" if told == "ids" else "size, size"
    lines = ROTARY.replace("WIDE", "d_model").replace(
        "torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)", f"self.future({call})"
    )
    method = f"\n    def future(self, {told}):\n        return torch.ones({size}, dtype=torch.bool).triu(1)\n"
    found = check_text(lines + method, tmp_path)["RotaryAttention"]
    assert [one.fix for one in found.mistakes if one.id == "B32"] == [fix]
