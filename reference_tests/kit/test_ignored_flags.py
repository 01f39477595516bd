"""B29 of flags that a constructor takes and that change nothing: norm_first, batch_first, bias, causal."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.construction import OTHER_THAN_ASKED, UNHEARD_FLAG
from scratch_transformer.kit.report.finding import FINE

LAYER = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, TOLD):
        super().__init__()
        self.told = NAME
        self.attn = nn.MultiheadAttention(d_model, num_heads, dropout=dropout, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.drop = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)

    def attend(self, x):
        return self.drop(self.attn(x, x, x)[0])

    def forward(self, x):
        if READ:
            x = x + self.attend(self.norm1(x))
            return x + self.drop(self.ff(self.norm2(x)))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.drop(self.ff(x)))
"""
POST, PRE, EITHER = "False", "True", "self.told"
OTHER, NOTHING = [(OTHER_THAN_ASKED, "mistake")], [(UNHEARD_FLAG, "harmless")]


def found_in(text, name, tmp_path):
    result = check_text(text, tmp_path)[name]
    shown = [one for one in result.mistakes if one.id == "B29"]
    assert all("def __init__" in one.shown for one in shown)
    assert result.verdict in FINE or any(one.severity == "mistake" for one in result.mistakes), result
    return [(one.form, one.severity) for one in shown]


@pytest.mark.parametrize(
    "told, read, expected",
    [
        ("norm_first=True", POST, OTHER),
        ("norm_first=False", PRE, OTHER),
        ("norm_first=False", POST, NOTHING),
        ("pre_norm: bool = True", PRE, NOTHING),
        ("pre_norm: bool = True", EITHER, []),
        ("return_weights=False", POST, []),
        ("norm_first='post'", POST, []),
    ],
)
def test_an_order_of_norms_that_is_told_is_to_be_the_order(told, read, expected, tmp_path):
    text = LAYER.replace("TOLD", told).replace("NAME", told.partition("=")[0].partition(":")[0]).replace("READ", read)
    assert found_in(text, "EncoderLayer", tmp_path) == expected


def test_an_order_that_a_call_of_the_file_asks_for_is_to_be_the_order(tmp_path):
    text = LAYER.replace("TOLD", "norm_first=False").replace("NAME", "norm_first").replace("READ", POST)
    assert found_in(f"{text}\nlayer = EncoderLayer(24, 3, 32, norm_first=True)\n", "EncoderLayer", tmp_path) == OTHER


STACK = """
class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, norm_first=True):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(nn.TransformerEncoderLayer(d_model, num_heads, d_ff, 0.0, batch_first=TrueHANDED))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.parametrize("handed, expected", [(", norm_first=norm_first", []), ("", OTHER)])
def test_what_is_told_an_order_is_to_hand_it_on(handed, expected, tmp_path):
    assert found_in(STACK.replace("HANDED", handed), "Encoder", tmp_path) == expected


def test_what_hands_a_flag_on_is_not_what_ignores_it(tmp_path):
    layer = LAYER.replace("TOLD", "norm_first=True").replace("NAME", "norm_first").replace("READ", POST)
    stack = STACK.replace("nn.TransformerEncoderLayer", "EncoderLayer").replace(
        " batch_first=TrueHANDED", " norm_first"
    )
    results = check_text(layer + stack, tmp_path)
    assert [results[name].ids for name in ("EncoderLayer", "Encoder")] == [["B29"], []]


ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, TOLD):
        super().__init__()
        assert d_model % num_heads == 0
        self.d_k, self.num_heads = d_model // num_heads, num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.told = KEPT

    def forward(self, xARGUMENT):
        FIRST
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        MASK
        out = self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return LAST
"""
HIDES = "scores = scores.masked_fill(torch.ones_like(scores).triu(1) == 1, -torch.inf)"
SWAPS = ("x = x if self.told else x.transpose(0, 1)", "out if self.told else out.transpose(0, 1)")
STAYS = ("pass", "out")


@pytest.mark.parametrize(
    "told, kept, swaps, expected",
    [
        ("batch_first=True", "batch_first", SWAPS, []),
        ("batch_first=True", "batch_first", STAYS, NOTHING),
        ("batch_first=True", "None", STAYS, NOTHING),
        ("causal=True", "causal", STAYS, NOTHING),
        ("is_causal=False", "None", STAYS, NOTHING),
    ],
)
def test_a_flag_of_attention_is_to_change_something(told, kept, swaps, expected, tmp_path):
    text = ATTENTION.replace("TOLD", told).replace("KEPT", kept).replace("ARGUMENT", "").replace("MASK", HIDES)
    text = text.replace("FIRST", swaps[0]).replace("LAST", swaps[1]).replace("MultiHead", "CausalSelf")
    assert found_in(text, "CausalSelfAttention", tmp_path) == expected


@pytest.mark.parametrize("argument, expected", [("", OTHER), (", mask=None", NOTHING)])
def test_a_flag_that_hides_nothing_asks_for_something_else(argument, expected, tmp_path):
    text = ATTENTION.replace("TOLD", "causal=True").replace("KEPT", "None").replace("ARGUMENT", argument)
    masks = "scores = scores if mask is None else scores.masked_fill(mask == 0, -torch.inf)" if argument else ""
    text = text.replace("FIRST", STAYS[0]).replace("LAST", STAYS[1]).replace("MASK", masks)
    assert found_in(text, "MultiHeadAttention", tmp_path) == expected


def test_a_flag_that_only_counts_without_a_mask_is_listened_to(tmp_path):
    reads = "if self.told and mask is None:\n            mask = torch.ones_like(scores).tril()\n"
    masks = f"{reads}        if mask is not None:\n            scores = scores.masked_fill(mask == 0, -torch.inf)"
    text = ATTENTION.replace("TOLD", "causal=False").replace("KEPT", "causal").replace("MASK", masks)
    text = text.replace("ARGUMENT", ", mask=None").replace("FIRST", STAYS[0]).replace("LAST", STAYS[1])
    assert found_in(text, "MultiHeadAttention", tmp_path) == []


NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, bias=True):
        super().__init__()
        self.bias = bias
        self.wide, self.narrow = nn.Linear(d_model, d_ffGIVEN), nn.Linear(d_ff, d_modelGIVEN)

    def forward(self, x):
        return self.narrow(torch.relu(self.wide(x)))

class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5, bias=True):
        super().__init__()
        self.eps, self.weight, self.shift = eps, nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        KEPT

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        x = self.weight * x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps)
        return x if self.shift is None else x + self.shift
"""


@pytest.mark.parametrize(
    "given, kept, expected",
    [("", "self.bias = bias", NOTHING), (", bias=bias", "self.shift = self.shift if bias else None", [])],
)
@pytest.mark.parametrize("name", ["FeedForward", "LayerNorm"])
def test_what_is_told_to_have_no_biases_is_to_have_none(name, given, kept, expected, tmp_path):
    assert found_in(NETWORK.replace("GIVEN", given).replace("KEPT", kept), name, tmp_path) == expected
