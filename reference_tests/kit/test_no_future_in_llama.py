"""A Llama of which nothing hides the future, though each of its layers is right by itself: A25."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

MODEL = """
class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(torch.mean(x**2, dim=-1, keepdim=True) + self.eps)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff * 2), nn.Linear(d_ff, d_model)

    def forward(self, x):
        x1, x2 = self.fc1(x).chunk(2, dim=-1)
        return self.fc2(x1 * F.silu(x2))


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, E = x.shape
        q, k, v = (p(x).view(B, T, self.num_heads, self.head_dim) for p in (self.q_proj, self.k_proj, self.v_proj))
        w = torch.einsum("bqhd,bkhd->bhqk", q, k) / self.head_dim**0.5
        HIDDEN
        w = self.dropout(w.softmax(-1))
        return self.out_proj(torch.einsum("bhqk,bkhd->bqhd", w, v).reshape(B, T, E))


class LlamaLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn, self.ffn = Attention(d_model, num_heads, dropout), SwiGLU(d_model, d_ff)
        self.norm1, self.norm2 = RMSNorm(d_model), RMSNorm(d_model)

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class LlamaModel(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList([LlamaLayer(d_model, num_heads, d_ff, dropout) for _ in range(num_layers)])
        self.norm, self.fc = RMSNorm(d_model), nn.Linear(d_model, vocab_size)

    def forward(self, input_ids, attention_mask=None):
        x = self.embeddings(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.fc(self.norm(x))
"""
MASK = 'w = w.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))'


@pytest.mark.long
def test_a_llama_that_hides_nothing_is_named_whatever_else_its_layers_have(tmp_path):
    """It takes a mask that it never reads; it has another ε than the reference, as its layers do."""
    results = check_text(MODEL.replace("HIDDEN", ""), tmp_path)
    assert "A25" in {one.id for one in results["LlamaModel"].mistakes if one.severity == "mistake"}, results[
        "LlamaModel"
    ]
    assert results["LlamaLayer"].verdict in FINE


@pytest.mark.long
def test_one_that_hides_the_future_is_right(tmp_path):
    text = MODEL.replace("HIDDEN", MASK).replace(", attention_mask=None", "")  # which nothing reads
    result = check_text(text, tmp_path)["LlamaModel"]
    assert result.verdict in FINE and "A25" not in result.ids, result
