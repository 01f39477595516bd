"""Lesson 11: the decoder.

    a = x + self_attention(norm₁(x), norm₁(x), norm₁(x), mask)      one layer, pre-norm
    b = a + cross_attention(norm₂(a), memory, memory, memory_mask)
    y = b + feed_forward(norm₃(b))

memory: what the encoder made of the source.

Check it as often as you like:    scratch-transformer check lesson11.py
Stuck? One hint at a time:        scratch-transformer learn decoder --hint
"""

from torch import nn

# Ready-made parts. Put in your own where you have them: from lesson06 import MultiHeadAttention, and so on.
from scratch_transformer.learn.parts import FeedForward, LayerNorm, MultiHeadAttention


class DecoderLayer(nn.Module):
    """Self-attention, attention to the encoder's output, and the feed-forward network."""

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        raise NotImplementedError("not written yet: your code here")

    def forward(self, x, memory, mask=None, memory_mask=None):
        """x (B, T, d_model), memory (B, S, d_model). Returns the shape of x.

        mask: of the target, (B, 1, T, T). memory_mask: of the source, (B, 1, 1, S).
        """
        raise NotImplementedError("not written yet: your code here")
