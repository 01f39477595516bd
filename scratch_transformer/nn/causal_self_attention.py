"""Self-attention of a language model."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import Module

from scratch_transformer import checks, functional
from scratch_transformer.attention import scaled_dot_product_attention
from scratch_transformer.nn.cache import KeyValueCache
from scratch_transformer.nn.linear import Linear
from scratch_transformer.nn.normalization import RMSNorm


class CausalSelfAttention(Module):
    """Every token attends to itself and to the tokens before it. Vaswani et al. 2017, section 3.2.3.

        x (B, L, d_model) ─┬─ q_proj ─ (B, h, L, D) ─ q_norm ─ turned ─┐
                           ├─ k_proj ─ (B, G, L, D) ─ k_norm ─ turned ─┼─ attention ─ (B, h, L, D) ─ o_proj ─ as x
                           └─ v_proj ─ (B, G, L, D) ───────────────────┘

    B batch, L new tokens, S all tokens so far, h = num_heads, G = num_kv_heads, D = head_dim.

    num_kv_heads: heads of keys and values, h unless given. With fewer, each serves h / G queries in a row: grouped
        queries; source: Ainslie et al. 2023.
    head_dim: d_model / h unless given.
    bias: of all four projections; output_bias: of o_proj, unless it is as that of the others.
    query_key_norm: the ε of an `RMSNorm` of the D features of queries and keys (q_norm, k_norm); None: without. Source:
        Henry et al. 2020; of this form: Qwen 3.
    interleaved: which features rotary turns pair, as in `functional.rotary`.
    dropout: on the attention weights.

    Raises:
        ValueError: h is not a multiple of G, or d_model none of h and no head_dim is given, or a size is not positive.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = False,
        query_key_norm: float | None = None,
        interleaved: bool = False,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
        output_bias: bool | None = None,
    ) -> None:
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        checks.check_causal_self_attention(d_model, num_heads, num_kv_heads, head_dim, dropout)
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = d_model // num_heads if head_dim is None else head_dim
        self.interleaved = interleaved
        self.dropout = dropout
        queries, keys = num_heads * self.head_dim, num_kv_heads * self.head_dim
        self.q_proj = Linear(d_model, queries, bias, device, dtype)
        self.k_proj = Linear(d_model, keys, bias, device, dtype)
        self.v_proj = Linear(d_model, keys, bias, device, dtype)
        self.o_proj = Linear(queries, d_model, bias if output_bias is None else output_bias, device, dtype)
        has_norm, eps = query_key_norm is not None, query_key_norm
        self.q_norm = RMSNorm(self.head_dim, eps, device=device, dtype=dtype) if has_norm else None
        self.k_norm = RMSNorm(self.head_dim, eps, device=device, dtype=dtype) if has_norm else None

    def forward(
        self,
        x: Tensor,
        turns: Tensor | None = None,
        cache: KeyValueCache | None = None,
        layer: int = 0,
        mask: Tensor | None = None,
    ) -> Tensor:
        """x (B, L, d_model) -> (B, L, d_model).

        Args:
            turns: rotary turns of the new tokens, (2, L, D/2) or (2, B, 1, L, D/2), as `RotaryEmbedding.turns` makes
                them; None: without.
            cache: keys and values of the tokens before x, to which those of x are added.
            layer: whose keys and values in the cache these are.
            mask: to which keys a query may attend besides, broadcasting to (B, h, L, S): boolean, True = may. A query
                that may attend to none yields the bias of o_proj.
        """
        checks.check_features("CausalSelfAttention", x, self.q_proj.in_features)
        q = self._heads(self.q_proj(x), self.q_norm, turns)  # (B, h, L, D)
        k = self._heads(self.k_proj(x), self.k_norm, turns)  # (B, G, L, D)
        v = self._heads(self.v_proj(x))
        if cache is not None:
            k, v = cache.append(layer, k, v)  # (B, G, S, D)
        heads = scaled_dot_product_attention(
            q,
            k,
            v,
            mask,
            self.dropout if self.training else 0.0,
            is_causal=q.shape[-2] > 1,  # a single query is the last: it may see all
            enable_gqa=True,
            bottom_right=True,
        )
        return self.o_proj(heads.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor, norm: RMSNorm | None = None, turns: Tensor | None = None) -> Tensor:
        """(B, L, heads · D) -> (B, heads, L, D), normalized and turned."""
        x = x.unflatten(-1, (-1, self.head_dim))
        x = (x if norm is None else norm(x)).transpose(1, 2)
        return x if turns is None else functional.rotary(x, turns, self.interleaved)

    def extra_repr(self) -> str:
        return (
            f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, head_dim={self.head_dim}, "
            f"interleaved={self.interleaved}, dropout={self.dropout}"
        )
