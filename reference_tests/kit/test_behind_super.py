"""What stops as it does not call super().__init__() first (LN8) is judged with that repaired in memory."""

import pytest
from torch import nn

from reference_tests.kit.learners.checked import check_text

NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        BEFORE
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        BEHIND

    def forward(self, x):
        return self.down(ACTIVATION(self.up(x)))
"""
BEFORE = [
    "self.d_ff = d_ff",
    '"""Two maps, with a ReLU between them."""',
    "super.__init__()",
    "super(self).__init__()",
    "assert d_ff > d_model",
]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("activation, ids", [("torch.relu", []), ("torch.tanh", ["B8"])])
def test_what_is_behind_it_is_judged(before, activation, ids, tmp_path):
    text = NETWORK.replace("BEFORE", before).replace("BEHIND", "pass").replace("ACTIVATION", activation)
    result = check_text(text, tmp_path)["FeedForward"]
    assert (result.verdict, result.ids) == ("mistake", ["LN8", *ids]), result
    repaired = f"With line {result.mistakes[0].line} repaired"
    assert all(one.evidence.startswith(repaired) for one in result.mistakes[1:])
    assert any(limit.startswith(repaired) for limit in result.limits) or ids
    shown = result.mistakes[0]
    line = shown.shown
    assert before.strip() in line if before.startswith("super") else "def __init__" in line
    assert not any("nn.Module.__init__" in one for named in result.mistakes for one in (*named.code, *named.put))


def test_a_call_that_comes_too_late_comes_first(tmp_path):
    late = NETWORK.replace("BEFORE", "pass").replace("BEHIND", "super().__init__()").replace("ACTIVATION", "torch.tanh")
    assert check_text(late, tmp_path)["FeedForward"].ids == ["LN8", "B8"]


OF_ANOTHER = """
class Sized(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.d_model = d_model

"""


def test_what_a_base_is_to_be_told_nobody_knows(tmp_path):
    text = NETWORK.replace("(nn.Module)", "(Sized)").replace("BEFORE", "pass").replace("BEHIND", "pass")
    result = check_text(OF_ANOTHER + text.replace("ACTIVATION", "torch.tanh"), tmp_path)["FeedForward"]
    assert result.ids == ["LN8"] and not any("repaired" in limit for limit in result.limits)


@pytest.mark.parametrize("before, told, put", [
    ("super().__init__(d_model, d_ff)", "d_model, d_ff", "super().__init__()"),
    ("super(FeedForward, self).__init__(width=d_ff)", "width=d_ff", "super(FeedForward, self).__init__()"),
    ("nn.Module.__init__(self, d_model)", "d_model", "nn.Module.__init__(self)"),
])  # fmt: skip
@pytest.mark.parametrize("activation, ids", [("torch.relu", []), ("torch.tanh", ["B8"])])
def test_what_nn_module_is_told_in_vain_is_left_out(before, told, put, activation, ids, tmp_path):
    text = NETWORK.replace("BEFORE", before).replace("BEHIND", "pass").replace("ACTIVATION", activation)
    result = check_text(text, tmp_path)["FeedForward"]
    assert (result.verdict, result.ids) == ("mistake", ["B26", *ids]), result
    named = result.mistakes[0]
    assert f"It hands {told} to nn.Module's constructor, which takes nothing" in named.evidence
    assert before in named.shown and [line.strip() for line in named.put] == [put]


def test_it_is_named_whoever_watches_that_constructor(tmp_path, monkeypatch):
    """As torch.compile does from its first use on."""
    original = nn.Module.__init__
    monkeypatch.setattr(nn.Module, "__init__", lambda self, *args, **named: original(self, *args, **named))
    text = NETWORK.replace("BEFORE", "super().__init__(width=d_ff)").replace("BEHIND", "pass")
    assert check_text(text.replace("ACTIVATION", "torch.relu"), tmp_path)["FeedForward"].ids == ["B26"]


@pytest.mark.parametrize("told", ["d_model", "*(d_model,)"])
def test_another_base_may_take_what_it_is_told(told, tmp_path):
    before = f"super().__init__({told})"
    text = NETWORK.replace("(nn.Module)", "(Sized)").replace("BEFORE", before).replace("BEHIND", "pass")
    results = check_text(OF_ANOTHER + text.replace("ACTIVATION", "torch.relu"), tmp_path)
    assert results["FeedForward"].verdict == "matches the builtin"


@pytest.mark.long
def test_a_whole_is_judged_with_its_part_repaired(tmp_path):
    text = NETWORK.replace("BEFORE", "pass").replace("BEHIND", "pass").replace("ACTIVATION", "torch.tanh")
    layer = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attn, self.ff = nn.MultiheadAttention(d_model, num_heads, batch_first=True), FeedForward(d_model, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attn(x, x, x)[0])
        return self.norm2(self.ff(x))
"""
    layer = check_text(text + layer, tmp_path)["EncoderLayer"]
    assert "B13" in layer.ids and {"LN8", "B8"} <= {*layer.inherited}, layer
