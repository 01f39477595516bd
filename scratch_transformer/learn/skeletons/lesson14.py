"""Lesson 14: the whole Transformer, ready to be trained.

    memory = encoder(positions(src_embed(src)), src_mask)
    logits = projection(decoder(positions(tgt_embed(tgt)), memory, tgt_mask, src_mask))

The decoder's attention to memory is masked by src_mask.

Check it as often as you like:    scratch-transformer check lesson14.py
Stuck? One hint at a time:        scratch-transformer learn training --hint
"""

from torch import nn

# Ready-made parts. Put in your own where you have them: from lesson06 import MultiHeadAttention, and so on.
from scratch_transformer.learn.parts import Decoder, Encoder, InputEmbeddings, PositionalEncoding


class Transformer(nn.Module):
    """Ids of two languages to a score for every next word."""

    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        raise NotImplementedError("not written yet: your code here")

    def forward(self, src, tgt, src_mask=None, tgt_mask=None):
        """src (B, S), tgt (B, T): ids. src_mask (B, 1, 1, S), tgt_mask (B, 1, T, T). Returns (B, T, tgt_vocab_size)."""
        raise NotImplementedError("not written yet: your code here")
