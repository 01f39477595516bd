"""Multi-head attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, init

from scratch_transformer import checks, functional, masks
from scratch_transformer.attention import attention_weights, scaled_dot_product_attention
from scratch_transformer.nn.linear import Linear


class MultiheadAttention(Module):
    """MultiHead(Q, K, V) = Concat(head₁, …, head_h) W_O,  headᵢ = Attention(Q W_Qᵢ, K W_Kᵢ, V W_Vᵢ).

    Source: Vaswani et al. 2017, section 3.2.2. Drop-in for `torch.nn.MultiheadAttention`, always on its slow path.

        query (B, T, E)    ─ W_q ─ split ─ (B, H, T, D) ─┐
        key   (B, S, kdim) ─ W_k ─ split ─ (B, H, S, D) ─┼─ attention ─ (B, H, T, D) ─ join ─ W_o ─ (B, T, E)
        value (B, S, vdim) ─ W_v ─ split ─ (B, H, S, D) ─┘

    B batch, T queries, S keys, E = embed_dim, H = num_heads, D = E / H.

    in_proj_weight: W_q, W_k, W_v stacked, (3E, E); or q_proj_weight (E, E), k_proj_weight (E, kdim), v_proj_weight
    (E, vdim) where kdim or vdim differ from E. in_proj_bias: (3E,). out_proj: W_o, a Linear(E, E).
    bias_k, bias_v: with add_bias_kv, one learned key and value (1, 1, E) appended to every sequence.
    add_zero_attn: append a key and a value of zeros. dropout: on the attention weights.

    Raises:
        ValueError: embed_dim or num_heads is not positive.
        AssertionError: embed_dim is not a multiple of num_heads.
    """

    __constants__ = ["batch_first"]
    in_proj_weight: Tensor
    q_proj_weight: Tensor
    k_proj_weight: Tensor
    v_proj_weight: Tensor
    in_proj_bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"MultiheadAttention: embed_dim and num_heads must be greater than 0, got {embed_dim=} and {num_heads=}"
            )
        if embed_dim % num_heads != 0:
            raise AssertionError(
                f"MultiheadAttention: embed_dim must be divisible by num_heads, got {embed_dim=} and {num_heads=}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn

        def parameter(is_used: bool, *shape: int) -> Parameter | None:
            return Parameter(torch.empty(shape, device=device, dtype=dtype)) if is_used else None

        is_packed, E = self._qkv_same_embed_dim, embed_dim
        self.register_parameter("in_proj_weight", parameter(is_packed, 3 * E, E))
        self.register_parameter("q_proj_weight", parameter(not is_packed, E, E))
        self.register_parameter("k_proj_weight", parameter(not is_packed, E, self.kdim))
        self.register_parameter("v_proj_weight", parameter(not is_packed, E, self.vdim))
        self.register_parameter("in_proj_bias", parameter(bias, 3 * E))
        self.out_proj = Linear(E, E, bias=bias, device=device, dtype=dtype)
        self.register_parameter("bias_k", parameter(add_bias_kv, 1, 1, E))
        self.register_parameter("bias_v", parameter(add_bias_kv, 1, 1, E))
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend.

        Args:
            query, key, value: (B, T, E), (B, S, kdim), (B, S, vdim) with batch_first, else (T, B, E), …; or without B.
            key_padding_mask: (B, S), or (S,) without batch. Boolean: True = ignore the key. Float: added to the scores.
            need_weights: also return the attention weights (in training: after dropout, as torch does).
            attn_mask: (T, S) or (B·H, T, S). Boolean: True = blocked. Float: added to the scores.
            average_attn_weights: average the weights over the heads.
            is_causal: a hint that attn_mask, which must be given, is the causal mask. As in torch it is believed, and
                the mask not looked at, if need_weights is False and there is no key_padding_mask.

        Returns:
            output, shaped like query, and weights (B, T, S), or (B, H, T, S) if not averaged, or None.
            A query that may attend to nothing yields the bias of out_proj and weights of zero; torch yields NaN.

        Raises:
            AssertionError, RuntimeError: shapes or dtypes don't fit, or is_causal comes without attn_mask.
        """
        is_batched = query.dim() == 3
        trusts_hint = is_causal and key_padding_mask is None and not need_weights
        checks.check_multihead_attention(self, query, key, value, key_padding_mask, attn_mask, is_causal, trusts_hint)
        if not is_batched:
            query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)

        mask = None if trusts_hint else self._merge_masks(attn_mask, key_padding_mask)
        q, k, v = self._project(query, key, value)  # (B, T, E), (B, S, E), (B, S, E)
        k, v, mask = self._append_keys(k, v, mask)
        q, k, v = self._split_heads(q), self._split_heads(k), self._split_heads(v)  # (B, H, T, D), (B, H, S, D) twice

        if need_weights:
            weights = attention_weights(q, k, mask)  # (B, H, T, S)
            weights = functional.dropout(weights, self.dropout, self.training)
            heads = weights @ v  # (B, H, T, D)
            weights = weights.mean(dim=1) if average_attn_weights else weights
        else:
            dropout_p = self.dropout if self.training else 0.0
            heads, weights = scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal=trusts_hint), None

        # (T, B, E) in memory as in torch, so that a dropout behind it drops the same elements
        output = self.out_proj(heads.permute(2, 0, 1, 3).flatten(2))
        if not is_batched:
            return output.squeeze(1), None if weights is None else weights.squeeze(0)
        return output.transpose(0, 1) if self.batch_first else output, weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        W_q, W_k, W_v = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        if self._qkv_same_embed_dim:
            W_q, W_k, W_v = self.in_proj_weight.chunk(3)
        b_q, b_k, b_v = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return functional.linear(query, W_q, b_q), functional.linear(key, W_k, b_k), functional.linear(value, W_v, b_v)

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)  # (B, L, E) -> (B, H, L, D)

    def _merge_masks(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None) -> Tensor | None:
        """Both masks as one that broadcasts to the scores (B, H, T, S), in this package's convention."""
        attn_mask = masks.from_blocked(attn_mask, "attn_mask")
        key_padding_mask = masks.from_blocked(key_padding_mask, "key_padding_mask")
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.unflatten(0, (-1, self.num_heads))  # (B·H, T, S) -> (B, H, T, S)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask[..., None, None, :]  # (B, 1, 1, S), or (1, 1, S) without batch
        return masks.combine(attn_mask, key_padding_mask)

    def _append_keys(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """bias_k and bias_v, then zeros, where the options ask for them. Every query may attend to them."""
        extra = []
        if self.bias_k is not None and self.bias_v is not None:
            extra.append((self.bias_k, self.bias_v))
        if self.add_zero_attn:
            extra.append((k.new_zeros(1, 1, self.embed_dim), v.new_zeros(1, 1, self.embed_dim)))
        for key, value in extra:
            k = torch.cat([k, key.expand(k.shape[0], -1, -1).to(k.dtype)], dim=1)
            v = torch.cat([v, value.expand(v.shape[0], -1, -1).to(v.dtype)], dim=1)
        return k, v, masks.append_open_keys(mask, len(extra))
