"""Masks of (batch, keys), which cannot hide the future: whoever is to hide it and takes no other never does (A25)."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import NOT_ASKED, OF_KEYS

pytestmark = pytest.mark.long

PARTS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.w_q, self.w_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_v, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in (self.w_q(q), self.w_k(k), self.w_v(v)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(MASK == 0, -1e9)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.network(x))
"""
GPT = """

class NAME(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([Block(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, ids, attention_mask=None):
        x = self.words(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x, attention_mask)
        return self.head(x)
"""
DECODER = """

class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.own, self.cross = MultiHeadAttention(d_model, num_heads), MultiHeadAttention(d_model, num_heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, memory, mask=None):
        x = self.norm1(x + self.own(x, x, x, mask))
        x = self.norm2(x + self.cross(x, memory, memory))
        return self.norm3(x + self.network(x))
"""
OF_KEYS_ALONE, OF_ALL = "mask.unsqueeze(1).unsqueeze(2)", "mask"


@pytest.mark.parametrize(
    "mask, name, found",
    [
        (OF_KEYS_ALONE, "GPT", [("mistake", "", OF_KEYS)]),
        (OF_KEYS_ALONE, "TextModel", [("note", NOT_ASKED, MISTAKES["A25"].fix)]),
        (OF_ALL, "GPT", []),
    ],
)
def test_a_model_that_writes_is_to_take_a_mask_that_can_hide_the_future(mask, name, found, tmp_path):
    """What takes a mask of any form is given one; what is no decoder by its name need not hide the future."""
    result = check_text(PARTS.replace("MASK", mask) + GPT.replace("NAME", name), tmp_path)[name]
    assert [(one.severity, one.form, one.fix) for one in result.mistakes if one.id == "A25"] == found, result


@pytest.mark.parametrize("mask, ids", [(OF_KEYS_ALONE, ["A25"]), (OF_ALL, [])])
def test_a_decoder_layer_with_one_mask_of_keys_is_not_said_to_ignore_it(mask, ids, tmp_path):
    result = check_text(PARTS.replace("MASK", mask) + DECODER, tmp_path)["DecoderLayer"]
    found = [(one.id, one.fix == OF_KEYS) for one in result.mistakes if one.severity == "mistake"]
    assert found == [(id, True) for id in ids], result


MODEL = """

class Transformer(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff):
        super().__init__()
        self.src, self.tgt = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        self.encoder, self.decoder = Block(d_model, num_heads, d_ff), DecoderLayer(d_model, num_heads, d_ff)
        self.out = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt):
        T = tgt.size(1)
        mask = torch.ones(T, T, device=tgt.device).tril()
        return self.out(self.decoder(self.tgt(tgt), self.encoder(self.src(src)), mask))
"""


@pytest.mark.parametrize("mask, ids", [(OF_KEYS_ALONE, ["B26"]), (OF_ALL, [])])
def test_a_model_that_hands_it_a_causal_mask_is_said_to_stop(mask, ids, tmp_path):
    """Whatever the numbers of samples and tokens are: such shapes never fit."""
    result = check_text(PARTS.replace("MASK", mask) + DECODER + MODEL, tmp_path)["Transformer"]
    assert [one.id for one in result.mistakes if one.id == "B26"] == ids, result
