"""What a whole is told of its parts: all that they have and it does not show, whatever its own numbers are."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

OF_TEXT = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, padding_mask=None):
        B, T, D = x.shape
        q, k, v = (w(x).view(B, T, self.h, -1).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        if padding_mask is not None:
            scores = BLOCKED
        return self.w_o(OUT.transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = CausalSelfAttention(d_model, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, padding_mask=None):
        x = x + self.attention(self.norm1(x), padding_mask)
        return x + self.network(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.tokens, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, ids != self.pad_id)
        return self.head(self.norm(x))
"""
OF_KEYS = "scores.masked_fill(~padding_mask[:, None, None, :], float('-inf'))"
OF_QUERIES = OF_KEYS.replace("None, None, :]", "None, :, None]")
TURNED = OF_QUERIES.replace("~padding", "padding")
FINITE = OF_QUERIES.replace("float('-inf')", "-1e4")
SUMMED = "(scores.softmax(-1) @ v)"
ZEROED = "((scores.softmax(-1) @ v) * (1 if padding_mask is None else padding_mask[:, None, :, None]))"


@pytest.mark.parametrize(("blocked", "out", "is_wrong"), [
    (OF_KEYS, SUMMED, False), (OF_KEYS.replace("~padding", "padding"), SUMMED, False),
    (OF_QUERIES, SUMMED, True), (TURNED, SUMMED, True), (FINITE, SUMMED, True),
    ("scores", ZEROED, False),
])  # fmt: skip
def test_a_mask_of_padding_besides_the_futures_is_judged_in_attention_and_told_of_in_what_has_it(
    blocked, out, is_wrong, tmp_path
):
    """Of sentences with padding behind, no real word sees it: the whole has the right numbers all the same."""
    results = check_text(OF_TEXT.replace("BLOCKED", blocked).replace("OUT", out), tmp_path)
    attention = results["CausalSelfAttention"]
    assert ("A7" in attention.ids) == is_wrong, attention
    assert any("was not given" in limit for limit in attention.limits) == (not is_wrong)
    for name in ("Block", "GPT") if blocked in (OF_KEYS, FINITE) else ("Block",):  # NaN goes through all layers
        assert ("A7" in results[name].inherited) == is_wrong
        assert results[name].verdict == "matches the builtin"


DROPS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.dropout = num_heads, nn.Dropout(dropout)
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        B, T, D = q.shape
        q, k, v = (w(x).view(B, -1, self.h, D // self.h).transpose(1, 2)
                   for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e4)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D))


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.beta, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        return self.gamma * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.beta


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.dropout1, self.dropout2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout1(self.attention(x, x, x, mask)))
        return self.norm2(x + self.dropout2(MADE))
"""


@pytest.mark.parametrize("made", ["self.network(x)", "self.network(x.abs()) + self.network(x).cos()"])
def test_all_that_its_parts_have_is_told_of_a_layer(made, tmp_path):
    """Where its numbers are explained by them, and where they are not."""
    results = check_text(DROPS.replace("MADE", made), tmp_path)
    assert {"A10", "A18"} <= {*results["MultiHeadAttention"].ids}
    assert {"LN1", "LN2", "A10", "A18"} <= {*results["EncoderLayer"].inherited}, results["EncoderLayer"]
