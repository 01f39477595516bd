"""Layers that are given their parts: what lies in the files beside is put together elsewhere."""

import torch.nn as nn


class EncoderLayer(nn.Module):
    def __init__(self, d_model, multi_head_attention, feed_forward):
        super().__init__()
        self.attention, self.feed_forward = multi_head_attention, feed_forward
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.feed_forward(x))


class EncoderBlock(nn.Module):
    """It makes its parts of classes."""

    def __init__(self, d_model, num_heads, d_ff, MultiHeadAttention, FeedForward):
        super().__init__()
        self.attention, self.feed_forward = MultiHeadAttention(d_model, num_heads), FeedForward(d_model, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.feed_forward(x))
