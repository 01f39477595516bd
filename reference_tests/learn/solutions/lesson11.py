"""Lesson 11, the decoder: right."""

from torch import nn

from scratch_transformer.learn.parts import FeedForward, LayerNorm, MultiHeadAttention


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = LayerNorm(d_model)
        self.norm2 = LayerNorm(d_model)
        self.norm3 = LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        y = self.norm1(x)
        x = x + self.self_attention(y, y, y, mask)
        x = x + self.cross_attention(self.norm2(x), memory, memory, memory_mask)
        return x + self.feed_forward(self.norm3(x))
