"""The encoder: one layer, and the stack."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, ModuleList

from scratch_transformer import checks, functional, masks
from scratch_transformer.nn.dropout import Dropout
from scratch_transformer.nn.linear import Linear
from scratch_transformer.nn.multihead_attention import MultiheadAttention
from scratch_transformer.nn.normalization import LayerNorm

Activation = Callable[[Tensor], Tensor]


def activation_function(activation: str | Activation) -> Activation:
    """ "relu" or "gelu" as a function; a callable as it is.

    Raises:
        RuntimeError: another string.
    """
    if not isinstance(activation, str):
        return activation
    named = {"relu": functional.relu, "gelu": functional.gelu}
    if activation not in named:
        raise RuntimeError(f"activation should be relu/gelu or a callable, not {activation!r}")
    return named[activation]


def clones(layer: Module, num_layers: int) -> ModuleList:
    """num_layers independent copies, all with the same initial parameters (as in torch)."""
    return ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])


def causal_hint(is_causal: bool | None, mask: Tensor | None, x: Tensor, layers: Any) -> bool:
    """The hint is_causal for the layers; as in torch, None means: look whether `mask` is the causal mask of x's length.

    Where values cannot be looked at (in a compiled graph, under vmap, on the meta device) None means no hint, and the
    mask is applied as it is.
    """
    if is_causal is not None or mask is None or torch.compiler.is_compiling():
        return bool(is_causal)
    try:
        looks_causal = masks.is_causal(mask)
    except RuntimeError:
        return False
    batch_first = x.dim() == 3 and layers[0].self_attn.batch_first
    return looks_causal and len(mask) == x.shape[1 if batch_first else 0]


class TransformerEncoderLayer(Module):
    """Self-attention, then a feed-forward network, each with a residual connection and layer normalization.

        post-norm (the paper):  x ← norm1(x + SA(x));   x ← norm2(x + FF(x))
        pre-norm (norm_first):  x ← x + SA(norm1(x));   x ← x + FF(norm2(x))

    SA(x) = dropout1(self_attn(x, x, x));  FF(x) = dropout2(linear2(dropout(activation(linear1(x))))).
    The dropout inside FF is torch's; the paper has none there. Source: Vaswani et al. 2017, sections 3.1 and 3.3.
    Drop-in for `torch.nn.TransformerEncoderLayer`.

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
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation_function(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """src (B, S, E) if batch_first, else (S, B, E), or (S, E) -> the same shape.

        Masks and the is_causal hint: as in `MultiheadAttention.forward`.
        """
        checks.refuse_nested(self, src=src)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            x = x + self._ff_block(self.norm2(x))
        else:
            x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
            x = self.norm2(x + self._ff_block(x))
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

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """num_layers copies of encoder_layer, one after the other, and then `norm` if there is one.

    The paper has no final norm after post-norm layers; `Transformer` passes one, as torch does.
    enable_nested_tensor, mask_check: accepted and ignored; they steer torch's fast path, of which there is none here.
    Source: Vaswani et al. 2017, section 3.1. Drop-in for `torch.nn.TransformerEncoder`.
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """src (B, S, E) if batch_first, else (S, B, E), or (S, E) -> the same shape.

        is_causal=None: the layers get the hint if `mask` is the causal mask (see `causal_hint`).
        """
        checks.refuse_nested(self, src=src)
        x, is_causal = src, causal_hint(is_causal, mask, src, self.layers)
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=is_causal)
        return x if self.norm is None else self.norm(x)
