"""Parts of `model.py` under the names of the exercises, for those that build on others. No dropout.

An exercise that needs an attention must not wait for lesson 6: it imports one from here, until there is one's own.
"""

from __future__ import annotations

from torch import nn

from scratch_transformer import model

__all__ = [
    "Decoder",
    "Encoder",
    "FeedForward",
    "InputEmbeddings",
    "LayerNorm",
    "MultiHeadAttention",
    "PositionalEncoding",
]

InputEmbeddings = model.InputEmbeddings
LayerNorm = model.LayerNormalization


class PositionalEncoding(model.PositionalEncoding):
    """Lesson 2: x (B, T, d_model) -> the same shape."""

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__(d_model, max_len, dropout=0.0)


class MultiHeadAttention(model.MultiHeadAttentionBlock):
    """Lesson 6: query (B, T, d_model), key and value (B, S, d_model), mask -> (B, T, d_model)."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads, dropout=0.0)


class FeedForward(model.FeedForwardBlock):
    """Lesson 8: x (B, T, d_model) -> the same shape."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__(d_model, d_ff, dropout=0.0)


class Encoder(model.Encoder):
    """Lesson 10: x (B, S, d_model), mask -> the shape of x."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, num_layers: int) -> None:
        layers = [
            model.EncoderBlock(d_model, MultiHeadAttention(d_model, num_heads), FeedForward(d_model, d_ff), dropout=0.0)
            for _ in range(num_layers)
        ]
        super().__init__(d_model, nn.ModuleList(layers))


class Decoder(model.Decoder):
    """Layers of lesson 11 and a last norm: x (B, T, d_model), memory (B, S, d_model), src_mask, tgt_mask -> as x."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, num_layers: int) -> None:
        layers = [
            model.DecoderBlock(
                d_model, MultiHeadAttention(d_model, num_heads), MultiHeadAttention(d_model, num_heads),
                FeedForward(d_model, d_ff), dropout=0.0,
            )
            for _ in range(num_layers)
        ]  # fmt: skip
        super().__init__(d_model, nn.ModuleList(layers))
