"""What stops with a misspelling (B26) is judged with that repaired, where it can be repaired in one way alone."""

import json
import re

import pytest

from reference_tests.kit.learners.checked import IMPORTS, WORDS, check_text, reported
from scratch_transformer.kit.report.words import explanation

pytestmark = pytest.mark.long

NORM = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.gamma * (x - mean) / (std + self.eps) + self.beta
"""
NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, hidden_dim, dropout=0.1):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.fc_in = nn.Linear(d_model, hidden_dim)
        self.fc_out = nn.Linear(hidden_dim, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.dropout(torch.relu(self.fc_in(x)))
        return torch.relu(self.fc_out(hidden))
"""
ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.q_proj, self.k_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v_proj, self.out_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def split_heads(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k = self.split_heads(self.q_proj(query)), self.split_heads(self.k_proj(key))
        v = self.split_heads(self.v_proj(value))
        scores = q @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = torch.softmax(scores, dim=-1) @ v
        return self.out_proj(out.transpose(1, 2).reshape(query.size(0), query.size(1), -1))
"""
OWN = {
    "LayerNorm": (NORM, ["LN1", "LN2"]),
    "FeedForward": (NETWORK, ["B17"]),
    "MultiHeadAttention": (ATTENTION, ["A1"]),
}

REPAIRED = [
    ("LayerNorm", "x.std(-1, keepdim", "x.std(-1, keep_dim"),
    ("LayerNorm", "x.std(-1, keepdim", "torch.std(x, -1, keep_dim"),
    ("LayerNorm", "x.mean(", "x.maen("),
    ("LayerNorm", "/ (std + self.eps)", "/ (std + self.epsilon)"),
    ("LayerNorm", "/ (std + self.eps)", "/ (sdt + self.eps)"),
    ("LayerNorm", "def forward", "def foward"),
    ("LayerNorm", "def __init__", "def __int__"),
    ("LayerNorm", "(x - mean)", "(X - mean)"),
    ("LayerNorm", "nn.Parameter(torch.ones", "nn.parameter(torch.ones"),
    ("LayerNorm", "nn.Parameter(torch.ones", "nn.Parameter(torch.onse"),
    ("FeedForward", "nn.Linear(d_model, hidden_dim)", "nn.linear(d_model, hidden_dim)"),
    ("FeedForward", "nn.Linear(d_model, hidden_dim)", "nn.Linear(embed_dim, hidden_dim)"),
    ("FeedForward", "nn.Linear(d_model, hidden_dim)", "Linear(d_model, hidden_dim)"),
    ("FeedForward", "nn.Linear(d_model, hidden_dim)", "nn.Linear(d_model, hiddne_dim)"),
    ("FeedForward", "nn.Linear(d_model, hidden_dim)", "nn.Linear(d_model, self.d_model)"),
    ("FeedForward", "nn.Linear(d_model, hidden_dim)", "nn.Linear(d_model, hidden_dim, bais=True)"),
    ("FeedForward", "self.dropout(", "self.drop(", "self.dropout("),
    ("FeedForward", "self.fc_in(x)", "self.fcin(x)"),
    ("FeedForward", "self.dropout(torch", "dropout(torch"),
    ("FeedForward", "torch.relu(self.fc_in", "F.rleu(self.fc_in"),
    ("MultiHeadAttention", "self.num_heads, self.head_dim)", "self.n_heads, self.head_dim)"),
    ("MultiHeadAttention", "self.num_heads, self.head_dim)", "num_heads, self.head_dim)"),
    ("MultiHeadAttention", "self.split_heads(self.v_proj", "self.split_head(self.v_proj"),
    ("MultiHeadAttention", "k.transpose(", "k.tranpose("),
    ("MultiHeadAttention", "x.size(0)", "x.shape(0)"),
    ("MultiHeadAttention", "x.size(1)", "x.size[1]"),
    ("MultiHeadAttention", "mask == 0", "maks == 0"),
    ("MultiHeadAttention", "self.k_proj(key)", "self.key_proj(key)"),
    ("MultiHeadAttention", "self.num_heads, self.head_dim)", "self.num_heads, self.d_k)"),
    ("MultiHeadAttention", "self.out_proj(out", "self.outproj(out"),
]


def judged(name, text, tmp_path):
    return check_text(text, tmp_path)[name]


@WORDS
@pytest.mark.parametrize("name, right, wrong", [row[:3] for row in REPAIRED], ids=[row[2] for row in REPAIRED])
def test_what_is_behind_a_misspelling(name, right, wrong, tmp_path):
    text, ids = OWN[name]
    assert text.count(right) >= 1
    wrong_text = text.replace(right, wrong, 1)
    result = judged(name, wrong_text, tmp_path)
    stop, *behind = result.mistakes
    assert (result.verdict, stop.id, stop.severity) == ("mistake", "B26", "mistake"), result
    line = stop.shown
    (own,) = {line for line in wrong_text.splitlines() if wrong in line}
    assert line == own and stop.put and stop.put != [own]
    assert set(ids) <= {found.id for found in behind}, [found.id for found in behind]
    assert all(found.evidence.startswith(f"With line {stop.line} repaired: ") for found in behind)


NOT_REPAIRED = [
    ("MultiHeadAttention", "self.k_proj(key)", "self.project(key)"),
    ("FeedForward", "self.fc_in(x)", "self.fc1(x)"),
    ("FeedForward", "self.fc_in(x)", "self.fc(x)"),  # fc_in and fc_out
    ("FeedForward", "self.fc_out(hidden)", "self.activation(hidden)"),
    ("FeedForward", "nn.Linear(d_model, hidden_dim)", "nn.Linear(d_model, inputs)"),  # not Python's input
    ("LayerNorm", "(x - mean)", "(x - mu)"),
    ("LayerNorm", "/ (std + self.eps)", "/ (deviation + self.eps)"),
    ("LayerNorm", "self.gamma *", "self.beta2 *"),
    ("LayerNorm", "x.mean(-1, keepdim=True)", "x.mean(-1, keepdim=True, biased=False)"),
]


@WORDS
@pytest.mark.parametrize("name, right, wrong", NOT_REPAIRED, ids=[row[2] for row in NOT_REPAIRED])
def test_where_several_could_be_meant_or_none_is_alike_nothing_is_repaired(name, right, wrong, tmp_path):
    result = judged(name, OWN[name][0].replace(right, wrong, 1), tmp_path)
    assert result.severe == ["B26"]
    assert not result.mistakes[0].put
    assert "What comes behind the line at which it stops was not judged." in result.limits


@pytest.mark.parametrize("more, id", [
    ("hiddne_dim = 64\n", ""),
    ("def use_wide_layers():\n    global hiddne_dim\n    hiddne_dim = 64\n", ""),
    ("", "B26"),
])  # fmt: skip
def test_a_name_that_the_file_sets_elsewhere_is_no_misspelling(more, id, tmp_path):
    text = PLAIN.replace("nn.Linear(d_model, hidden_dim)", "nn.Linear(d_model, hiddne_dim)")
    text = text.replace("nn.Linear(hidden_dim", "nn.Linear(hiddne_dim")
    result = judged("FeedForward", text + "\n\n" + more, tmp_path)
    assert [found.id for found in result.mistakes if found.id == "B26"] == ([id] if id else []), result
    assert any(found.fix.startswith("hidden_dim in place of hiddne_dim") for found in result.mistakes) == bool(id)


def test_two_locals_alike_are_none(tmp_path):
    text = NETWORK.replace("hidden = self", "hidden = hiddns = self").replace("fc_out(hidden)", "fc_out(hiddn)")
    result = judged("FeedForward", text, tmp_path)
    assert [found.id for found in result.mistakes] == ["B26"] and not result.mistakes[0].put


def test_two_parts_that_nothing_uses_are_none(tmp_path):
    """One name that is read twice and not set, and two that are set and not read."""
    text = ATTENTION.replace("self.k_proj(key)", "self.kv_proj(key)").replace(
        "self.v_proj(value)", "self.kv_proj(value)"
    )
    result = judged("MultiHeadAttention", text, tmp_path)
    assert result.severe == ["B26"]
    assert not result.mistakes[0].put


def test_one_part_and_two_names_that_nothing_sets(tmp_path):
    text = NETWORK.replace("self.fc_in(x)", "self.feed_fc_in(x)").replace(
        "self.fc_out(hidden)", "self.pre_fc_in(hidden)"
    )
    result = judged("FeedForward", text.replace("self.fc_out =", "self.last ="), tmp_path)
    assert result.verdict == "mistake" and not any(found.put for found in result.mistakes)


def test_three_misspellings_one_after_the_other(tmp_path):
    text = NORM.replace("nn.Parameter(torch.ones", "nn.Paramter(torch.ones").replace("self.eps)", "self.epss)")
    text = text.replace("def forward", "def foward")
    result = judged("LayerNorm", text, tmp_path)
    assert result.severe == ["B26", "B26", "B26", "LN1", "LN2"]
    last = result.mistakes[-1]
    assert last.evidence.startswith("With lines 15 and 11 and 18 repaired: ")
    shown = [line for found in result.mistakes for line in found.code]
    assert {line for line in text.splitlines() if "Paramter(" in line or "epss" in line} <= {*shown}
    assert not any("Parameter(torch.ones" in line or "self.eps)" in line for line in shown)  # that nobody wrote


def test_two_misspellings_in_a_line(tmp_path):
    text = NORM.replace("x.std(-1, keepdim", "x.sdt(-1, keep_dim")
    result = judged("LayerNorm", text, tmp_path)
    assert result.severe == ["B26", "B26", "LN1", "LN2"]
    puts = [found.put[0].strip() for found in result.mistakes[:2]]
    assert puts == ["std = x.std(-1, keep_dim=True)", "std = x.std(-1, keepdim=True)"]
    lines = {line for found in result.mistakes for line in found.code}
    assert lines <= {line.rstrip() for line in (IMPORTS + text).splitlines()}  # the learner's own


def test_both_are_shown_in_the_learners_line(tmp_path):
    result = judged("LayerNorm", NORM.replace("std = x.std(-1, keepdim", "std = x.std(-1, keep_dim"), tmp_path)
    said = "\n".join(explanation(result))
    assert (
        "    -   17          std = x.std(-1, keep_dim=True)\n    +               std = x.std(-1, keepdim=True)\n"
        in said
    )
    assert "    +               std = x.std(-1, keepdim=True, unbiased=False)\n" in said
    shown = [line for line in said.splitlines() if re.match(r"    [ >-] +\d+  ", line)]
    assert len(shown) > 10 and not any("std(-1, keepdim" in line for line in shown)  # which nobody wrote


LAYER = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, hidden_dim, dropout=0.1):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.network = FeedForward(d_model, hidden_dim, dropout)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(self.network(x))
"""
MISTAKES = ["B13", "B6"]
"""What is wrong in it: no residual connection, no dropout."""
RIGHT = ATTENTION.replace("(-2, -1)\n", "(-2, -1) / math.sqrt(self.head_dim)\n")
PLAIN = NETWORK.replace("torch.relu(self.fc_out(hidden))", "self.fc_out(hidden)")


def test_a_layer_is_judged_with_its_repaired_part(tmp_path):
    """It has the part's mistake in brackets, and its own."""
    broken = RIGHT.replace("self.out_proj(out", "self.outproj(out")
    results = check_text(broken + PLAIN + LAYER, tmp_path)
    part, layer = results["MultiHeadAttention"], results["EncoderLayer"]
    assert part.severe == ["B26"]
    assert part.verdict == "mistake" and "With line 25 repaired, what is left is harmless." in part.limits
    assert layer.severe == MISTAKES
    assert (layer.verdict, layer.replaced) == ("mistake", []) and "B26" in layer.inherited


def test_a_layer_without_a_mistake_of_its_own_has_its_parts(tmp_path):
    broken = RIGHT.replace("self.out_proj(out", "self.outproj(out")
    right = LAYER.replace("x + self.attention(x, x, x, mask)", "x + self.dropout(self.attention(x, x, x, mask))")
    right = right.replace("(self.network(x))", "(x + self.dropout(self.network(x)))")
    layer = check_text(broken + PLAIN + right, tmp_path)["EncoderLayer"]
    assert layer.severe == []
    assert layer.verdict == "mistake" and "B26" in layer.inherited


HELPER = """
def to_heads(x, num_heads):
    return x.view(x.size(0), x.size(1), num_heads, -1).transpsoe(1, 2)

"""


def test_what_stops_in_a_helper_is_named_in_all_that_use_it(tmp_path):
    own = RIGHT.replace(
        "x.view(x.size(0), x.size(1), self.num_heads, self.head_dim).transpose(1, 2)", "to_heads(x, self.num_heads)"
    )
    results = check_text(HELPER + own + PLAIN + LAYER, tmp_path)
    (first,) = [found for found in results["MultiHeadAttention"].mistakes if found.severity == "mistake"]
    assert (first.id, first.line, first.put[0].strip()) == (
        "B26",
        9,
        HELPER.splitlines()[2].replace("soe", "ose").strip(),
    )
    assert "B26" in results["EncoderLayer"].inherited
    assert results["EncoderLayer"].severe == MISTAKES


@pytest.mark.parametrize("wrong, right", [("n_heads=heads", "num_heads=heads"), ("numheads=heads", "num_heads=heads")])
def test_an_argument_of_the_learners_own_class(wrong, right, tmp_path):
    layer = LAYER.replace("num_heads, hidden", "heads, hidden").replace(
        "MultiHeadAttention(d_model, num_heads)", f"MultiHeadAttention(d_model, {wrong})"
    )
    result = check_text(RIGHT + PLAIN + layer, tmp_path)["EncoderLayer"]
    assert result.severe == ["B26", *MISTAKES]
    assert right in result.mistakes[0].put[0]


@pytest.mark.parametrize(
    "name, more, is_one",
    [
        ("SelfAttention", "", True),
        ("CrossAttention", "", False),
        ("SelfAttention", "\n\ndef made():\n    return MultiHeadAttention(8, 2)\n", False),
    ],
)
def test_the_only_attention_of_a_file_that_nothing_uses_is_meant(name, more, is_one, tmp_path):
    layer = LAYER.replace("MultiHeadAttention(", f"{name}(")
    result = check_text(RIGHT + PLAIN + layer + more, tmp_path)["EncoderLayer"]
    assert result.severe == (["B26", *MISTAKES] if is_one else ["B26"])
    assert ("MultiHeadAttention(" in "".join(result.mistakes[0].put)) == is_one


@pytest.mark.parametrize("read, shown", [
    ("self.eps", ["        self.eps = eps", "        self.gamma = nn.Parameter(torch.ones(d_model))"]),
    ("eps", ["        return self.gamma * (x - mean) / (std + self.eps) + self.beta"]),
])  # fmt: skip
def test_what_the_constructor_is_given_and_does_not_keep(read, shown, tmp_path):
    text = NORM.replace("        self.eps = eps\n", "").replace("std + self.eps", f"std + {read}")
    result = judged("LayerNorm", text, tmp_path)
    assert result.severe == ["B26", "LN1", "LN2"]
    assert result.mistakes[0].put == shown and result.mistakes[0].fix.startswith("self.eps = eps in __init__")
    lines = {line for found in result.mistakes for line in found.code}
    assert lines <= {line.rstrip() for line in (IMPORTS + text).splitlines()}  # the learner's own


def test_a_part_that_is_called_is_no_number_that_is_not_kept(tmp_path):
    text = NETWORK.replace("self.dropout = nn.Dropout(dropout)", "self.rate = dropout").replace(
        "hidden = self.dropout(torch", "hidden = self.dropout(torch"
    )
    result = judged("FeedForward", text, tmp_path)
    assert [found.id for found in result.mistakes] == ["B26"] and not result.mistakes[0].put


# ---- Files beside ----


def folder_of(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(IMPORTS + text)
    found = reported(tmp_path / "layer.py")
    return {result.name: result for result in found.results}


def test_what_one_file_beside_it_defines_is_imported(tmp_path):
    result = folder_of(tmp_path, attention=RIGHT, network=PLAIN, layer=LAYER)["EncoderLayer"]
    named = [(found.id, found.fix) for found in result.mistakes if found.severity == "mistake"]
    assert named[:2] == [
        ("B26", "from attention import MultiHeadAttention, at the beginning of the file."),
        ("B26", "from network import FeedForward, at the beginning of the file."),
    ]
    assert [id for id, _ in named[2:]] == MISTAKES
    assert result.mistakes[-1].evidence.startswith("With MultiHeadAttention and FeedForward imported: ")
    before = (tmp_path / "layer.py").read_text()
    assert before == IMPORTS + LAYER


def test_what_two_files_beside_it_define_is_not(tmp_path):
    result = folder_of(tmp_path, attention=RIGHT, other=RIGHT, network=PLAIN, layer=LAYER)["EncoderLayer"]
    assert result.severe == ["B26"]
    assert "What comes behind the line at which it stops was not judged." in result.limits


def test_what_another_file_defines_and_this_one_something_like_it_is_not(tmp_path):
    layer = RIGHT + LAYER.replace("MultiHeadAttention(", "SelfAttention(")
    own = {"attention": RIGHT.replace("MultiHeadAttention", "SelfAttention"), "layer": PLAIN + layer}
    result = folder_of(tmp_path, **own)["EncoderLayer"]
    assert result.severe == ["B26"]
    assert result.mistakes[0].fix == "from attention import SelfAttention, at the beginning of the file."


def test_each_class_that_lacks_the_import_is_told(tmp_path):
    two = LAYER.replace("(self.network", "(x + self.network") + LAYER.replace("EncoderLayer", "TransformerBlock")
    results = folder_of(tmp_path, attention=RIGHT + PLAIN, layer=two)
    for name in ("EncoderLayer", "TransformerBlock"):
        assert [found.id for found in results[name].mistakes][:2] == ["B26", "B26"], results[name]


def test_a_part_of_another_file_that_is_misspelt(tmp_path):
    imports = "from attention import MultiHeadAttention\nfrom network import FeedForward\n"
    broken = RIGHT.replace("k.transpose(", "k.tranpose(")
    result = folder_of(tmp_path, attention=broken, network=PLAIN, layer=imports + LAYER)["EncoderLayer"]
    first = result.mistakes[0]
    assert (first.id, first.where.partition(":")[0]) == ("B26", "attention.py") and ".transpose(" in first.put[0]
    assert "B13" in [found.id for found in result.mistakes]


# ---- What is not judged ----


def test_what_forward_reads_is_told_beside_a_constructor_that_stops(tmp_path):
    text = NETWORK.replace("nn.Dropout(dropout)", "nn.Dropout(rate_of_it)").replace(
        "self.fc_out(hidden)", "self.shift(hidden)"
    )
    result = judged("FeedForward", text, tmp_path)
    said = [found.evidence for found in result.mistakes if found.id == "B26"]
    assert len(said) == 2 and "rate_of_it" in said[0] and "self.shift" in said[1]
    assert result.mistakes[1].shown.strip().startswith("return torch")


def test_notebooks_say_the_cell(tmp_path):
    cells = [IMPORTS, NORM.replace("std = x.std(-1, keepdim", "std = x.std(-1, keep_dim")]
    document = {"cells": [{"cell_type": "code", "source": text} for text in cells], "nbformat": 4}
    (tmp_path / "notes.ipynb").write_text(json.dumps(document))
    (result,) = reported(tmp_path / "notes.ipynb").results
    stop, first, *_ = result.mistakes
    assert (stop.id, stop.where, first.id) == ("B26", "notes.ipynb, cell 2, line 11", "LN1")
    assert first.evidence.startswith("With cell 2, line 11 repaired: ") and first.where == stop.where


# ---- Classes that Python cannot define ----


@pytest.mark.parametrize("head", ["nn.module", "nn.Modul", "nn.Module()", "Module"])
def test_a_class_that_cannot_be_defined_is_judged_with_its_head_repaired(head, tmp_path):
    other = "\n\nclass Norm(LayerNorm):\n    pass\n"
    results = folder_of(tmp_path, layer=NORM.replace("(nn.Module)", f"({head})") + other)
    stop, *behind = results["LayerNorm"].mistakes
    assert (stop.id, stop.line, stop.put) == ("B26", 8, ["class LayerNorm(nn.Module):"])
    assert stop.shown == f"class LayerNorm({head}):"
    assert [found.id for found in behind] == ["LN1", "LN2"]
    assert all(found.evidence.startswith("With line 8 repaired: ") for found in behind)
    assert results["Norm"].inherited == ["B26"]


# ---- Words ----


def test_the_fix_speaks_of_the_learners_names(tmp_path):
    result = judged("FeedForward", NETWORK.replace("self.fc_out(hidden)", "self.activation(hidden)"), tmp_path)
    assert result.mistakes[0].fix == (
        "Set self.activation in __init__, or read what is set there: "
        "self.hidden_dim, self.fc_in, self.fc_out, self.dropout."
    )
    result = judged("LayerNorm", NORM.replace("(x - mean)", "(x - mu)"), tmp_path)
    assert result.mistakes[0].fix == "Define mu before it is read, or read what forward is given: x."
