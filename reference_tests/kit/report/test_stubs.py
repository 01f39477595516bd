"""The adapters to fill in: Python, with each weight and its shape, and short enough to be read."""

import ast
import re

import pytest

from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.report.stubs import stub


def weights_in(text):
    """Keys and shapes as a reader would spell them out."""
    layers = re.search(r"^ +# +N: (.+)$", text, re.MULTILINE)
    found = {}
    for line in re.findall(r"^ +# +weights\[(.*)$", text, re.MULTILINE):
        names = re.findall(r"'([^']+)'\]?: (\([\d, ]*\))", line)
        stem = names[0][0].removesuffix(".weight") if len(names) > 1 else ""
        for name, shape in names:
            key = stem + name if name.startswith(".") else name
            for number in layers[1].split(" and ") if ".N." in key else [""]:
                found[key.replace(".N.", f".{number}.")] = ast.literal_eval(shape)
    return found


@pytest.mark.parametrize("name", ["LayerNorm", "SelfAttention", "DecoderLayer", "DecoderOnly", "Transformer"])
def test_a_stub_lists_all_weights_with_their_shapes(name):
    kind = KINDS[name]
    text = stub(kind, "Mine", "my.module")
    expected = kind.build(kind.defaults, RIGHT.with_(kind.full)).state_dict()
    assert weights_in(text) == {key: tuple(values.shape) for key, values in expected.items()}
    (function,) = ast.parse(text).body
    assert [argument.arg for argument in function.args.args] == ["weights", *kind.inputs]
    assert len(text.splitlines()) < 60
