"""The Transformer of *Attention Is All You Need* in one file, from token ids to logits. Read it from top to bottom.

    src (B, S) ─ src_embed ─ src_pos ─ encoder: N × (self-attention, feed-forward) ─ encoder_output (B, S, d_model) ─┐
    tgt (B, T) ─ tgt_embed ─ tgt_pos ─ decoder: N × (self-attention, cross-attention, feed-forward) ─────────────────┘
                                          └─ projection_layer ─ logits (B, T, tgt_vocab_size)

    model = build_transformer(src_vocab_size, tgt_vocab_size, src_seq_len, tgt_seq_len)
    src_mask = masks.padding(src, src_pad_id)                                 # (B, 1, 1, S)
    tgt_mask = masks.padding(tgt, tgt_pad_id) & masks.causal(tgt.shape[1])    # (B, 1, T, T)
    logits = model(src, tgt, src_mask, tgt_mask)

The names are those of the widespread tutorials, the sections those of Vaswani et al. 2017. Shapes: B batch, S source
length, T target length, h heads, d_k = d_model / h. A mask says which query may attend to which key: True or 1 = may,
False or 0 = may not. It broadcasts to (B, h, queries, keys).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from scratch_transformer import functional, masks
from scratch_transformer.attention import attention_weights, scaled_dot_product_attention
from scratch_transformer.nn import Dropout, Embedding, Linear, Module, ModuleList, Parameter, init

Mask = Tensor | None
OPTIONS = {
    "norm": ("pre", "post"),
    "positions": ("sinusoidal", "learned"),
    "share_embeddings": ("none", "target", "all"),
}


class InputEmbeddings(Module):
    """A learned vector for every token id, times √d_model. Section 3.4."""

    def __init__(self, d_model: int, vocab_size: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.embedding = Embedding(vocab_size, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.embedding(x) * math.sqrt(self.d_model)  # ids (B, T) -> (B, T, d_model)


class PositionalEncoding(Module):
    """dropout(x + pe), pe a code of the positions 0 … seq_len - 1. Section 3.5.

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)); a parameter if learned.
    Raises ValueError for more than seq_len tokens.
    """

    def __init__(self, d_model: int, seq_len: int, dropout: float, learned: bool = False) -> None:
        super().__init__()
        self.seq_len = seq_len
        self.dropout = Dropout(dropout)
        if learned:
            self.pe = Parameter(init.xavier_uniform_(torch.empty(seq_len, d_model)))
        else:
            self.register_buffer("pe", functional.sinusoidal_positions(seq_len, d_model).unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[-2]
        if length > self.seq_len:
            raise ValueError(f"PositionalEncoding: a sequence of {length} tokens is longer than seq_len={self.seq_len}")
        return self.dropout(x + self.pe[..., :length, :])  # (B, T, d_model)


class LayerNormalization(Module):
    """α · (x - μ) / √(σ² + ε) + b over the features of each token. Ba et al. 2016, equation 3.

    Most tutorials teach another formula: `conversion.LayerNormalizationAsTaught`.
    """

    def __init__(self, features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.alpha = Parameter(torch.ones(features))
        self.bias = Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.alpha.shape, self.alpha, self.bias, self.eps)  # (B, T, features)


class FeedForwardBlock(Module):
    """max(0, x W₁ + b₁) W₂ + b₂ at every position. Section 3.3; the dropout within is the tutorials' and torch's."""

    def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.linear_1 = Linear(d_model, d_ff)
        self.dropout = Dropout(dropout)
        self.linear_2 = Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(self.dropout(functional.relu(self.linear_1(x))))  # (B, T, d_model)


class MultiHeadAttentionBlock(Module):
    """Concat(head₁, …, head_h) W_o with headᵢ = softmax(Qᵢ Kᵢᵀ / √d_k) Vᵢ. Section 3.2.

    Qᵢ, Kᵢ, Vᵢ: the i-th d_k columns of q W_q, k W_k, v W_v. All four products have biases, as in torch, unless
    bias=False, as in the paper. After `keep_attention_weights = True`, `attention_weights` holds the weights
    (B, h, T, S) of the latest call, before dropout and without a graph. Raises AssertionError unless h divides d_model.
    """

    def __init__(self, d_model: int, h: int, dropout: float, bias: bool = True) -> None:
        super().__init__()
        if h < 1 or d_model % h != 0:
            raise AssertionError(f"MultiHeadAttentionBlock: h must divide d_model, but {d_model=} and {h=}")
        self.h = h
        self.w_q = Linear(d_model, d_model, bias)
        self.w_k = Linear(d_model, d_model, bias)
        self.w_v = Linear(d_model, d_model, bias)
        self.w_o = Linear(d_model, d_model, bias)
        self.dropout = Dropout(dropout)
        self.keep_attention_weights = False
        self.attention_weights: Tensor | None = None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None) -> Tensor:
        mask = masks.from_keep(mask)
        query, key, value = self._split(self.w_q(q)), self._split(self.w_k(k)), self._split(self.w_v(v))
        if self.keep_attention_weights:
            self.attention_weights = attention_weights(query, key, mask).detach()
        dropout_p = self.dropout.p if self.training else 0.0
        heads = scaled_dot_product_attention(query, key, value, mask, dropout_p)  # (B, h, T, d_k)
        return self.w_o(heads.transpose(1, 2).flatten(2))  # (B, T, d_model)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.h, -1)).transpose(1, 2)  # (B, T, d_model) -> (B, h, T, d_k)


class ResidualConnection(Module):
    """Pre-norm, x + dropout(f(norm(x))), or post-norm, norm(x + dropout(f(x))), as in section 3.1; f = sublayer."""

    def __init__(self, features: int, dropout: float, norm_first: bool = True) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.dropout = Dropout(dropout)
        self.norm = LayerNormalization(features)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderBlock(Module):
    """Self-attention, then feed-forward: (B, S, features) -> the same. Section 3.1."""

    def __init__(
        self, features: int, self_attention_block: MultiHeadAttentionBlock, feed_forward_block: FeedForwardBlock,
        dropout: float, norm_first: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.self_attention_block = self_attention_block
        self.feed_forward_block = feed_forward_block
        self.residual_connections = ModuleList([ResidualConnection(features, dropout, norm_first) for _ in range(2)])

    def forward(self, x: Tensor, src_mask: Mask = None) -> Tensor:
        x = self.residual_connections[0](x, lambda x: self.self_attention_block(x, x, x, src_mask))
        return self.residual_connections[1](x, self.feed_forward_block)


class Encoder(Module):
    """One layer after the other, and a final normalization: pre-norm layers need it, section 3.1 has none."""

    def __init__(self, features: int, layers: ModuleList, final_norm: bool = True) -> None:
        super().__init__()
        self.layers = layers
        self.norm = LayerNormalization(features) if final_norm else None

    def forward(self, x: Tensor, mask: Mask = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


class DecoderBlock(Module):
    """Self-attention, attention to the encoder's output (B, S, features), then feed-forward. Section 3.1."""

    def __init__(
        self, features: int, self_attention_block: MultiHeadAttentionBlock,
        cross_attention_block: MultiHeadAttentionBlock, feed_forward_block: FeedForwardBlock,
        dropout: float, norm_first: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.self_attention_block = self_attention_block
        self.cross_attention_block = cross_attention_block
        self.feed_forward_block = feed_forward_block
        self.residual_connections = ModuleList([ResidualConnection(features, dropout, norm_first) for _ in range(3)])

    def forward(self, x: Tensor, encoder_output: Tensor, src_mask: Mask = None, tgt_mask: Mask = None) -> Tensor:
        memory = encoder_output
        x = self.residual_connections[0](x, lambda x: self.self_attention_block(x, x, x, tgt_mask))
        x = self.residual_connections[1](x, lambda x: self.cross_attention_block(x, memory, memory, src_mask))
        return self.residual_connections[2](x, self.feed_forward_block)


class Decoder(Module):
    """One layer after the other, and a final normalization, as in `Encoder`."""

    def __init__(self, features: int, layers: ModuleList, final_norm: bool = True) -> None:
        super().__init__()
        self.layers = layers
        self.norm = LayerNormalization(features) if final_norm else None

    def forward(self, x: Tensor, encoder_output: Tensor, src_mask: Mask = None, tgt_mask: Mask = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, encoder_output, src_mask, tgt_mask)
        return x if self.norm is None else self.norm(x)


class ProjectionLayer(Module):
    """x W + b, a logit for every token of the vocabulary; the softmax of section 3.4 is the loss's."""

    def __init__(self, d_model: int, vocab_size: int) -> None:
        super().__init__()
        self.proj = Linear(d_model, vocab_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x)  # (B, T, vocab_size)


class Transformer(Module):
    """The parts, joined as in the diagram on top. `build_transformer` makes them."""

    def __init__(
        self, encoder: Encoder, decoder: Decoder, src_embed: InputEmbeddings, tgt_embed: InputEmbeddings,
        src_pos: PositionalEncoding, tgt_pos: PositionalEncoding, projection_layer: ProjectionLayer,
    ) -> None:  # fmt: skip
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.src_embed = src_embed
        self.tgt_embed = tgt_embed
        self.src_pos = src_pos
        self.tgt_pos = tgt_pos
        self.projection_layer = projection_layer

    def encode(self, src: Tensor, src_mask: Mask = None) -> Tensor:
        return self.encoder(self.src_pos(self.src_embed(src)), src_mask)  # ids (B, S) -> (B, S, d_model)

    def decode(self, encoder_output: Tensor, src_mask: Mask, tgt: Tensor, tgt_mask: Mask = None) -> Tensor:
        # (B, S, d_model), ids (B, T) -> (B, T, d_model)
        return self.decoder(self.tgt_pos(self.tgt_embed(tgt)), encoder_output, src_mask, tgt_mask)

    def project(self, x: Tensor) -> Tensor:
        return self.projection_layer(x)  # logits (B, T, tgt_vocab_size)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Mask = None, tgt_mask: Mask = None) -> Tensor:
        return self.project(self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask))


