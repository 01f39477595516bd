"""A config with a number of heads of keys and values, of which another flag says that every head has its own."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look

pytestmark = pytest.mark.long

ATTENTION = """
from dataclasses import dataclass


@dataclass
class Config:
    n_embd: int = 64
    n_head: int = 8
    n_kv_head: int = 4
    attn_type: str = "mha"


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.n_head, self.head_dim = config.n_head, config.n_embd // config.n_head
        self.n_kv_head = config.n_kv_head if config.attn_type == "gqa" else config.n_head
        self.c_q = nn.Linear(config.n_embd, self.n_head * self.head_dim)
        self.c_k = nn.Linear(config.n_embd, self.n_kv_head * self.head_dim)
        self.c_v = nn.Linear(config.n_embd, self.n_kv_head * self.head_dim)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q = self.c_q(x).view(B, T, self.n_head, self.head_dim).transpose(1, 2)
        k = self.c_k(x).view(B, T, self.n_kv_head, self.head_dim).transpose(1, 2)
        v = self.c_v(x).view(B, T, self.n_kv_head, self.head_dim).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.n_kv_head < self.n_head)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))
"""


@pytest.mark.parametrize("kind", ["mha", "gqa"])
def test_heads_are_counted_as_they_were_made(kind, tmp_path):
    with time_to_look(1):
        told = check_text(ATTENTION.replace('"mha"', f'"{kind}"'), tmp_path)["CausalSelfAttention"]
    assert (told.ids, told.unexplained) == ([], False) and told.error < 1e-12
