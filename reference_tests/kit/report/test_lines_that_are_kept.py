"""Lines on which a mistake is mended that shows elsewhere: kept sizes, keys of groups, numbers that are handed on."""

import importlib
import sys

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.report import kept

pytestmark = pytest.mark.long

ATTENTION = """
class SelfAttention(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.width = width
        self.n_heads = n_heads
        self.to_q, self.to_k = nn.Linear(width, width), nn.Linear(width, width)
        self.to_v, self.to_out = nn.Linear(width, width), nn.Linear(width, width)
        KEPT

    def forward(self, x):
        d_k = DIVIDED
        cut = lambda y: y.view(*y.shape[:2], self.n_heads, d_k).transpose(1, 2)
        q, k, v = cut(self.to_q(x)), cut(self.to_k(x)), cut(self.to_v(x))
        return self.to_out(((q @ k.mT / d_k**0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


def _shown(result, id):
    named = next(found for found in result.mistakes if found.id == id)
    return named.shown.strip(), [line.strip() for line in named.put], named.fix


@pytest.mark.parametrize("kept, divided, line, check", [
    ("self.d_k = int(width / n_heads)", "self.d_k", "self.d_k = int(width / n_heads)",
     "assert width % n_heads == 0, f'{n_heads=} must divide {width=}'"),
    ("self.groups = n_heads\n        self.d_k = width // n_heads", "self.d_k * (self.n_heads // self.groups)",
     "self.d_k = width // n_heads", "assert width % n_heads == 0, f'{n_heads=} must divide {width=}'"),
    ("pass", "self.width // self.n_heads", "self.n_heads = n_heads",
     "assert self.width % self.n_heads == 0, f'{self.n_heads=} must divide {self.width=}'"),
])  # fmt: skip
def test_heads_are_checked_in_the_constructor(kept, divided, line, check, tmp_path):
    text = ATTENTION.replace("KEPT", kept).replace("DIVIDED", divided)
    shown, put, _ = _shown(check_text(text, tmp_path)["SelfAttention"], "A19")
    assert shown == line and {*put} == {line, check}


PADDED = """
class Words(nn.Module):
    def __init__(self, vocab_size, width, pad_mask=1):
        super().__init__()
        self.table, self.root = nn.Embedding(vocab_size, width, padding_idx=pad_mask), width**0.5

    def forward(self, ids):
        return self.table(ids) * self.root

class InputEmbedding(nn.Module):
    def __init__(self, vocab_size, width, longest=50):
        super().__init__()
        self.words, self.places = Words(vocab_size, width, pad_mask=1), nn.Embedding(longest, width)

    def forward(self, ids):
        return self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
"""


def test_a_number_that_is_handed_on_for_the_padding_is_shown(tmp_path):
    result = check_text(PADDED, tmp_path)["InputEmbedding"]
    assert "pad_mask=1)" in _shown(result, "E5")[0]


GROUPS = """
def configure_optimizers(model, learning_rate, weight_decay, betas):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": others, "weigth_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas)
"""


def test_a_misspelt_key_of_a_group_is_mended_where_it_stands(tmp_path):
    _, put, fix = _shown(check_text(GROUPS, tmp_path)["configure_optimizers"], "O11")
    assert put == [
        'groups = [{"params": decay, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]'
    ]
    assert 'in place of "weigth_decay"' in fix


OF_TORCH = """
class Translator(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, nhead, num_layers, d_ff, src_pad, tgt_pad):
        super().__init__()
        self.src_words, self.tgt_words = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        self.transformer = nn.Transformer(d_model, nhead, num_layers, num_layers, d_ff, batch_first=True)
        self.head = nn.Linear(d_model, tgt_vocab_size)
        self.src_pad, self.tgt_pad, self.root = src_pad, tgt_pad, d_model**0.5

    def forward(self, src, tgt):
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).triu(1)
        src_hides, tgt_hides = src == self.src_pad, tgt == self.tgt_pad
        x, y = self.src_words(src) * self.root, self.tgt_words(tgt) * self.root
        y = self.transformer(x, y, tgt_mask=causal, src_key_padding_mask=src_hides, tgt_key_padding_mask=tgt_hides)
        return self.head(y)