def build_transformer(
    src_vocab_size: int, tgt_vocab_size: int, src_seq_len: int, tgt_seq_len: int,
    d_model: int = 512, N: int = 6, h: int = 8, dropout: float = 0.1, d_ff: int = 2048, *,
    decoder_N: int | None = None, norm: str = "pre", positions: str = "sinusoidal", share_embeddings: str = "none",
    attention_bias: bool = True,
) -> Transformer:  # fmt: skip
    """A Transformer of N encoder and N decoder layers, with every matrix drawn by Glorot's uniform rule.

    Args:
        src_seq_len, tgt_seq_len: the lengths of the longest sequences.
        decoder_N: decoder layers, where they are not N.
        norm: "pre", with a final normalization of both stacks (the tutorials), or "post", without (the paper).
        positions: "sinusoidal" or "learned".
        share_embeddings: "none"; "target": the target embedding is the projection's weight; "all": the source
            embedding too, for one vocabulary of both languages (section 3.4).
        attention_bias: biases in the attention's projections.

    Raises ValueError for any other option, or share_embeddings="all" with vocabularies of two sizes.
    """
    for name, value in {"norm": norm, "positions": positions, "share_embeddings": share_embeddings}.items():
        if value not in OPTIONS[name]:
            raise ValueError(f"build_transformer: {name} must be one of {', '.join(OPTIONS[name])}, but is {value!r}")
    if share_embeddings == "all" and src_vocab_size != tgt_vocab_size:
        raise ValueError(f'share_embeddings="all" needs one vocabulary, but {src_vocab_size=} and {tgt_vocab_size=}')

    norm_first, learned = norm == "pre", positions == "learned"
    attention = partial(MultiHeadAttentionBlock, d_model, h, dropout, attention_bias)
    feed_forward = partial(FeedForwardBlock, d_model, d_ff, dropout)
    encoder = [EncoderBlock(d_model, attention(), feed_forward(), dropout, norm_first) for _ in range(N)]
    decoder = [
        DecoderBlock(d_model, attention(), attention(), feed_forward(), dropout, norm_first)
        for _ in range(N if decoder_N is None else decoder_N)
    ]
    model = Transformer(
        Encoder(d_model, ModuleList(encoder), final_norm=norm_first),
        Decoder(d_model, ModuleList(decoder), final_norm=norm_first),
        InputEmbeddings(d_model, src_vocab_size),
        InputEmbeddings(d_model, tgt_vocab_size),
        PositionalEncoding(d_model, src_seq_len, dropout, learned),
        PositionalEncoding(d_model, tgt_seq_len, dropout, learned),
        ProjectionLayer(d_model, tgt_vocab_size),
    )
    if share_embeddings != "none":
        model.tgt_embed.embedding.weight = model.projection_layer.proj.weight
    if share_embeddings == "all":
        model.src_embed.embedding.weight = model.projection_layer.proj.weight
    for parameter in model.parameters():
        if parameter.dim() > 1:
            init.xavier_uniform_(parameter)
    return model
