"""The fix of a name that nothing defines: the one like it that is set, or an import of what stands beside the file."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text, reported

NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.expand, self.shrink = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.{}(torch.relu(self.expand(x)))
"""


@pytest.mark.parametrize("name, meant", [("shrnk", "self.shrink"), ("contract", "")])
def test_an_attribute_like_it(name, meant, tmp_path):
    (named,) = check_text(NETWORK.format(name), tmp_path)["FeedForward"].mistakes
    assert named.id == "B26" and named.form == f"self.{name}"
    expected = f"{meant}, which is set, in place of self.{name}, if that is what is meant."
    assert (named.fix == expected) if meant else "which is set" not in named.fix


LAYER = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.network = FeedForward(d_model, d_ff)
        self.first, self.second = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.first(x + self.attention(x, x, x)[0])
        return self.second(x + self.network(x))
"""


@pytest.mark.parametrize(
    "own, package, meant",
    [
        ("", False, "from parts import FeedForward"),
        ("", True, "from .parts import FeedForward"),
        ("from model.masks import causal\n", True, "from model.parts import FeedForward"),
        ("from masks import causal\n", True, "from parts import FeedForward"),
    ],
)
@pytest.mark.long
def test_what_a_file_beside_it_defines(own, package, meant, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    if package:
        (folder / "__init__.py").write_text("")
    (folder / "masks.py").write_text("import torch\n\n\ndef causal(T):\n    return torch.ones(T, T).tril()\n")
    (folder / "parts.py").write_text(IMPORTS + NETWORK.format("shrink"))
    (folder / "layer.py").write_text(IMPORTS + own + LAYER)
    (result,) = reported(folder / "layer.py").results
    (named,) = result.mistakes
    assert (named.id, named.form) == ("B26", "FeedForward")
    assert named.fix == f"{meant}, at the beginning of the file."


def test_all_names_of_a_function_that_are_absent_are_said(tmp_path):
    text = LAYER.replace("nn.LayerNorm(d_model), nn", "OwnNorm(d_model), nn")
    (named,) = check_text(text, tmp_path)["EncoderLayer"].mistakes
    assert "It uses FeedForward, which nothing in its file defines or imports; nor OwnNorm." in named.evidence


HELD = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.register_buffer("network", FeedForward(d_model, d_ff))
        self.first, self.second = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.first(x + self.attention(x, x, x)[0])
        return self.second(x + self.network(x))
"""


def test_a_module_is_no_buffer(tmp_path):
    (named,) = check_text(NETWORK.format("shrink") + HELD, tmp_path)["EncoderLayer"].mistakes
    assert (named.id, named.form) == ("B26", "network")
    assert named.fix.startswith("self.network = FeedForward(…): a buffer is a tensor")


STACK = """
class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.layers = nn.ModuleList({})

    def {}(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
LISTS = "[EncoderLayer(d_model, num_heads, d_ff)] for _ in range(num_layers)"


@pytest.mark.parametrize(
    "name, listed, lines",
    [
        ("foward", LISTS, ["self.layers = nn.ModuleList(", "def foward("]),
        ("foward", f"[{LISTS.replace('[', '').replace(']', '')}]", ["def foward("]),
        ("forward", LISTS, ["self.layers = nn.ModuleList("]),
    ],
)
def test_what_stops_in_the_constructor_is_told_beside_a_misspelt_forward(name, listed, lines, tmp_path):
    text = NETWORK.format("shrink") + LAYER + STACK.format(listed, name)
    result = check_text(text, tmp_path)["Encoder"]
    shown = [named.shown.strip() for named in result.mistakes]
    assert (result.verdict, {named.id for named in result.mistakes}) == ("mistake", {"B26"})
    assert len(shown) == len(lines) and all(map(str.startswith, shown, lines))
    if listed == LISTS:
        assert "its constructor stops with TypeError: list is not a Module subclass" in result.problem
        assert "modules: nn.ModuleList([Layer(…) for _ in range(n)])" in result.mistakes[0].fix
