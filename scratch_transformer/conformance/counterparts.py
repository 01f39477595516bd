"""What torch.nn has no module for, put together from what it has: the other side of the comparison.

Written otherwise than ours where there is another way: a rotary turn is a product of complex numbers, Llama 3's scaling
looks at wavelengths, causality is a matrix, and sharing keys is left to torch's attention.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
}


class RotaryEmbedding(nn.Module):
    """The counterpart of `nn.RotaryEmbedding`."""

    def __init__(self, d: int, base: float = 10_000.0, scaling: Any = None, interleaved: bool = False) -> None:
        super().__init__()
        self.d, self.base, self.scaling, self.interleaved = d, base, scaling, interleaved

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (B, h, L, d), positions (L,) or (B, L)."""
        exponents = torch.arange(self.d // 2, dtype=torch.float64, device=x.device) * 2 / self.d
        angles = positions.double()[..., None] * self._scaled(1 / self.base**exponents)
        angles = angles.unsqueeze(1) if positions.dim() == 2 else angles
        return _turned(x, torch.stack((angles.cos(), angles.sin())), self.interleaved)

    def extra_repr(self) -> str:
        """As ours."""
        return f"{self.d}, base={self.base}, scaling={self.scaling}, interleaved={self.interleaved}"

    def _scaled(self, frequencies: Tensor) -> Tensor:
        s = self.scaling
        if s is None or s.original_length is None:
            return frequencies if s is None else frequencies / s.factor
        lengths = 2 * math.pi / frequencies  # tokens to a whole turn
        low, high = s.low_frequency_factor, s.high_frequency_factor
        smooth = (s.original_length / lengths - low) / (high - low)
        between = (1 - smooth) * frequencies / s.factor + smooth * frequencies
        slow = torch.where(lengths > s.original_length / low, frequencies / s.factor, between)
        return torch.where(lengths < s.original_length / high, frequencies, slow)


class GatedFeedForward(nn.Module):
    """The counterpart of `nn.GatedFeedForward`."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: str = "silu",
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.gate_proj = nn.Linear(d_model, d_ff, bias, device, dtype)
        self.up_proj = nn.Linear(d_model, d_ff, bias, device, dtype)
        self.down_proj = nn.Linear(d_ff, d_model, bias, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(*, d_model)."""
        return self.down_proj(ACTIVATIONS[self.activation](self.gate_proj(x)) * self.up_proj(x))

    def extra_repr(self) -> str:
        """As ours."""
        return f"activation={self.activation!r}"


class CausalSelfAttention(nn.Module):
    """The counterpart of `nn.CausalSelfAttention`."""

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
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads or num_heads
        self.head_dim, self.interleaved, self.dropout = head_dim or d_model // num_heads, interleaved, dropout
        made = {"device": device, "dtype": dtype}
        self.q_proj = nn.Linear(d_model, self.num_heads * self.head_dim, bias, **made)
        self.k_proj = nn.Linear(d_model, self.num_kv_heads * self.head_dim, bias, **made)
        self.v_proj = nn.Linear(d_model, self.num_kv_heads * self.head_dim, bias, **made)
        self.o_proj = nn.Linear(
            self.num_heads * self.head_dim, d_model, bias if output_bias is None else output_bias, **made
        )
        has_norm = query_key_norm is not None
        self.q_norm = nn.RMSNorm(self.head_dim, query_key_norm, **made) if has_norm else None
        self.k_norm = nn.RMSNorm(self.head_dim, query_key_norm, **made) if has_norm else None

    def forward(
        self,
        x: Tensor,
        turns: Tensor | None = None,
        cache: Any = None,
        layer: int = 0,
        mask: Tensor | None = None,
    ) -> Tensor:
        """(B, L, d_model)."""
        q, k, v, allowed = self.attended(x, turns, cache, layer, mask)
        p = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, allowed, p, enable_gqa=True)
        return self.o_proj(heads.transpose(1, 2).flatten(2))

    def attended(
        self, x: Tensor, turns: Tensor | None, cache: Any, layer: int, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys and values of every head, and which keys each query may attend to."""
        q, k, v = (
            projection(x).unflatten(-1, (heads, self.head_dim))
            for projection, heads in (
                (self.q_proj, self.num_heads),
                (self.k_proj, self.num_kv_heads),
                (self.v_proj, self.num_kv_heads),
            )
        )
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if turns is not None:
            q, k = _turned(q, turns, self.interleaved), _turned(k, turns, self.interleaved)
        if cache is not None:
            k, v = cache.append(layer, k, v)
        L, S = q.shape[2], k.shape[2]
        allowed = torch.ones(L, S, dtype=torch.bool, device=x.device).tril(S - L)
        return q, k, v, allowed if mask is None else allowed & mask

    def extra_repr(self) -> str:
        """As ours."""
        return (
            f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, head_dim={self.head_dim}, "
            f"interleaved={self.interleaved}, dropout={self.dropout}"
        )


def _turned(x: Tensor, turns: Tensor, interleaved: bool) -> Tensor:
    """x (*, L, d) times cos θ + i sin θ, a pair of features being one complex number."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    pairs = x.to(wide).unflatten(-1, (-1, 2)) if interleaved else x.to(wide).unflatten(-1, (2, -1)).transpose(-2, -1)
    z = torch.complex(*pairs.unbind(-1)) * torch.complex(*turns.to(wide))
    turned = torch.stack((z.real, z.imag), dim=-1)
    return (turned if interleaved else turned.transpose(-2, -1)).flatten(-2).to(x.dtype)
