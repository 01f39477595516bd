"""Trace and Point: found by name, printed, saved, as JSON."""

import base64
import json
import re

import numpy as np
import pytest
import torch
from safetensors import safe_open

from scratch_transformer import nn
from scratch_transformer.trace import to_document, trace


@pytest.fixture(scope="module")
def found():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)
    return trace(layer, torch.randn(2, 5, 12), src_mask=torch.ones(5, 5).triu(1).bool())


def test_by_name_by_number_and_in_order(found):
    point = found["self_attn.scores"]
    assert point.shape == (2, 3, 5, 5) and point.letters == ("B", "h", "S", "S") and point.module == "self_attn"
    assert point is found[found.names.index("self_attn.scores")] and next(iter(found)) is found[0]
    assert len(found[2:5]) == 3 and "norm2" in found and "norm3" not in found and point in found
    assert found["output"] is found["norm2"] is found[-1]


def test_a_name_that_is_not_there(found):
    with pytest.raises(KeyError, match=r"no 'self_attn.score' in this trace; is it self_attn.scores"):
        found["self_attn.score"]


def test_select(found):
    weights = found.select("*.weights")
    assert weights.names == ["self_attn.weights"] and weights["self_attn.weights"] is found["self_attn.weights"]
    assert len(found.select("nothing*")) == 0


def test_the_difference(found):
    assert 0 < found.difference < 1e-5
    assert found.difference == max(point.difference for point in found)
    point = found["linear1"]
    assert point.difference == (point.tensor.double() - point.torch.double()).abs().max().item()
    assert point.error == pytest.approx(point.difference / point.torch.abs().max().item())


def test_the_table_has_a_line_for_each(found):
    lines = str(found).splitlines()
    assert len(lines) == len(found) + 1 and lines[0].split()[0] == "name"
    (scores,) = (line for line in lines if line.startswith("self_attn.scores"))
    assert re.search(r"2 × 3 × 5 × 5 +B h S S +Q Kᵀ / √d_k +attention/naive\.py:\d+ +[\de-]+$", scores)
    assert "tensors" in repr(found)


def test_saved_and_read_again(found, tmp_path):
    found.save(tmp_path / "t.safetensors")
    with safe_open(tmp_path / "t.safetensors", "pt") as file:
        assert set(file.keys()) == {*found.names, *(f"torch/{name}" for name in found.names)}
        for point in found:
            assert file.get_tensor(point.name).equal(point.tensor)
            assert file.get_tensor(f"torch/{point.name}").equal(point.torch)
        described = json.loads(file.metadata()["trace"])
    assert [point["name"] for point in described["points"]] == found.names


def test_as_json(found):
    document = json.loads(json.dumps(to_document(found), allow_nan=False))
    assert document["format"] == "scratch_transformer.trace/1"
    assert [point["name"] for point in document["points"]] == found.names
    for point, entry in zip(found, document["points"], strict=True):
        assert entry["shape"] == list(point.shape) and entry["letters"] == list(point.letters)
        for values, tensor in ((entry["values"], point.tensor), (entry["torch"], point.torch)):
            assert np.array_equal(np.frombuffer(base64.b64decode(values), "<f4"), tensor.flatten().numpy())
        kind, source = document["kinds"][entry["kind"]], document["sources"][entry["source"]]
        assert (kind["equation"], kind["latex"], kind["sentence"]) == (point.equation, point.latex, point.sentence)
        assert source["lines"][entry["line"] - source["first_line"]].strip()
    assert document["points"][document["names"]["self_attn.heads"]]["name"] == "self_attn.heads"
    assert document["difference"] == found.difference


def test_as_json_without_numbers(found):
    entry = to_document(found, with_values=False, with_torch=False)["points"][0]
    assert "values" not in entry and "torch" not in entry


def test_what_differs_in_shape_is_null_with_a_flag():
    linear = nn.Linear(3, 4)
    found = trace(linear, torch.randn(2, 3), beside=torch.nn.Linear(3, 5))
    assert found.difference == float("inf")
    document = json.loads(json.dumps(to_document(found), allow_nan=False))
    assert document["points"][0]["difference"] is None and document["points"][0]["differs"] is True


@pytest.mark.parametrize(
    ("make", "inputs", "name", "letters"),
    [
        (lambda: nn.MultiheadAttention(12, 3), [(5, 2, 12), (7, 2, 12), (7, 2, 12)], "scores", "B h T S"),
        (lambda: nn.MultiheadAttention(12, 3), [(5, 2, 12), (7, 2, 12), (7, 2, 12)], "joined", "T B d_model"),
        (lambda: nn.TransformerDecoderLayer(12, 3, 17), [(5, 2, 12), (7, 2, 12)], "multihead_attn.key", "B h S d_k"),
        (lambda: nn.TransformerDecoderLayer(12, 3, 17), [(5, 2, 12), (7, 2, 12)], "linear1", "T B d_ff"),
        (lambda: nn.TransformerDecoderLayer(12, 3, 17), [(5, 12), (7, 12)], "linear1", "T d_ff"),
        (lambda: nn.Linear(12, 17), [(2, 5, 12)], "output", "*"),
    ],
)
def test_letters(make, inputs, name, letters):
    found = trace(make(), *(torch.randn(shape) for shape in inputs))
    assert found[name].letters == tuple(letters.split())
