"""A parameter called mask that is only asked whether it is true: with True it is to hide the future."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

ATTENTION = """
class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.h = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask):
        q, k, v = self.w_q(q), self.w_k(k), self.w_v(v)
        q, k, v = (x.unflatten(-1, (self.h, -1)).transpose(1, 2) for x in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask:
            future = torch.ones(scores.shape[-2:]).HALF.bool()
            SET
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
MODEL = """
class Block(nn.Module):
    def __init__(self, attention: Attention, network: nn.Module, d_model):
        super().__init__()
        self.attention, self.network = attention, network
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.network(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, d_ff, max_len):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.block = Block(Attention(d_model, n_heads), network, d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, ids, mask):
        x = self.words(ids) + self.places(torch.arange(ids.size(1)))
        return self.head(self.block(x, mask))
"""
USUAL = {"HALF": "triu(1)", "SET": 'scores = scores.masked_fill(future, float("-inf"))'}


def _checked(name, folder, **other):
    text = ATTENTION + MODEL
    for word, code in {**USUAL, **other}.items():
        text = text.replace(word, code)
    return check_text(text, folder, {name})[name]


@pytest.mark.parametrize("name", ["Attention", "GPT"])
def test_what_it_hides_may_be_right(name, tmp_path):
    with time_to_look(1):
        found = _checked(name, tmp_path)
    assert (found.verdict in FINE, found.severe) == (True, []), found
    assert not any("mask" in limit for limit in found.limits)


@pytest.mark.parametrize(
    "name, other, wrong",
    [
        ("Attention", {"HALF": "triu()"}, "A6"),
        ("Attention", {"SET": "scores.masked_fill(future, -math.inf)"}, "A25"),
        ("Attention", {"SET": "scores = scores.masked_fill(future, -1e9)"}, "A8"),
        ("GPT", {"HALF": "tril(-1)"}, "A5"),
    ],
)
def test_what_is_wrong_in_it_is_named(name, other, wrong, tmp_path):
    assert wrong in _checked(name, tmp_path, **other).ids


def test_a_flag_of_padding_hides_no_future(tmp_path):
    found = check_text(
        (ATTENTION + MODEL)
        .replace("mask", "src_mask")
        .replace("src_masked", "masked")
        .replace("HALF", "triu(1)")
        .replace("SET", "pass"),
        tmp_path,
        {"Attention"},
    )["Attention"]
    assert "A25" not in found.ids
