"""The language model of today in one file, from token ids to the logits of the next token. Read it from top to bottom.

    ids (B, L) ─ embedding (+ learned positions) ─ num_layers × Block ─ norm ─ head ─ logits (B, L, vocab_size)

    Block:  x + attention(norm(x))       each token to itself and those before it; rotary positions turn queries, keys
            x + feed_forward(norm(x))    two matrices and an activation, or three and a gate

    config = Config.llama(vocab_size=1000, d_model=64, num_layers=2, num_heads=4, num_kv_heads=2, d_ff=160)
    logits = LanguageModel(config)(ids)

Which of the published models it is, `Config` says by a handful of choices:

| family    | norm  | positions | feed-forward    | biases | queries a key | norm of queries, keys |
|-----------|-------|-----------|-----------------|--------|---------------|-----------------------|
| GPT-2     | layer | learned   | GELU            | yes    | 1             | no                    |
| Llama 2   | RMS   | rotary    | gated, SiLU     | no     | 1 to 8        | no                    |
| Llama 3   | RMS   | rotary    | gated, SiLU     | no     | 4 to 16       | no                    |
| Mistral   | RMS   | rotary    | gated, SiLU     | no     | 4             | no                    |
| Qwen 2    | RMS   | rotary    | gated, SiLU     | q, k, v| 5 to 8        | no                    |
| Qwen 3    | RMS   | rotary    | gated, SiLU     | no     | 2 to 16       | yes                   |

Shapes: B sequences, L tokens in each, S tokens with those in the cache, h heads. Sources: Radford et al. 2019 (GPT-2),
Touvron et al. 2023 (Llama 2), Llama team 2024 (Llama 3), Jiang et al. 2023 (Mistral, without its window), Qwen team
2024, 2025 (Qwen 2, Qwen 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from scratch_transformer import functional, nn
from scratch_transformer.functional import RotaryScaling
from scratch_transformer.nn import init
from scratch_transformer.nn.feed_forward import ACTIVATIONS

CHOICES = {
    "norm": ("layer", "rms"),
    "positions": ("learned", "rotary"),
    "activation": tuple(ACTIVATIONS),
}


@dataclass(frozen=True)
class Config:
    """The sizes and the choices of a language model. `Config.gpt2()`, `.llama()` and `.qwen3()` begin with a family's.

    vocab_size, max_length: tokens that there are, and of the longest sequence.
    num_kv_heads: of keys and values; each is used by num_heads / num_kv_heads queries. head_dim: d_k of each head.
    d_ff: inner width of the feed-forward. norm: "layer" (with bias) or "rms". norm_eps: its ε.
    positions: "learned", added to the embedding, or "rotary". rope_base, rope_scaling: as in `nn.RotaryEmbedding`.
    activation: one of `nn.GatedFeedForward`'s. gated: three matrices, as there; otherwise two.
    bias, feed_forward_bias: of the attention's four maps, and of the feed-forward's. output_bias: of the attention's
        last map; None: as `bias` says.
    query_key_norm: each head's query and key are normalized before they are turned (Qwen 3).
    tie_embeddings: the head's matrix is the embedding's. dropout: of embeddings, attention weights and sublayers.

    `Config(**dataclasses.asdict(config))` is the config again, also by way of JSON. ValueError, naming the field, for
    sizes and choices that do not fit together.
    """

    vocab_size: int
    max_length: int
    d_model: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    d_ff: int
    norm: str = "rms"
    norm_eps: float = 1e-5
    positions: str = "rotary"
    rope_base: float = 10_000.0
    rope_scaling: RotaryScaling | None = None
    activation: str = "silu"
    gated: bool = True
    bias: bool = False
    feed_forward_bias: bool = False
    output_bias: bool | None = None
    query_key_norm: bool = False
    tie_embeddings: bool = False
    dropout: float = 0.0

    @classmethod
    def gpt2(cls, **changes: Any) -> Config:
        """GPT-2's; the smallest published one's sizes (124 million parameters), and whatever `changes` says instead."""
        sizes = {"vocab_size": 50_257, "max_length": 1024, "d_model": 768, "num_layers": 12, "num_heads": 12}
        choices = {"norm": "layer", "positions": "learned", "activation": "gelu_tanh", "gated": False}
        biases = {"bias": True, "feed_forward_bias": True, "tie_embeddings": True}
        return cls._of(sizes | choices | biases | changes)

    @classmethod
    def llama(cls, **changes: Any) -> Config:
        """Llama's; Llama 3.2 1B's sizes without its scaling of positions, and whatever `changes` says instead."""
        sizes = {"vocab_size": 128_256, "max_length": 8192, "d_model": 2048, "num_layers": 16, "num_heads": 32}
        more = {"num_kv_heads": 8, "d_ff": 8192, "rope_base": 500_000.0, "tie_embeddings": True}
        return cls._of(sizes | more | changes)

    @classmethod
    def qwen3(cls, **changes: Any) -> Config:
        """Qwen 3's; the sizes of the one with 0.6 billion parameters, and whatever `changes` says instead."""
        sizes = {"vocab_size": 151_936, "max_length": 40_960, "d_model": 1024, "num_layers": 28, "num_heads": 16}
        more = {"num_kv_heads": 8, "head_dim": 128, "d_ff": 3072, "rope_base": 1_000_000.0, "norm_eps": 1e-6}
        return cls._of(sizes | more | {"query_key_norm": True, "tie_embeddings": True} | changes)

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Config:
        d_model, num_heads = values["d_model"], values["num_heads"]
        if "head_dim" not in values and (num_heads < 1 or d_model % num_heads):
            raise ValueError(f"Config: num_heads must divide {d_model=}, or head_dim be given, but is {num_heads}")
        return cls(
            **{"num_kv_heads": num_heads, "head_dim": d_model // max(num_heads, 1), "d_ff": 4 * d_model} | values
        )

    def __post_init__(self) -> None:
        scaling: Any = self.rope_scaling
        if isinstance(scaling, dict):  # from JSON
            object.__setattr__(self, "rope_scaling", RotaryScaling(**scaling))
        for name, possible in CHOICES.items():
            if (value := getattr(self, name)) not in possible:
                raise ValueError(f"Config: {name} must be one of {', '.join(possible)}, but is {value!r}")
        for name, size in vars(self).items():
            if type(size) is int and size < 1:
                raise ValueError(f"Config: {name} must be at least 1, but is {size}")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"Config: num_kv_heads must divide num_heads={self.num_heads}, but is {self.num_kv_heads}")
        if self.positions == "rotary" and self.head_dim % 2:
            raise ValueError(f"Config: head_dim must be even for rotary positions, but is {self.head_dim}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"Config: dropout must be at least 0 and below 1, but is {self.dropout}")


class FeedForward(nn.Module):
    """down(activation(up(x))), each token by itself: Vaswani et al. 2017, section 3.3. Ungated, as in GPT-2."""

    def __init__(self, d_model: int, d_ff: int, activation: str, bias: bool) -> None:
        super().__init__()
        self.activation = activation
        self.up_proj = nn.Linear(d_model, d_ff, bias)
        self.down_proj = nn.Linear(d_ff, d_model, bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(ACTIVATIONS[self.activation](self.up_proj(x)))  # (B, L, d_model)


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)): (B, L, d_model) -> the same.

    Pre-norm: nothing stands between a block's x and the next one's but sums (Radford et al. 2019, section 2.3).
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        c = config
        eps = c.norm_eps if c.query_key_norm else None
        self.attention_norm = _norm(c)
        self.attention = nn.CausalSelfAttention(
            c.d_model, c.num_heads, c.num_kv_heads, c.head_dim, c.bias, query_key_norm=eps, dropout=c.dropout,
            output_bias=c.output_bias,
        )  # fmt: skip
        self.feed_forward_norm = _norm(c)
        feed_forward = nn.GatedFeedForward if c.gated else FeedForward
        self.feed_forward = feed_forward(c.d_model, c.d_ff, c.activation, c.feed_forward_bias)
        self.dropout = nn.Dropout(c.dropout)

    def forward(
        self, x: Tensor, turns: Tensor | None, cache: nn.KeyValueCache | None, layer: int, mask: Tensor | None
    ) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), turns, cache, layer, mask))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class LanguageModel(nn.Module):
    """The logits of the token after each one: softmax of row t is P(token t + 1 | tokens 0 … t)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        c = self.config = config
        is_rotary = c.positions == "rotary"
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.positions = None if is_rotary else nn.Embedding(c.max_length, c.d_model)
        self.rotary = nn.RotaryEmbedding(c.head_dim, c.rope_base, c.rope_scaling) if is_rotary else None
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.num_layers))
        self.norm = _norm(c)
        self.head = None if c.tie_embeddings else nn.Linear(c.d_model, c.vocab_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Matrices from N(0, 0.02²), those that write into the sum of 2 num_layers terms by √(2 num_layers) smaller.

        Biases are zero. Source: Radford et al. 2019, section 2.3, and their published code for the 0.02.
        """
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                writes = name.endswith(("o_proj.weight", "down_proj.weight"))
                init.normal_(parameter, std=0.02 / math.sqrt(2 * self.config.num_layers) if writes else 0.02)
            elif name.endswith("bias"):
                init.zeros_(parameter)

    def forward(
        self, ids: Tensor, cache: nn.KeyValueCache | None = None, mask: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Logits (B, L, vocab_size).

        Args:
            ids: (B, L), integers below vocab_size. With a cache, those that follow what is in it, which is extended.
            cache: `nn.KeyValueCache(num_layers)`, or None: ids are the whole sequences.
            mask: boolean, True = a token, False = padding: (B, S), S = L and what is in the cache. Or, for several
                texts in one row, which key each query may attend to: (B, 1, L, S).
            positions: (L,) or (B, L); unless given, tokens are counted from 0, those that `mask` (B, S) blocks not.

        Raises:
            ValueError: ids or mask have another shape, or there are no learned positions for so many tokens.
            IndexError: an id is not below vocab_size.
        """
        return self.project(self.states(ids, cache, mask, positions))

    def states(
        self, ids: Tensor, cache: nn.KeyValueCache | None = None, mask: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """What the head looks at, (B, L, d_model); arguments as in `forward`."""
        start = 0 if cache is None else cache.length
        positions = self._positions(ids, start, mask) if positions is None else positions
        mask = mask[:, None, None, :] if mask is not None and mask.dim() == 2 else mask
        x = self.embedding(ids)
        if self.positions is not None:
            x = x + self.positions(positions)
        turns = None if self.rotary is None else self.rotary.turns(positions, x.dtype)  # the same for all blocks
        x = self.dropout(x)
        for layer, block in enumerate(self.blocks):
            x = block(x, turns, cache, layer, mask)
        return self.norm(x)

    def project(self, states: Tensor) -> Tensor:
        """states (…, d_model) -> logits (…, vocab_size)."""
        return functional.linear(states, self.embedding.weight) if self.head is None else self.head(states)

    def _positions(self, ids: Tensor, start: int, mask: Tensor | None) -> Tensor:
        c, end = self.config, start + ids.shape[-1]
        if ids.dim() != 2:
            raise ValueError(f"LanguageModel: ids must be (B, L), but have shape {tuple(ids.shape)}")
        if self.positions is not None and end > c.max_length:
            raise ValueError(f"LanguageModel: {end} tokens are more than its positions, max_length={c.max_length}")
        if mask is None or mask.dim() != 2:
            return torch.arange(start, end, device=ids.device)
        if mask.dtype != torch.bool or tuple(mask.shape) != (len(ids), end):
            shape = f"{mask.dtype} of shape {tuple(mask.shape)}"
            raise ValueError(f"LanguageModel: mask must be boolean of shape {(len(ids), end)}, (B, S), but is {shape}")
        return (mask.cumsum(-1) - 1).clamp_min(0)[:, start:]


def _norm(config: Config) -> nn.LayerNorm | nn.RMSNorm:
    return (nn.LayerNorm if config.norm == "layer" else nn.RMSNorm)(config.d_model, config.norm_eps)
