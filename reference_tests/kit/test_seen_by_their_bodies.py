"""What a class or function is seen to be by what it does, in whatever file its parts lie."""

import importlib

import pytest

from reference_tests.kit.learners.checked import IMPORTS
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve import guess

SCORES = """
def weigh(q, k, v):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
"""
SEVERAL = """
import scores_of_files


class Several(nn.Module):
    def __init__(self, n, d_model):
        super().__init__()
        self.n = n
        self.a, self.b, self.c, self.d = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, v, k, q):
        split = [f(x).unflatten(-1, (self.n, -1)).transpose(1, 2) for f, x in ((self.a, q), (self.b, k), (self.c, v))]
        return self.d(scores_of_files.weigh(*split).transpose(1, 2).flatten(2))
"""
LAYER = """
import several_of_files


class NAME(nn.Module):
    def __init__(self, n, d_model, ffn_dim):
        super().__init__()
        self.mix = several_of_files.Several(n, d_model)
        self.net = nn.Sequential(nn.Linear(d_model, ffn_dim), nn.ReLU(), nn.Linear(ffn_dim, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.mix(x, x, x))
        return self.norm2(x + self.net(x))
"""


@pytest.mark.parametrize("name", ["EncoderLayer", "ResidualLayer", "Block"])
def test_a_layer_attends_by_what_functions_of_other_files_do(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    texts = {"scores_of_files": SCORES, "several_of_files": SEVERAL, f"{name}_of_files": LAYER.replace("NAME", name)}
    for module, text in texts.items():
        (tmp_path / f"{module}.py").write_text(IMPORTS + text)
    layer = getattr(importlib.import_module(f"{name}_of_files"), name)
    assert "FeedForward" not in guess.kinds_of(name, layer, KINDS)


def test_what_is_called_an_encoder_layer_is_no_network_though_nothing_in_it_attends():
    text = LAYER.replace("several_of_files.Several(n, d_model)", "nn.Linear(d_model, d_model)")
    text = text.replace("self.mix(x, x, x)", "self.mix(x)").replace("import several_of_files", "")
    for name, is_one in (("NetLayerBlock", True), ("EncoderLayer", False), ("TransformerBlock", False)):
        names = {"__name__": "of_names"}
        exec(IMPORTS + text.replace("NAME", name), names)
        assert ("FeedForward" in guess.kinds_of(name, names[name], KINDS)) == is_one
