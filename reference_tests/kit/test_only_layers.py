"""A model that is its only layer: its attention, norms and network stand beside its embeddings, and in no list."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

FLAT = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, max_len, times=2):
        super().__init__()
        self.tok_emb, self.pos_emb = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.attn, self.ln1, self.ln2 = SelfAttention(d_model, num_heads), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
        self.head, self.times = nn.Linear(d_model, vocab_size), times
        self.ln_f = FINAL

    def forward(self, idx):
        x = self.tok_emb(idx) + self.pos_emb(torch.arange(idx.shape[1], device=idx.device))
        LAYER
        return self.head(self.ln_f(x))
"""
ONCE = "x = x + self.attn(self.ln1(x))\n        x = x + self.ff(self.ln2(x))"
POST = "x = self.ln1(x + self.attn(x))\n        x = self.ln2(x + self.ff(x))"
AGAIN = (
    "for _ in range(self.times):\n            x = x + self.attn(self.ln1(x))\n            x = x + self.ff(self.ln2(x))"
)


@pytest.mark.parametrize("layer, final, ids", [
    (ONCE, "nn.Identity()", []),
    (ONCE, "nn.LayerNorm(d_model)", []),
    (POST, "nn.Identity()", []),
    (ONCE.replace("x = x + self.ff", "x = self.ff"), "nn.Identity()", ["B13"]),
    (AGAIN, "nn.Identity()", ["B9"]),
])  # fmt: skip
@pytest.mark.long
def test_a_model_that_is_its_only_layer_repeats_none(layer, final, ids, tmp_path):
    result = check_text(FLAT.replace("LAYER", layer).replace("FINAL", final), tmp_path)["TinyGPT"]
    assert result.severe == ids, result
    assert (result.verdict in FINE) == (not ids), result
