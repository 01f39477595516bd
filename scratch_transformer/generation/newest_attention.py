"""Attention of the newest token of each text, for `newest`: with merged maps, and features in another order.

Shapes: R texts, h heads, G heads of keys and values, D features of a head, t tokens so far, C tokens that fit.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from scratch_transformer import nn
from scratch_transformer.generation.reading import Part, RMSNorm, paired, reading
from scratch_transformer.language_model import LanguageModel


class Attention:
    """`nn.CausalSelfAttention` behind a normalization, without its last map, of the newest token of each text.

    kept (2, R, G, C, D): keys and values of the tokens so far, which are changed.
    """

    def __init__(
        self, attention: nn.CausalSelfAttention, norm: nn.LayerNorm | nn.RMSNorm, kept: Tensor, is_turned: bool
    ) -> None:
        a = attention
        self.h, self.G, self.D = a.num_heads, a.num_kv_heads, a.head_dim
        self.scale = 1 / math.sqrt(self.D)
        pairs = self.D if is_turned else None
        self.project = reading(norm, [Part(a.q_proj, pairs), Part(a.k_proj, pairs), Part(a.v_proj)], kept.shape[1])
        self.head_norm = (
            None
            if a.q_norm is None or a.k_norm is None
            else _HeadNorm([(a.q_norm, self.h), (a.k_norm, self.G)], is_turned)
        )
        self.blocked: Tensor | None = None
        self.nothing = kept.new_zeros(1, 1, 1)
        if is_turned:
            kept[0] = paired(kept[0])
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

    def __call__(self, x: Tensor, turns: Tensor | None, length: int) -> Tensor:
        """x (R, d_model) -> (R, h·D)."""
        R, h, G, D = len(x), self.h, self.G, self.D
        new = self.project(x)  # queries of h heads, keys and values of G each
        if self.head_norm is not None:
            self.head_norm(new.view(R, h + 2 * G, D).narrow(1, 0, h + G))
        if turns is not None:  # that of a value is 1
            torch.view_as_complex(new.view(R, h + 2 * G, D // 2, 2)).mul_(turns)
        self.kept.select(3, length - 1).copy_(new.narrow(1, h * D, 2 * G * D).view(R, 2, G, D))
        query, keys = new.narrow(1, 0, h * D).reshape(R * G, h // G, D), self.keys.narrow(2, 0, length)
        blocked = self.nothing if self.blocked is None else self.blocked.narrow(2, 0, length)
        scores = torch.baddbmm(blocked, query, keys, alpha=self.scale)
        return scores.softmax(-1).bmm(self.values.narrow(1, 0, length)).view(R, h * D)


class _HeadNorm:
    """The norms of queries and keys, one after the other (norm, heads), in place."""

    def __init__(self, norms: list[tuple[nn.RMSNorm, int]], is_turned: bool) -> None:
        each = [(RMSNorm(norm), heads) for norm, heads in norms]
        gains = [paired(norm.gain) if is_turned else norm.gain for norm, _ in each]
        self.gain = torch.cat([gain.expand(heads, -1) for gain, (_, heads) in zip(gains, each, strict=True)])
        self.plain = each[0][0].plain

    def __call__(self, x: Tensor) -> None:
        x.copy_(self.plain(x).mul_(self.gain))


def turns(model: LanguageModel, capacity: int) -> Tensor:
    """e^iθ of every position, for h queries, G keys and, 1, G values: complex (C, h + 2 G, D/2)."""
    c, weight = model.config, model.embedding.weight
    cos, sin = model.rotary.turns(torch.arange(capacity, device=weight.device), weight.dtype)  # type: ignore
    turned = torch.complex(cos, sin).unsqueeze(1)
    values = torch.ones_like(turned).expand(-1, c.num_kv_heads, -1)
    return torch.cat([turned.expand(-1, c.num_heads + c.num_kv_heads, -1), values], dim=1)
