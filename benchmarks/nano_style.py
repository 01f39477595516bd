"""A GPT as well-known small training scripts have it: torch.nn's layers, one matrix for queries, keys and values."""

import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention, self.output = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.up, self.down = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)

    def forward(self, x):
        B, L, C = x.shape
        q, k, v = (
            part.view(B, L, self.num_heads, C // self.num_heads).transpose(1, 2)
            for part in self.attention(self.norm_1(x)).split(C, dim=2)
        )
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(B, L, C)
        x = x + self.output(heads)
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """The parameters of `Config.gpt2`: learned positions, pre-norm, biases, the head tied to the embedding."""

    def __init__(self, vocab_size, max_length, d_model, num_layers, num_heads):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_length, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embedding.weight)
