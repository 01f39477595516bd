"""What is wrong with a block's dropout is nothing in a model that leaves it at 0 and takes none."""

import pytest

from reference_tests.kit.learners.checked import check_here
from reference_tests.kit.learners.corpus import STYLES

pytestmark = pytest.mark.long

BLOCK = """
import math

import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.mT / math.sqrt(q.size(-1))
        future = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.heads, self.norm1, self.norm2 = Heads(width, heads), nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = self.drop(self.norm1(x + self.heads(x)))
        return self.drop(self.norm2(x + self.narrow(torch.relu(self.wide(x)))))
"""
MODEL = """
import torch
from torch import nn

from a_block_of_another_file import Block


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, width, heads, depth, max_lenTAKEN):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, width), nn.Embedding(max_len, width)
        self.blocks = nn.Sequential(*[Block(width, headsGIVEN) for _ in range(depth)])
        self.out = nn.Linear(width, vocab_size)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        return self.out(self.blocks(x))
"""


@pytest.mark.parametrize("taken, given, ids", [
    ("", "", []), (", dropout=0.0", ", dropout", ["B24"]), ("", ", 0.1", ["B24"]),
])  # fmt: skip
def test_a_model_that_never_drops_has_no_dropout_at_the_wrong_place(taken, given, ids, tmp_path, monkeypatch):
    (tmp_path / "a_block_of_another_file.py").write_text(BLOCK, encoding="utf-8")
    (tmp_path / "model.py").write_text(MODEL.replace("TAKEN", taken).replace("GIVEN", given), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    result = check_here(tmp_path / "model.py")["TinyGPT"]
    assert [id for id in (*result.ids, *result.inherited) if id == "B24"] == ids


@pytest.mark.parametrize("dropped, told, ids", [
    ("self.dropout(x + sublayer(self.norm(x)))", None, ["B24"]), ("x + self.dropout(sublayer(self.norm(x)))", None, []),
    ("self.dropout(x + sublayer(self.norm(x)))", "0.0", []),
])  # fmt: skip
def test_what_is_given_its_blocks_drops_what_they_drop(dropped, told, ids, tmp_path):
    """told: what the function that makes all of it tells each part, whatever it is told itself."""
    text = STYLES["seq2seq"].read_text(encoding="utf-8").replace("x + self.dropout(sublayer(self.norm(x)))", dropped)
    head, made, body = text.partition("def build_transformer(")
    if told is not None:  # it has no argument for it then
        body = body.replace("    dropout: float = 0.1,\n", "").replace("dropout", told)
    (tmp_path / "seq2seq.py").write_text(head + made + body, encoding="utf-8")
    checked = check_here(tmp_path / "seq2seq.py")
    said = {name: [id for id in (*one.ids, *one.inherited) if id == "B24"] for name, one in checked.items()}
    blocks, stacks = ("EncoderBlock", "DecoderBlock"), ("Encoder", "Decoder")
    assert said["build_transformer"] == ids, said
    assert all(said[name] == (["B24"] if ids or told else []) for name in (*blocks, *stacks)), said
