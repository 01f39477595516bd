"""The line to look at: the statement at fault, wherever the learner wrote it."""

import importlib
import sys
from pathlib import Path

import pytest
from torch.nn import functional

from scratch_transformer.kit.report.lines import Said, place

SIGNED = '''
from torch import nn
class Layer(nn.Module):
    def forward(
        self,
        x,
        mask=None,
    ):
        """The mask hides."""
        y = x + 1
        return y.masked_fill(mask, 0)
'''
HEADS = """
import torch
from torch import nn
class Head(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.query = nn.Linear(d_model, d_k, bias=False)
    def forward(self, x):
        scores = self.query(x) @ x.transpose(-2, -1) * x.size(-1) ** -0.5
        return torch.softmax(scores, dim=1) @ x
"""
MODEL = """
import math
from torch import nn
from many_heads import Head
class Heads(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.heads = nn.ModuleList([Head(d_model, d_model // h) for _ in range(h)])
        self.out = nn.Linear(d_model, d_model)
    def forward(self, x):
        return self.out(sum(head(x) for head in self.heads))
class Model(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.heads = Heads(d_model, h)
    def forward(self, x):
        return self.heads(x * math.sqrt(x.size(-1)))
"""

EXPLAINED = '''
from torch import nn
class Norm(nn.Module):
    def forward(self, x):
        """
        y = gamma * (x - mean) / (std + eps) + beta
        """
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.gamma * (x - mean) / (std + self.eps) + self.beta
'''

MERGED = """
from torch import nn
class Attention(nn.Module):
    def forward(self, q, k, v):
        B, T, E = q.shape
        q, k, v = (x.view(B, -1, 3, 4).transpose(1, 2) for x in (q, k, v))
        heads = (q @ k.transpose(-2, -1)).softmax(-1) @ v
        heads = heads.reshape(B, T, E)
        return self.out(heads)
"""


OTHERS = """
import torch
from torch import nn
class Norm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.ones(d_model))
    def forward(self, x):
        return x * self.alpha + self.beta
class Table(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.pe = torch.zeros(5, d_model)
        for p in self.parameters():
            nn.init.xavier_uniform_(p)
    def forward(self, x, mask=None):
        if mask is not None:
            x = x.masked_fill(mask, 0)
        return x + self.pe
class Kept(nn.Module):
    def __init__(self, p, mask):
        super().__init__()
        self.attn_drop = nn.Dropout(p)
        self.rows = mask.unsqueeze(1).unsqueeze(3)
        self.later = mask.unsqueeze(1)
    def forward(self, q, k, v):
        attn = torch.dropout((q @ k.mT).softmax(-1), 0.1, True)
        self.attn_weights = attn
        return attn @ v
class Whole(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part
    def forward(self, x):
        return self.part(x, x, x)
class Embedded(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.tok_emb = nn.Embedding(7, d_model)
    def forward(self, ids, return_weights=False):
        weights = [] if return_weights else None
        x = self.tok_emb(ids)
        return x, weights
class Waves(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.pe = [[p / 10_000 ** (2 * i / d_model) for i in range(d_model)] for p in range(5)]
    def forward(self, x):
        x = x * 8**0.5
        return x + self.pe
"""

LAYERS = """
from torch import nn
class Norm(nn.Module):
    def forward(self, x):
        std = ((x - x.mean(-1, True)) ** 2).mean(-1, True).sqrt()
        return (x - x.mean(-1, True)) / std
class Layer(nn.Module):
    def __init__(self, d_model, attention):
        super().__init__()
        self.ln = nn.LayerNorm(d_model, bias=False)
        self.self_attn = attention
        self.own = Norm()
    def forward(self, x, enc_output, src_mask, tgt_mask):
        steps = x
        x = self.ln(x + self.self_attn(x, x, x, tgt_mask))
        return self.ln(x + self.self_attn(x, enc_output, x, src_mask))
class Coder(nn.Module):
    def forward(self, ids, return_attns=False):
        found = [ids] if return_attns else []
        x = self.word_emb(ids)
        return x, found
"""

