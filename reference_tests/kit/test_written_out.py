"""Attention that is written out within a layer, its projections beside the norms and the feed-forward network."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

BLOCK = """
class TinyBlock(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head, self.d = n_head, n_embd // n_head
        PROJECTIONS
        self.wo = nn.Linear(n_embd, n_embd)
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.ff = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x, mask):
        B, T, C = x.size()
        q, k, v = (y.view(B, T, self.n_head, self.d).transpose(1, 2) for y in PROJECTED)
        scores = (q @ k.transpose(-2, -1) / self.d**0.5).masked_fill(mask == 0, -math.inf)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C)
        x = self.ln1(x + self.wo(y))
        return self.ln2(x + self.ff(x))
"""
THREE = BLOCK.replace("PROJECTIONS", "self.wq, self.wk, self.wv = (nn.Linear(n_embd, n_embd) for _ in range(3))")
THREE = THREE.replace("PROJECTED", "(self.wq(x), self.wk(x), self.wv(x))")
PACKED = BLOCK.replace("PROJECTIONS", "self.qkv = nn.Linear(n_embd, 3 * n_embd)")
PACKED = PACKED.replace("PROJECTED", "self.qkv(x).chunk(3, -1)")
BARE = BLOCK.replace(
    "PROJECTIONS", "self.W_q, self.W_k, self.W_v = (nn.Parameter(torch.randn(n_embd, n_embd)) for _ in range(3))"
).replace("PROJECTED", "(x @ self.W_q, x @ self.W_k, x @ self.W_v)")
DECODER = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.h = n_heads
        self.self_q, self.self_k, self.self_v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.self_out = nn.Linear(d_model, d_model)
        self.cross_q, self.cross_k, self.cross_v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.cross_out = nn.Linear(d_model, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def attend(self, q, k, v, mask):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        return (scores.masked_fill(~mask, -1e9).softmax(-1) @ v).transpose(1, 2).flatten(2)

    def forward(self, x, memory, tgt_mask, src_mask):
        y = self.attend(self.self_q(x), self.self_k(x), self.self_v(x), tgt_mask)
        x = self.norm1(x + self.self_out(y))
        y = self.attend(self.cross_q(x), self.cross_k(memory), self.cross_v(memory), src_mask)
        x = self.norm2(x + self.cross_out(y))
        return self.norm3(x + self.fc2(torch.relu(self.fc1(x))))
"""


@pytest.mark.parametrize("text", [THREE, PACKED, BARE, DECODER], ids=["three", "packed", "bare", "decoder"])
def test_its_projections_are_found(text, tmp_path):
    (result,) = check_text(text, tmp_path).values()
    assert result.verdict in FINE, result


@pytest.mark.parametrize(
    "text, old, new, expected",
    [
        (THREE, " / self.d**0.5", "", "A1"),
        (PACKED, ".transpose(1, 2).reshape(B", ".reshape(B", "A23"),
        (THREE, "self.wk(x), ", "self.wq(x), ", "A21"),
        (DECODER, "self.cross_k(memory)", "self.self_k(memory)", ""),
        (DECODER, "x = self.norm2(x + ", "x = self.norm2(", ""),
    ],
)
def test_what_is_wrong_in_it_is_not_called_right(text, old, new, expected, tmp_path):
    assert old in text
    (result,) = check_text(text.replace(old, new), tmp_path).values()
    assert result.verdict not in FINE, result
    assert not expected or expected in [mistake.id for mistake in result.mistakes], result


ATTENDS_TWICE = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.Wq, self.Wk, self.Wv, self.Wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        q, k, v = self.Wq(query), self.Wk(key), self.Wv(value)
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        scores = scores if mask is None else scores.masked_fill(mask == 0, -math.inf)
        return self.Wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.forward_layer = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, query, key, value):
        x = self.norm1(query + self.attention(query, key, value))
        return self.norm2(x + self.forward_layer(x))


class DecoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.masked_attention, self.norm = MultiHeadAttention(d_model, num_heads), nn.LayerNorm(d_model)
        self.attention2 = EncoderBlock(d_model, num_heads, d_ff)

    def forward(self, query, key, value, mask):
        x = self.norm(query + self.masked_attention(query, query, query, mask))
        return self.attention2(x, key, value)
"""


@pytest.mark.parametrize("old, new, ids", [("", "", []), ("self.norm1(query + self", "self.norm1(self", ["B13"])])
def test_a_block_that_is_called_an_attention_has_a_feed_forward_network(old, new, ids, tmp_path):
    results = check_text(ATTENDS_TWICE.replace(old, new), tmp_path)
    assert results["EncoderBlock"].ids == ids
    found = results["DecoderBlock"]
    assert (found.verdict in FINE, found.divergence) == (not ids, ""), found
