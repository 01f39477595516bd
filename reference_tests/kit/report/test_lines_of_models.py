"""The line to look at in models whose layers are torch's, or whose tables are called tok."""

import importlib
import linecache
import sys

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.attention import TARGET_ONLY
from scratch_transformer.kit.report.lines import place


class AroundTorch(nn.Module):
    def encode(self, src, padding):
        return self.transformer.encoder(self.words(src), src_key_padding_mask=padding)

    def forward(self, src, tgt, padding):
        return self.transformer(
            self.words(src),
            self.words(tgt),
            src_key_padding_mask=padding,
        )


class OfTokens(nn.Module):
    def forward(self, ids, returns_more=False):
        x = self.positions(self.tok(ids))
        if returns_more:
            return x, None
        return x


def cut(scores, mask):
    return scores.data.masked_fill(mask, float("-inf"))


class CutsGradients(nn.Module):
    """Nothing is cut where a constructor fills its weights, or makes its table."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(3, 3)
        self.query.weight.data.normal_(0, 0.02)
        self.register_buffer("table", torch.tensor([1.0]))

    def forward(self, query, key, mask):
        return cut(self.query(query) @ key.mT * self.table, mask)


class HandsOn(nn.Module):
    def attend(self, value, key, query):
        return torch.softmax(query @ key.mT, dim=-1) @ value

    def forward(self, value, key, query):
        value, key, query = self.v(value), self.k(key), self.q(query)
        return self.attend(key, value, query)


class WithoutTheSum(nn.Module):
    def forward(self, x, mask):
        left = x
        x = self.drop(self.attention(x, x, x, mask))
        left = self.norm1(x + left)
        x = self.feed_forward(x)
        return self.norm2(x + left)


class Unscaled(nn.Module):
    def forward(self, query, key, value):
        scores = torch.matmul(
            query,
            key.transpose(-2, -1),
        )
        return torch.softmax(scores, dim=-1) @ value


class TurnsValues(nn.Module):
    def forward(self, q, k, v):
        self.rotary.prepare(q)
        q = self.rotary(q)
        v = self.rotary(v)
        return q, k, v


@pytest.mark.parametrize("id, form, cls, text", [
    ("R4", "the keys are not, and the values are", TurnsValues, "v = self.rotary(v)"),
    ("A1", "not scaled", Unscaled, "scores = torch.matmul("),
    ("B27", "", CutsGradients, 'return scores.data.masked_fill(mask, float("-inf"))'),
    ("B23", "the feed-forward network is given the output of the attention, without residual and norm", WithoutTheSum,
     "x = self.feed_forward(x)"),
    ("A21", "keys and values are exchanged", HandsOn, "return self.attend(key, value, query)"),
    ("A22", "", AroundTorch, "src_key_padding_mask=padding,"),
    ("E2", "not scaled", OfTokens, "x = self.positions(self.tok(ids))"),
])  # fmt: skip
def test_the_line_is_of_forward_and_does_what_is_meant(id, form, cls, text):
    found = place(id, form, cls)
    assert linecache.getline(found.file, found.line).strip() == text


UNREAD = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear2(self.linear1(x).relu())


class EncoderLayer(nn.Module):
    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int = None,
    ):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.ffn = FeedForward(d_model, 4 * d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.ffn(x))
"""


def test_a_size_that_nothing_reads_is_shown_where_it_is_taken(tmp_path):
    (named,) = [found for found in check_text(UNREAD, tmp_path)["EncoderLayer"].mistakes if found.id == "B29"]
    assert named.shown.strip() == "d_ff: int = None,"


STACK = """
DEPTH = 4


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.matrices = nn.ModuleList([nn.Linear(width, width) for _ in range(4)])
        self.others = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, width)])


class Stack(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList([Layer(width) for _ in range(depth)])

    def forward(self, x):
        for matrix in (self.first, self.second):
            x = matrix(x)
        for layer in self.layers:
            x = layer(x)
        return x


class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stack = Stack(width, depth)

    def forward(self, x):
        for matrix in (self.first, self.second):
            x = matrix(x)
        return self.stack(x)
"""


@pytest.mark.parametrize("cls", ["Stack", "Model"])
@pytest.mark.parametrize("old, new, line", [
    ("[Layer(width) for _ in range(depth)]", "[Layer(width)]", "self.layers = nn.ModuleList([Layer(width)])"),
    ("for _ in range(depth)", "for _ in range(6)", "self.layers = nn.ModuleList([Layer(width) for _ in range(6)])"),
    ("range(depth)", "range(DEPTH)", "self.layers = nn.ModuleList([Layer(width) for _ in range(DEPTH)])"),
    ("x = layer(x)\n        return", "x = layer(x)\n            return", "for layer in self.layers:"),
])  # fmt: skip
def test_the_line_is_where_the_number_of_layers_is_settled(cls, old, new, line, tmp_path, monkeypatch):
    assert STACK.count(old) == 1
    (tmp_path / "settled_stack.py").write_text("from torch import nn\n" + STACK.replace(old, new))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "settled_stack", raising=False)
    found = place("B28", "the first alone", getattr(importlib.import_module("settled_stack"), cls))
    del sys.modules["settled_stack"]
    linecache.checkcache()
    assert linecache.getline(found.file, found.line).strip() == line


# ---- The line of what is meant, not of its like ----


class TwoMasks(nn.Module):
    def __init__(self, d_model=8, pad=0):
        super().__init__()
        self.pad, self.first = pad, nn.Parameter(torch.zeros(1, 1, d_model))
        self.words = nn.Embedding(10, d_model, padding_idx=pad)
        nn.init.trunc_normal_(self.first, std=0.02)
        nn.init.normal_(self.words.weight, std=0.02)  # the words

    def source_mask(self, src):
        mask = (src != self.pad)[:, None, None, :]
        return mask

    def target_mask(self, tgt):
        return torch.ones(tgt.shape[1], tgt.shape[1]).tril()  # the target

    def forward(self, src, tgt):
        return self.words(src), self.source_mask(src), self.words(tgt), self.target_mask(tgt)


class NormOfAll(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(d_model), nn.MultiheadAttention(d_model, num_heads)

    def forward(self, value, key, query):
        q = self.norm1(query)
        k = self.norm1(key)  # the memory
        return query + self.attention(q, k, self.norm1(value))[0]


@pytest.mark.parametrize("id, name, cls, said", [
    ("E4", "self.words", TwoMasks, "# the words"), ("A24", TARGET_ONLY, TwoMasks, "# the target"),
    ("B31", "by the norm of the queries", NormOfAll, "# the memory"),
])  # fmt: skip
def test_the_line_is_that_of_what_is_meant(id, name, cls, said):
    found = place(id, name, cls)
    assert said in linecache.getline(found.file, found.line)
