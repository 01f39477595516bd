"""A layer whose attention turns queries and keys if a flag says so: its mistakes are those that it has without one."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve import fitness
from scratch_transformer.kit.resolve.trials import choice

LAYER = """
def turned(x):
    first, second = x[..., ::2], x[..., 1::2]
    places, width = torch.arange(x.shape[-2], dtype=x.dtype), x.shape[-1]
    angles = places[:, None] / 10000 ** (torch.arange(0, width, 2, dtype=x.dtype) / width)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack((first * cos - second * sin, first * sin + second * cos), -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, dim, headsTOLD):
        super().__init__()
        self.heads, self.rotate = heads, ROTATE
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, xGIVEN):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        if FLAG:
            q, k = turned(q), turned(k)
        scores = q @ k.mT / x.shape[-1] ** 0.5
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, dim, heads, ff):
        super().__init__()
        self.attention = Attention(dim, heads)
        self.network = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Linear(ff, dim))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = self.norm1(x)
        x = x + self.attention(x)
        x = self.norm2(x)
        return x + self.network(x)
"""


@pytest.mark.parametrize("told, rotate, given, flag", [
    ("", "None", ", rotate=False", "rotate"), ("", "None", ", rotate=True", "rotate"),
    (", rotate=True", "rotate", "", "self.rotate"), ("", "None", "", "False"),
])  # fmt: skip
@pytest.mark.long
def test_mistakes_of_a_layer_and_of_its_attention_are_named_at_once(told, rotate, given, flag, tmp_path, monkeypatch):
    """And a layer that nothing masks is not first searched as one that hides the future, which takes all the time."""
    tried, resolve = [], choice.resolve

    def noted(thing, kind, library):
        tried.append((kind.name, library.thorough))
        return resolve(thing, kind, library)

    monkeypatch.setattr(choice, "resolve", noted)
    text = LAYER.replace("TOLD", told).replace("ROTATE", rotate).replace("GIVEN", given).replace("FLAG", flag)
    layer = check_text(text, tmp_path)["Block"]
    assert "B2" in layer.ids and "A1" in layer.inherited, layer
    assert not {("LlamaBlock", True), ("DecoderOnlyLayer", True)} & {*tried}


def test_what_speaks_of_masks_or_of_a_decoder_may_hide_the_future(tmp_path):
    names = {"Block": True, "MaskedBlock": False, "DecoderBlock": False, "GPTBlock": False}
    made = {name: type(name, (), {"forward": lambda self, x: x}) for name in names}
    made["Hides"] = type("Hides", (), {"forward": lambda self, x: x.tril()})
    for kind in ("LlamaBlock", "DecoderOnlyLayer"):
        found = {name: fitness.cannot_hide(KINDS[kind], one) for name, one in made.items()}
        assert found == {**names, "Hides": False}
    assert not fitness.cannot_hide(KINDS["EncoderLayer"], made["Block"])