PARTS = """
import torch
from torch import nn
class Linear(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_model, d_model))
        nn.init.xavier_uniform_(self.weight)
    def forward(self, x):
        return x.view(-1, len(self.weight)) @ self.weight.T
class Head(nn.Module):
    def __init__(self, d_k):
        super().__init__()
        self.q = Linear(d_k)
        self.sinks = nn.Parameter(
            torch.empty(1))
    def forward(self, x):
        return torch.softmax(self.q(x) @ x.view(-1, 4).T + self.sinks, -1) @ x
class Heads(nn.Module):
    def __init__(self, d_k, h):
        super().__init__()
        self.heads = nn.ModuleList([Head(d_k) for _ in range(h)])
    def forward(self, x):
        out = torch.stack([head(x[..., i::3]) for i, head in enumerate(self.heads)], dim=-1)
        return out.reshape(x.shape)
"""

SHAPES = """
import torch
from torch import nn
class Positions(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        pe = torch.zeros(9, 1, d_model)
        pe[..., 0::2] = torch.sin(torch.arange(9).view(9, 1, 1) * torch.ones(2))
        pe[..., 1::2] = torch.cos(torch.arange(9).view(9, 1, 1) * torch.ones(2))
        self.register_buffer("pe", pe)
    def forward(self, x):
        x = x + self.pe[: x.size(0)]
        return x
class Attention(nn.Module):
    def forward(self, q, k, v, mask=None):
        scores = q @ k.transpose(-2, -1)
        scores = scores if mask is None else scores.masked_fill(mask, -1e9)
        return scores.softmax(-1) @ v
class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.attention = Attention()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.up, self.down = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(0.1)
    def forward(self, x, memory):
        x = self.norm1(x + self.attention(x, x, x))
        x = self.norm1(x + self.attention(x, memory, memory))
        y = torch.relu(self.up(x))
        y = torch.relu(self.down(y))
        x = self.norm3(x + y)
        return self.dropout(x)
class Model(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.positions, self.layer = Positions(d_model), Layer(d_model)
    def forward(self, x, memory):
        return self.layer(self.positions(x), memory)
"""

