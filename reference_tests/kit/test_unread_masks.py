"""Masks that a forward takes and nothing reads (A24), or that alone would hide the future (A25)."""

import re

import pytest
import torch

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.attention import UNREAD, UNREAD_OF_QUERIES
from scratch_transformer.kit.resolve.call import unread
from scratch_transformer.kit.resolve.call.plan import Plan

pytestmark = pytest.mark.long

PARTS = """
class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.h = n_heads
        self.w_q, self.w_k, self.w_v, self.fc = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, ahead_mask=None, pad_mask=None):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if ahead_mask is not None:
            scores = scores.masked_fill(ahead_mask == 0, float("-inf"))
        READS
        return self.fc((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

class Block(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attn = Attention(d_model, n_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, ahead_mask=None, pad_mask=None):
        x = x + self.attn(self.norm1(x), ahead_mask, pad_mask)
        return x + self.net(self.norm2(x))
"""
GPT = """
class GPT(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, n_heads, d_ff, n_layers):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)

    def forward(self, ids, attention_mask=None, targets=None):
        T = ids.size(1)
        x = self.tok(ids) + self.pos(torch.arange(T, device=ids.device))
        ahead = torch.ones(T, T, device=ids.device).tril()
        for block in self.blocks:
            x = block(x, GIVEN)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return logits, LOSS
"""
PLAIN = "F.cross_entropy(logits.transpose(1, 2), targets)"
WEIGHTED = "(F.cross_entropy(logits.transpose(1, 2), targets, reduction='none') * attention_mask).mean()"
FILLED = """if pad_mask is not None:
            scores = scores.masked_fill(pad_mask[:, None, None] == 0, float("-inf"))"""
ELSEWHERE = """if pad_mask is not None and not self.training and x.size(1) > 1000:
            scores = scores.masked_fill(pad_mask[:, None, None] == 0, float("-inf"))"""


def judged(tmp_path, name, reads="", given="ahead, attention_mask", loss=PLAIN):
    text = PARTS.replace("READS", reads) + GPT.replace("GIVEN", given).replace("LOSS", loss)
    return check_text(text, tmp_path)[name]


@pytest.mark.parametrize("name", ["Attention", "Block", "GPT"])
@pytest.mark.parametrize("reads, is_ignored", [("", True), (FILLED, False), (ELSEWHERE, False)])
def test_a_mask_that_is_handed_on_and_read_by_nothing_is_ignored(name, reads, is_ignored, tmp_path):
    result = judged(tmp_path, name, reads)
    assert ("A24" in [*result.severe, *result.inherited]) == is_ignored, result
    if is_ignored and name == "Attention":
        (found,) = [one for one in result.mistakes if one.id == "A24"]
        assert found.form == UNREAD and "pad_mask" in found.evidence


def test_the_head_of_forward_is_shown(tmp_path):
    one = next(one for one in judged(tmp_path, "Attention").mistakes if one.id == "A24")
    text = (tmp_path / "learner.py").read_text().splitlines()
    assert re.match(r" +def forward\(self, x, ahead_mask", text[one.line - 1])


@pytest.mark.parametrize("given, ids", [("ahead", {"A24"}), ("None", {"A25"}), ("attention_mask", set())])
def test_a_model_takes_a_mask_and_hands_it_to_nobody(given, ids, tmp_path):
    """What alone could hide the future, and is read nowhere, is not to be asked for: that it is not hidden is told."""
    result = judged(tmp_path, "GPT", FILLED, given)
    assert {*result.severe} == ids, result


def test_a_mask_of_the_loss_is_read_there(tmp_path):
    result = judged(tmp_path, "GPT", FILLED, "ahead", WEIGHTED)
    assert result.severe == result.inherited == [], result


OF_BOTH = PARTS.partition("class Block")[0].replace("pad_mask", "QUERIES").replace("        READS\n", "")


@pytest.mark.parametrize("name, is_needed", [("q_pad_mask", False), ("query_mask", False), ("key_pad_mask", True)])
def test_queries_need_no_mask(name, is_needed, tmp_path):
    """A mask of keys that nothing reads is a mistake; one of what asks is worth knowing."""
    result = check_text(OF_BOTH.replace("QUERIES", name), tmp_path)["Attention"]
    assert result.severe == (["A24"] if is_needed else []), result
    (found,) = [one for one in result.mistakes if one.id == "A24"]
    assert found.form == (UNREAD if is_needed else UNREAD_OF_QUERIES) and name in found.evidence


def decoded(x, m, m_mask, pad_mask):
    return x + m.mean() + m_mask.sum()


def test_what_is_called_m_is_no_mask_where_it_is_what_the_encoder_gives():
    tensors = {"x": torch.randn(2, 3), "m": torch.randn(2, 3), "m_mask": torch.ones(2, 3), "pad_mask": None}

    def run(plan):
        given = {name: tensors[of] for name, of in plan.arguments.items()}
        return decoded(**tensors | plan.constants | given)

    assert unread.masks(decoded, Plan({"x": "x", "m": "m"}), run) == ("pad_mask",)