"""


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_torchs_decoder_is_told_of_the_sources_padding_by_its_own_argument(tmp_path):
    line, _, fix = _shown(check_text(OF_TORCH, tmp_path)["Translator"], "A22")
    assert line.startswith("y = self.transformer(") and fix.startswith("memory_key_padding_mask=")


@pytest.mark.parametrize("body, said", [
    ("self.net = nn.Sequential([nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)])", "nn.Sequential(*layers)"),
    ("self.net = nn.Sequential(nn.Linear(d_model, d_ff / 1), nn.Linear(d_ff, d_model))", "// in place of /"),
])  # fmt: skip
def test_what_stops_a_constructor_has_a_fix_of_its_own(body, said, tmp_path):
    head = "class FeedForward(nn.Module):\n    def __init__(self, d_model, d_ff):\n        super().__init__()\n"
    text = f"{head}        {body}\n\n    def forward(self, x):\n        return self.net(x)\n"
    assert said in _shown(check_text(text, tmp_path)["FeedForward"], "B26")[2]


MASKED = """
class CrossAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.to_q, self.to_k, self.to_v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, padding=None, future=None):
        scores = self.to_q(x) @ self.to_k(x).mT
        LAID
        return masked.softmax(-1) @ self.to_v(x)
"""
BOTH = """masked = scores.masked_fill(padding, -1e4)
        masked = scores.masked_fill(future, -1e4)"""
EACH = """if padding is not None:
            masked = scores.masked_fill(padding, -1e4)
        if future is not None:
            masked = scores.masked_fill(future, -1e4)"""
EITHER = """if padding is not None:
            masked = scores.masked_fill(padding, -1e4)
        else:
            masked = scores.masked_fill(future, -1e4)"""
ANEW = """masked = scores.masked_fill(padding, -1e4)
        scores = masked
        masked = scores.masked_fill(future, -1e4)"""


@pytest.mark.parametrize("laid, is_found, put", [
    (BOTH, True, ["masked = masked.masked_fill(future, -1e4)"]), (EACH, True, []),
    (EITHER, False, []), (ANEW, False, []),
])  # fmt: skip
def test_of_two_masks_the_second_is_laid_on_what_was_there_before_the_first(laid, is_found, put, tmp_path, monkeypatch):
    text = IMPORTS + MASKED.replace("LAID", laid)
    (tmp_path / "two_masks.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "two_masks", raising=False)
    cls = importlib.import_module("two_masks").CrossAttention
    found, head = kept.of_masks(cls), text[: text.index("class CrossAttention")].count("\n")
    assert (found is not None) == is_found
    assert found is None or (text.splitlines()[head + found.number].strip(), [one.strip() for one in found.put]) == (
        "masked = scores.masked_fill(future, -1e4)",
        put,
    )


LAYER_OF_ARRAYS = """
import numpy as np


class LayerNorm:
    def __init__(self, dim):
        self.gamma, self.beta = np.ones(dim), np.zeros(dim)

    def forward(self, x):
        deviation = x - x.mean(-1, keepdims=True)
        deviation *= self.gamma
        return deviation / np.sqrt(x.var(-1, keepdims=True) + 1e-5) + self.beta


class SelfAttention:
    def __init__(self, dim, n_heads):
        assert dim % n_heads == 0
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (np.random.randn(dim, dim) for _ in range(4))

    def forward(self, x):
        q, k, v = (np.stack(np.split(x @ w, self.n_heads, -1), 1) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.swapaxes(-1, -2)
        scores /= np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return np.concatenate([*(weights @ v).swapaxes(0, 1)], -1) @ self.w_o


class EncoderLayer:
    def __init__(self, dim, n_heads, hidden):
        self.attention = SelfAttention(dim, n_heads)
        self.norm = LayerNorm(dim)
        self.w1, self.b1 = np.random.randn(dim, hidden), np.zeros(hidden)
        self.w2, self.b2 = np.random.randn(hidden, dim), np.zeros(dim)

    def forward(self, x):
        ADDED
        x = self.norm.forward(x)
        x = x + np.maximum(x @ self.w1 + self.b1, 0) @ self.w2 + self.b2
        return self.norm.forward(x)
"""


@pytest.mark.parametrize("added, ids", [
    ("x += self.attention.forward(x)", {"A12", "B15"}), ("x = x + self.attention.forward(x)", {"B15"}),
])  # fmt: skip
def test_lines_of_arrays_are_those_that_make_weights_use_norms_and_change_what_is_given(added, ids, tmp_path):
    results = check_text(LAYER_OF_ARRAYS.replace("ADDED", added), tmp_path)
    shown = {one.id: one.shown.strip() for one in results["EncoderLayer"].mistakes if one.severity != "note"}
    assert shown.keys() == ids, results
    assert shown["B15"] == "x = self.norm.forward(x)" and shown.get("A12", added) == added
    assert _shown(results["SelfAttention"], "A14")[0].startswith("self.w_q, ")