STACKS = """
from torch import nn
class Words(nn.Module):
    def forward(self, ids):
        return self.embed(ids) + self.d_model ** (1 / 2)
class Attention(nn.Module):
    def forward(self, q, k, v):
        scale = self.d_model ** (1 / 2)
        return (q @ k.mT / scale).softmax(-1) @ v
class FeedForward(nn.Module):
    def forward(self, x):
        x = self.down(self.up(x))
        return x
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.network = Attention(), FeedForward()
    def forward(self, x):
        return x + self.network(x + self.attention(x, x, x))
class Stack(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.words = Words()
        layer = Layer()
        self.layers = nn.ModuleList(layer for _ in range(n))
    def forward(self, ids):
        places = [i for i in range(ids.shape[1])]
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return x
class Repeated(nn.Module):
    def forward(self, x):
        for _ in range(self.n):
            x = self.layer(x)
        return x
class Angles(nn.Module):
    def __init__(self, base, d_model):
        super().__init__()
        self.pos = [[p / base ** (i / d_model) for i in range(d_model)] for p in range(5)]
    def forward(self, x):
        return x + self.pos
"""
HIDDEN = """
import torch
from torch import nn
def future(length):
    rows = torch.ones(length, length)
    return torch.triu(rows, 1).to(torch.uint8)
class InTurn(nn.Sequential):
    def forward(self, x, memory):
        for layer in self:
            y = layer(x, memory)
        return y
"""
HIDING = """
import torch
from torch import nn
import hidden_words
class Norm(nn.Module):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        return (x - mean) / x.std (-1, keepdim=True)
class Attention(nn.Module):
    def forward(self, q, k, v, mask, causal=None):
        scores = q @ k.mT
        if mask is not None:
            mask = mask.unsqueeze(1)
            scores *= torch.logical_not(mask)
        return scores.softmax(-1) @ v
class Positions(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        for i in range(d_model):
            if i % 2 == 0:
                v = torch.sin(torch.arange(9) / 10000 ** (i / d_model))
            else:
                v = torch.cos(torch.arange(9) / 10000 ** (i / d_model))
class Decoder(nn.Module):
    def __init__(self, d_model, n):
        super().__init__()
        self.norm = Norm()
        self.layers = hidden_words.InTurn()
        for i in range(n):
            self.layers.append(Attention())
    def forward(self, x, memory, mask):
        future = hidden_words.future(x.shape[1])
        return self.norm(self.layers(x, memory))
"""
SUBLAYERS = """
from torch import nn
class Block(nn.Module):
    def __init__(self, attention, network, width):
        super().__init__()
        self.attention, self.network = attention, network
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.attention(y)
        x = self.ln_2(x)
        return x + self.network(x)
"""
DEVIATION = """
import torch
from torch import nn
class Norm(nn.Module):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return (x - mean) / torch.sqrt(std + 1e-6)
"""
SMOOTHED = """
import torch
from torch import nn
class Smoothing(nn.Module):
    def __init__(self, pad_id, share):
        super().__init__()
        self.pad_id, self.share = pad_id, share
        self.divergence = nn.KLDivLoss(reduction="batchmean")
    def forward(self, logits, target):
        wanted = torch.full_like(logits, self.share)
        wanted[target == self.pad_id] = 0
        return self.divergence(logits.log_softmax(-1), wanted)
"""


BARELY = """
from torch import nn
class Attention(nn.Module):
    def forward(self, q, k, v, mask):
        scores = q @ k.mT
        blocked = 1 - mask.unsqueeze(1) * mask.unsqueeze(-1)
        scores = scores.masked_fill(blocked.bool(), -EPS)
        return scores.softmax(-1) @ v
"""
TOGETHER = """
import torch
from torch import nn
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x):
        std, mean = torch.std_mean(x, dim=-1, keepdim=True)
        return (x - mean) / (std + 1e-6)
"""


TURNED = """
import torch
from torch import nn
class Turn(nn.Module):
    def forward(self, x, cos, sin):
        first, second = x[..., ::2], x[..., 1::2]
        return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)
"""


