"""What a module that cannot be called shows all the same: layers in a list (B10), parts made in forward (B21)."""

import importlib
import sys

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.judge import uncomputed
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.report.lines import Said, place

pytestmark = pytest.mark.long

STOPS = """
class Stack(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.last = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.last(x)


class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, num_layers):
        super().__init__()
        self.layers = LAYERS
        self.width, self.norm = d_model, nn.LayerNorm(d_model)

    def forward(self, x):
        x = MADE(x)
        for layer in self.layers:
            x = layer(x)
        if x.shape[1] > 0:
            raise RuntimeError("sentences without words are asked for")
        return self.norm(x)
"""
MODULES = "nn.ModuleList([nn.TransformerEncoderLayer(d_model, num_heads) for _ in range(num_layers)])"


@pytest.mark.parametrize("layers, made, ids", [
    (MODULES, "self.norm", []), (MODULES, "nn.Dropout(0.1)", []),
    (MODULES.removeprefix("nn.ModuleList(").removesuffix(")"), "self.norm", ["B10"]),
    (MODULES, "nn.Linear(self.width, self.width)", ["B21"]), (MODULES, "Stack(self.width)", ["B21"]),
])  # fmt: skip
def test_what_cannot_be_called_shows_its_lists_and_what_it_makes_anew(layers, made, ids, tmp_path):
    result = check_text(STOPS.replace("LAYERS", layers).replace("MADE", made), tmp_path)["Encoder"]
    assert ([m.id for m in result.mistakes], result.verdict) == (ids, "mistake" if ids else "crashed")
    assert "without words" in result.problem
    assert ids != ["B21"] or made in result.mistakes[0].code[2]


def test_what_stops_for_a_reason_that_is_named_shows_its_lists_too(tmp_path):
    layers = MODULES.removeprefix("nn.ModuleList(").removesuffix(")")
    text = (
        STOPS.replace("LAYERS", layers).replace("MADE", "self.norm").replace("return self.norm(", "return self.nrom(")
    )
    result = check_text(text.replace("> 0", "< 0"), tmp_path)["Encoder"]
    assert [mistake.id for mistake in result.mistakes] == ["B26", "B10"]


BUILD = """
def build_model(d_model):
    embed = nn.Linear(d_model, d_model)
    norm = nn.LayerNorm(d_model)
    SECOND
    return nn.Sequential(embed, norm)
"""


@pytest.mark.parametrize("second, lost", [
    ("width = d_model", []), ("norm = nn.Sequential(norm, norm)", []), ("norm = nn.Dropout(0.1)", ["norm"]),
    ("embed = nn.Dropout(0.1)", ["embed"]), ("if d_model > 7:\n        norm = nn.Dropout(0.1)", []),
])  # fmt: skip
def test_what_a_factory_makes_and_gives_another_part_the_name_of(second, lost, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "makes_parts.py").write_text(IMPORTS + BUILD.replace("SECOND", second), encoding="utf-8")
    function = importlib.import_module("makes_parts").build_model
    sys.modules.pop("makes_parts")
    found = list(uncomputed.overwritten(function))
    assert [one.form for one in found] == lost
    assert all(one.evidence.endswith(f"{DONE_AT}{second}") for one in found)
    places = [place("B30", one.form, function, said=Said(second)).line for one in found]
    assert places == [11 for name in lost]  # where it loses its name


SCALES = """
class Attention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.scale_q = MADE
        self.out, self.table = nn.Linear(d_model, d_model), torch.zeros(d_model)

    def forward(self, x):
        q = x * self.scale_q + self.table
        return self.out((q @ x.transpose(1, 2)).softmax(-1) @ x)
"""


@pytest.mark.parametrize("made, is_kept", [
    ("torch.randn(\n            d_model, requires_grad=True)", False), ("torch.randn(d_model)", True),
    ("nn.Parameter(torch.randn(d_model, requires_grad=True))", True),
    ("torch.randn(1, requires_grad=True)\n        self.scale_q = nn.Parameter(torch.ones(1))", True),
])  # fmt: skip
def test_a_tensor_that_is_to_be_trained_and_no_parameter_is_named(made, is_kept, tmp_path, monkeypatch):
    (tmp_path / "scales.py").write_text(IMPORTS + SCALES.replace("MADE", made))
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("scales", None)
    found = list(uncomputed.of_parts(importlib.import_module("scales").Attention(6)))
    assert [one.mistake.id for one in found] == ["B10"] * (not is_kept)
    assert all("It does so at: self.scale_q = torch.randn(" in one.evidence for one in found)


MOVED = """
class PositionalEmbedding(nn.Module):
    def __init__(self, max_len, d_model, device="cpu"):
        super().__init__()
        self.pos = nn.Parameter(torch.zeros(1, max_len, d_model))HOW

    def forward(self, x):
        return x + self.pos[:, : x.size(1)]
"""


@pytest.mark.parametrize("how, is_lost", [
    (".to(device)", True), (".to(torch.device(device))", True),
    ('.to("cpu")', False), (".to(torch.float64)", False), ("", False),
])  # fmt: skip
def test_a_parameter_that_is_moved_where_it_is_made_is_none_on_a_gpu(how, is_lost, tmp_path):
    text = MOVED.replace("HOW", how)
    result = check_text(text, tmp_path)["PositionalEmbedding"]
    assert ("B10" in result.ids) == is_lost, result
    if is_lost:
        (named,) = (one for one in result.mistakes if one.id == "B10")
        assert [line.strip() for line in named.put] == ["self.pos = nn.Parameter(torch.zeros(1, max_len, d_model))"]


def test_what_is_moved_is_no_parameter():
    parameter = nn.Parameter(torch.zeros(2))
    assert parameter.to("cpu") is parameter
    assert not isinstance(parameter.to("meta"), nn.Parameter)  # as on a GPU


NORM_OF_A_VECTOR = """
class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.eps, self.width = eps, width
        self.gain = MADE

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.gain
"""


@pytest.mark.parametrize(
    "made, ids",
    [
        ("torch.ones(width)", ["B10"]),
        ("torch.randn(width)", ["B10", "LN13"]),
        ("nn.Parameter(torch.ones(width))", []),
        ("nn.Buffer(torch.ones(width))", []),
    ],
)
def test_a_scale_that_is_a_plain_vector_is_learned_by_nobody(made, ids, tmp_path):
    result = check_text(NORM_OF_A_VECTOR.replace("MADE", made), tmp_path)["RMSNorm"]
    assert sorted(result.severe) == ids and not result.unexplained, result
    assert [named.shown.strip() for named in result.mistakes if named.id in ids] == [f"self.gain = {made}"] * len(ids)
