"""The decoder: one layer, and the stack."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import Module

from scratch_transformer import checks, functional
from scratch_transformer.nn.dropout import Dropout
from scratch_transformer.nn.encoder import Activation, activation_function, causal_hint, clones
from scratch_transformer.nn.linear import Linear
from scratch_transformer.nn.multihead_attention import MultiheadAttention
from scratch_transformer.nn.normalization import LayerNorm


class TransformerDecoderLayer(Module):
    """Self-attention, attention over the encoder's output, feed-forward; each with a residual connection and a norm.

        post-norm (the paper):  x ← norm1(x + SA(x));  x ← norm2(x + CA(x, memory));  x ← norm3(x + FF(x))
        pre-norm (norm_first):  x ← x + SA(norm1(x));  x ← x + CA(norm2(x), memory);  x ← x + FF(norm3(x))

    SA(x) = dropout1(self_attn(x, x, x));  CA(x, m) = dropout2(multihead_attn(x, m, m));
    FF(x) = dropout3(linear2(dropout(activation(linear1(x))))).
    Source: Vaswani et al. 2017, sections 3.1 and 3.2.3. Drop-in for `torch.nn.TransformerDecoderLayer`.

    Raises:
        RuntimeError: activation is a string other than "relu" and "gelu".
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        factory = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias=bias, batch_first=batch_first, **factory)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias=bias, batch_first=batch_first, **factory)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation_function(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt (B, T, E), memory (B, S, E) if batch_first, else (T, B, E), (S, B, E), or without B -> like tgt.

        Masks and the is_causal hints: as in `MultiheadAttention.forward`.
        """
        checks.refuse_nested(self, tgt=tgt, memory=memory)
        x = tgt
        self_masks = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        memory_masks = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *self_masks)
            x = x + self._mha_block(self.norm2(x), memory, *memory_masks)
            x = x + self._ff_block(self.norm3(x))
        else:
            x = self.norm1(x + self._sa_block(x, *self_masks))
            x = self.norm2(x + self._mha_block(x, memory, *memory_masks))
            x = self.norm3(x + self._ff_block(x))
        return x

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attended, _ = self.self_attn(
            x,
            x,
            x,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            attn_mask=attn_mask,
            is_causal=is_causal,
        )
        return self.dropout1(attended)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        attended, _ = self.multihead_attn(
            x,
            mem,
            mem,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            attn_mask=attn_mask,
            is_causal=is_causal,
        )
        return self.dropout2(attended)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoder(Module):
    """num_layers copies of decoder_layer, one after the other, and then `norm` if there is one.

    Source: Vaswani et al. 2017, section 3.1. Drop-in for `torch.nn.TransformerDecoder`.
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt (B, T, E), memory (B, S, E) if batch_first, else (T, B, E), (S, B, E), or without B -> like tgt.

        tgt_is_causal=None: the layers get the hint if tgt_mask is the causal mask (see `encoder.causal_hint`).
        """
        checks.refuse_nested(self, tgt=tgt, memory=memory)
        x, tgt_is_causal = tgt, causal_hint(tgt_is_causal, tgt_mask, tgt, self.layers)
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)