@pytest.fixture
def learner(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    written = {"signed_layer": SIGNED, "many_heads": HEADS, "model_of_heads": MODEL, "merged_heads": MERGED,
               "other_parts": OTHERS, "layers_of_norms": LAYERS, "heads_of_parts": PARTS, "model_of_shapes": SHAPES,
               "explained_norm": EXPLAINED, "whole_stacks": STACKS,
               "hidden_words": HIDDEN, "hiding_words": HIDING, "smoothed_words": SMOOTHED,
               "sublayers_in_turn": SUBLAYERS, "deviated_norm": DEVIATION, "norm_of_both": TOGETHER,
               "scores_in_place": IN_PLACE, "barely_hidden": BARELY,
               "turned_words": TURNED, "turned_heads": TURNED_HEADS}  # fmt: skip
    for name, text in written.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    yield importlib.import_module
    for name in written:
        sys.modules.pop(name, None)


def test_a_signature_is_no_place_to_look_at(learner):
    layer = learner("signed_layer").Layer
    assert place("A29", "", layer)[1:3] == (11, [])
    assert place("A24", "", layer)[1:3] == (11, [])


def test_turned_features_are_put_together_at_the_line_to_look_at(learner):
    found = place("R10", "", learner("turned_words").Turn)
    assert found.line == 7


def test_a_deviation_that_comes_with_the_mean_is_the_line(learner):
    assert place("LN1", "", learner("norm_of_both").Norm).line == 8


def test_an_equation_in_a_docstring_is_no_line_to_change(learner):
    assert place("LN2", "", learner("explained_norm").Norm).line == 9


@pytest.mark.parametrize("name", ["Heads", "Model"])
@pytest.mark.parametrize("id, form, line", [("A1", "divided by √d_model", 9), ("A14", "left out", 7), ("A2", "", 10)])
def test_the_line_is_in_the_part_that_is_at_fault_in_its_own_file(learner, name, id, form, line):
    found = place(id, form, getattr(learner("model_of_heads"), name))
    assert (Path(found.file).name, found.line) == ("many_heads.py", line)


def test_heads_are_merged_after_they_are_split(learner):
    attention = learner("merged_heads").Attention
    assert place("A23", "not transposed back", attention).line == 8
    assert place("A13", "", attention).line == 6


def test_where_nothing_fits_the_head_of_forward(learner):
    found = place("B14", "", learner("signed_layer").Layer)
    assert found.line == 11  # return
    assert place("T7", "", learner("model_of_heads").Model)[1:3] == (16, [])


@pytest.mark.parametrize("id, form, name, line", [
    ("LN13", "the shift", "Norm", 8), ("LN13", "the scale", "Norm", 7),
    ("P5", "", "Table", 14), ("E4", "", "Table", 16), ("A24", "", "Table", 19),
    ("A17", "", "Kept", 29), ("B12", "", "Kept", 28), ("A7", "queries instead of keys", "Kept", 25),
    ("E2", "not scaled", "Embedded", 43), ("P2", "doubled, and the cosine has the next", "Waves", 48),
    ("P11", "", "Waves", 50),
])  # fmt: skip
def test_the_line_that_does_it_not_one_with_the_same_words(learner, id, form, name, line):
    assert place(id, form, getattr(learner("other_parts"), name)).line == line


def test_a_part_that_is_given_is_looked_at_and_a_line_that_is_known_is_shown(learner):
    module = learner("other_parts")
    assert place("A2", "", module.Whole).line == 35
    assert (
        place("A2", "", module.Whole, [module.Kept, type(module.Kept(0.1, module.torch.ones(2, 3)).attn_drop)]).line
        == 28
    )
    assert place("B26", "", module.Table, said=Said("x = x.masked_fill(mask, 0)")).line == 19


@pytest.mark.parametrize("id, form, name, line", [
    ("LN3", "0", "Layer", 6), ("LN6", "", "Layer", 10), ("B15", "", "Layer", 15), ("A36", "", "Layer", 16),
    ("B2", "", "Layer", 15),
    ("A21", "values come from the decoder", "Layer", 16), ("E2", "not scaled", "Coder", 20),
])  # fmt: skip
def test_the_line_is_known_by_what_it_does_whatever_its_names(learner, id, form, name, line):
    """A norm without eps, self.ln, return_attns."""
    assert place(id, form, getattr(learner("layers_of_norms"), name)).line == line


IN_PLACE = """
import math
from torch import nn
class Heads(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.d_model, self.h = d_model, h
        self.d_k = self.d_model // self.h
    def forward(self, q, k, v):
        return self.attend(q, k, v)
    def attend(self, q, k, v):
        scores = q @ k
        scores /= math.sqrt(self.d_model)
        return scores.softmax(-1) @ v
"""


def test_a_width_that_is_cut_into_heads_divides_no_scores(learner):
    assert place("A1", "divided by √d_model", learner("scores_in_place").Heads).line == 13


def test_what_is_not_filled_is_known_by_its_name_and_heads_are_merged_where_they_are_stacked(learner):
    heads = learner("heads_of_parts").Heads
    assert place("B22", "self.heads.0.sinks", heads).line == 15
    assert place("B22", "self.heads.0.q.weight", heads).line == 7
    assert place("A23", "features before heads", heads).line == 24


TURNED_HEADS = """
import torch
from torch import nn
class Product(nn.Module):
    def forward(self, q, k, v):
        return torch.matmul(q, k.transpose(2, 3)).softmax(-1) @ v
class Heads(nn.Module):
    def __init__(self, product):
        super().__init__()
        self.product = product
    def forward(self, q, k, v):
        q, k, v = (x.unflatten(-1, (2, -1)).transpose(1, 2) for x in (q, k, v))
        return self.product(q, k, v).transpose(-1, -2).reshape(len(q), -1, 8)
"""


def test_heads_are_merged_behind_what_splits_them_and_behind_the_product(learner):
    module = learner("turned_heads")
    product = module.Product()
    assert place("A23", "features before tokens", module.Heads, [module.Heads(product), product]).line == 13


@pytest.mark.parametrize("id, form, name, line", [
    ("P4", "", "Model", 12), ("P14", "", "Model", 8), ("A36", "", "Model", 29), ("LN7", "", "Layer", 23),
    ("A24", "padding is ignored", "Model", 38),
    ("A13", "one head of all features", "Model", 16), ("B24", "", "Model", 33),
    ("B17", "at the end too", "Model", 31), ("B15", "others are made, and never used", "Layer", 29),
])  # fmt: skip
def test_the_line_of_a_whole_is_in_the_part_that_does_it(learner, id, form, name, line):
    """Rows by samples are read with the table, not where the model returns; a mask that is missing is so in itself."""
    assert place(id, form, getattr(learner("model_of_shapes"), name)).line == line


@pytest.mark.parametrize("id, form, name, line", [
    ("A1", "divided by √d_model", "Stack", 8), ("B16", "", "Stack", 13), ("B16", "", "Layer", 13),
    ("E2", "plus √d_model", "Stack", 5), ("B9", "", "Stack", 25), ("B9", "", "Repeated", 34), ("P2", "", "Angles", 40),
])  # fmt: skip
def test_the_line_is_where_it_is_done_not_where_the_whole_begins_or_ends(learner, id, form, name, line):
    assert place(id, form, getattr(learner("whole_stacks"), name)).line == line


@pytest.mark.parametrize("id, form, name, file, line", [
    ("LN1", "", "Decoder", "hiding_words", 8), ("A4", "", "Attention", "hiding_words", 14),
    ("P2", "the cosine has the next exponent", "Positions", "hiding_words", 23),
    ("A34", "", "Decoder", "hidden_words", 6), ("B19", "", "Decoder", "hidden_words", 9),
])  # fmt: skip
def test_what_is_done_beside_other_words_for_it_or_in_a_file_that_is_imported_whole(
    learner, id, form, name, file, line
):
    found = place(id, form, getattr(learner("hiding_words"), name))
    assert (Path(found.file).stem, found.line) == (file, line)


@pytest.mark.parametrize("form, line", [("divided by all positions", 8), ("padding is learned", 11)])
def test_a_loss_divides_by_padding_where_its_mean_is_taken(learner, form, line):
    assert place("T4", form, learner("smoothed_words").Smoothing).line == line


@pytest.mark.parametrize("part, line", [("", 9), ("norm1", 9), ("norm2", 11), ("norm3", 9)])
def test_what_is_in_one_sublayer_alone_is_looked_for_at_its_norm(learner, part, line):
    assert place("B2", "", learner("sublayers_in_turn").Block, part=part).line == line


def test_another_power_of_the_deviation_is_where_that_divides(learner):
    assert place("LN10", "", learner("deviated_norm").Norm).line == 8


def test_a_product_of_two_masks_hides_nothing_what_fills_the_scores_does(learner):
    assert place("A4", "", learner("barely_hidden").Attention).line == 7


def drops_by_a_function(x, p):
    return functional.dropout(x, p)


def test_a_function_has_no_self_to_ask_whether_it_trains():
    assert place("B12", "", drops_by_a_function).put == []
