"""Attention of the newest token of each text, for `newest`: with merged maps, and features in another order.

Shapes: R texts, h heads, G heads of keys and values, D features of a head, t tokens so far, C tokens that fit.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from scratch_transformer import nn
from scratch_transformer.generation.affine import Normalization, Part, behind
from scratch_transformer.language_model import LanguageModel


class Attention:
    """`nn.CausalSelfAttention` without its last map, of the newest token of each text: (R, d_model) -> (R, h·D)."""

    def __init__(self, attention: nn.CausalSelfAttention, norm: Normalization, kept: Tensor) -> None:
        a = attention
        self.h, self.G, self.D = a.num_heads, a.num_kv_heads, a.head_dim
        scale = 1 / math.sqrt(self.D)
        self.gain: Tensor | None = None  # of the norms of queries and keys: (h + G, D)
        if a.q_norm is not None and a.k_norm is not None:
            norms = [(a.q_norm, self.h, scale), (a.k_norm, self.G, 1.0)]
            gains = [_pairs(normalization(each).gain * factor).expand(heads, -1) for each, heads, factor in norms]
            self.gain, self.head_norm, scale = torch.cat(gains), normalization(a.q_norm), 1.0
        parts = [Part(a.q_proj, scale, self.D), Part(a.k_proj, 1.0, self.D), Part(a.v_proj)]
        self.project = behind(norm, parts).for_rows(kept.shape[1])
        self.blocked: Tensor | None = None
        kept[0] = _pairs(kept[0])
        self._keep(kept)

    def block(self, blocked: Tensor) -> None:
        """Padding: -inf, and 0 for tokens, (R, C)."""
        self.blocked = blocked.repeat_interleave(self.G, 0).unsqueeze(1)  # (R·G, 1, C)

    def _keep(self, kept: Tensor) -> None:
        """kept (2, R, G, C, D): keys and values of each token."""
        self.kept = kept.transpose(0, 1)  # (R, 2, G, C, D)
        keys, self.values = kept.flatten(1, 2)  # (R·G, C, D)
        self.keys = keys.transpose(1, 2)

    def keep(self, rows: Tensor) -> None:
        if self.blocked is not None:
            self.blocked = self.blocked.unflatten(0, (-1, self.G))[rows].flatten(0, 1)
        self._keep(self.kept.index_select(0, rows).transpose(0, 1).contiguous())

    def __call__(self, u: Tensor, turns: Tensor | None, length: int) -> Tensor:
        R, h, G, D = len(u), self.h, self.G, self.D
        new = self.project(u)  # queries of h heads, keys and values of G each
        if self.gain is not None:
            turning = new.view(R, h + 2 * G, D).narrow(1, 0, h + G)
            turning.copy_(self.head_norm.direction(turning).mul_(self.gain))
        if turns is not None:  # that of a value is 1
            torch.view_as_complex(new.view(R, h + 2 * G, D // 2, 2)).mul_(turns)
        self.kept.select(3, length - 1).copy_(new.narrow(1, h * D, 2 * G * D).view(R, 2, G, D))
        query, keys = new.narrow(1, 0, h * D).reshape(R * G, h // G, D), self.keys.narrow(2, 0, length)
        if self.blocked is None:
            scores = query.bmm(keys)
        else:
            scores = torch.baddbmm(self.blocked.narrow(2, 0, length), query, keys)
        weights = scores.sub_(scores.logsumexp(-1, keepdim=True)).exp_()  # the softmax: (R·G, h/G, t)
        return weights.bmm(self.values.narrow(1, 0, length)).view(R, h * D)


def turns(model: LanguageModel, capacity: int) -> Tensor:
    """e^iθ of every position, for h queries, G keys and, 1, G values: complex (C, h + 2 G, D/2)."""
    c, weight = model.config, model.embedding.weight
    cos, sin = model.rotary.turns(torch.arange(capacity, device=weight.device), weight.dtype)  # type: ignore
    turned = torch.complex(cos, sin).unsqueeze(1)
    values = torch.ones_like(turned).expand(-1, c.num_kv_heads, -1)
    return torch.cat([turned.expand(-1, c.num_heads + c.num_kv_heads, -1), values], dim=1)


def normalization(norm: Any) -> Normalization:
    """Of an nn.RMSNorm, or of an nn.LayerNorm where rows have no mean."""
    return Normalization(norm.weight, getattr(norm, "bias", None), norm.eps)


def _pairs(x: Tensor) -> Tensor:
    """Features (…, D) in the order 0, D/2, 1, D/2 + 1, …: what rotary turns pair, side by side."""
    return x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
