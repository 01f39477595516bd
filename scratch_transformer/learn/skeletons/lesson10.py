"""Lesson 10: the encoder.

    a = x + attention(norm₁(x), norm₁(x), norm₁(x), mask)       one layer, pre-norm
    y = a + feed_forward(norm₂(a))

The encoder: num_layers such layers, each with weights of its own, and a last norm.

Check it as often as you like:    scratch-transformer check lesson10.py
Stuck? One hint at a time:        scratch-transformer learn encoder --hint
"""

from torch import nn

# Ready-made parts. Put in your own where you have them: from lesson06 import MultiHeadAttention, and so on.
from scratch_transformer.learn.parts import FeedForward, LayerNorm, MultiHeadAttention


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each within a residual connection."""

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        raise NotImplementedError("not written yet: your code here")

    def forward(self, x, mask=None):
        """x: (B, S, d_model); mask as in attention. Returns the shape of x."""
        raise NotImplementedError("not written yet: your code here")


class Encoder(nn.Module):
    """Layers one after the other, then a norm."""

    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        raise NotImplementedError("not written yet: your code here")

    def forward(self, x, mask=None):
        """x: (B, S, d_model); every layer gets the mask. Returns the shape of x."""
        raise NotImplementedError("not written yet: your code here")
