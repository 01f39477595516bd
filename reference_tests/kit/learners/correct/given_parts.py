"""Made of parts that are given: stacks of layers, a Transformer of vectors, embeddings around it; and a factory.

Masks are made in the model that has the embeddings. A language model is given the causal mask.
"""

import math

import torch
from torch import nn


class WordEmbeddings(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.word_embd, self.d_model = nn.Embedding(vocab_size, d_model), d_model

    def forward(self, tokens):
        return self.word_embd(tokens) * math.sqrt(self.d_model)


class PositionalEncoding(nn.Module):
    def __init__(self, seq_len, d_model):
        super().__init__()
        pe, pos = torch.zeros(1, seq_len, d_model), torch.arange(seq_len).unsqueeze(1)
        div_term = torch.pow(10000, torch.arange(0, d_model, 2) / d_model)
        pe[0, :, 0::2], pe[0, :, 1::2] = torch.sin(pos / div_term), torch.cos(pos / div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, : x.shape[1]]


class MultiheadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model not divisible by num_heads"
        self.h, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_k, self.w_v = (
            nn.Linear(d_model, d_model),
            nn.Linear(d_model, d_model),
            nn.Linear(d_model, d_model),
        )
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B, T, _ = q.shape
        queries, keys, values = (
            w(x).view(B, -1, self.h, self.d_k).transpose(1, 2) for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        scores = (queries @ keys.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        return self.w_o((scores.softmax(dim=-1) @ values).transpose(1, 2).reshape(B, T, -1))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear_2(torch.relu(self.linear_1(x)))


class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention, self.ffn = MultiheadAttention(d_model, num_heads), FeedForward(d_model, d_ff)

    def forward(self, x, self_attn_mask):
        x = self.norm1(x + self.attention(x, x, x, self_attn_mask))
        return self.norm2(x + self.ffn(x))


class DecoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.self_attention = MultiheadAttention(d_model, num_heads)
        self.cross_attention = MultiheadAttention(d_model, num_heads)
        self.ffn = FeedForward(d_model, d_ff)

    def forward(self, x, memory, masked_self_attn_mask, cross_attn_mask):
        x = self.norm1(x + self.self_attention(x, x, x, masked_self_attn_mask))
        x = self.norm2(x + self.cross_attention(x, memory, memory, cross_attn_mask))
        return self.norm3(x + self.ffn(x))


class Encoder(nn.Module):
    def __init__(self, encoder_layers):
        super().__init__()
        self.encoder_layers = encoder_layers

    def forward(self, x, mask):
        for layer in self.encoder_layers:
            x = layer(x, mask)
        return x


class Decoder(nn.Module):
    def __init__(self, decoder_layers):
        super().__init__()
        self.decoder_layers = decoder_layers

    def forward(self, x, memory, masked_self_attn_mask, cross_attn_mask):
        for layer in self.decoder_layers:
            x = layer(x, memory, masked_self_attn_mask, cross_attn_mask)
        return x


class Transformer(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, src, tgt, self_attn_mask, masked_self_attn_mask, cross_attn_mask):
        return self.decoder(tgt, self.encoder(src, self_attn_mask), masked_self_attn_mask, cross_attn_mask)


class MachineTranslationModel(nn.Module):
    def __init__(self, src_word_embedding, tgt_word_embedding, positional_encoding, transformer, projection_layer):
        super().__init__()
        self.src_word_embedding, self.tgt_word_embedding = src_word_embedding, tgt_word_embedding
        self.positional_encoding, self.transformer = positional_encoding, transformer
        self.projection_layer = projection_layer

    def forward(self, src, tgt):
        causal_mask = torch.triu(torch.ones(tgt.shape[1], tgt.shape[1]), diagonal=1).bool()
        src_mask = (src == 0)[:, None, None]
        tgt_mask = (tgt == 0)[:, None, None] | causal_mask
        src = self.positional_encoding(self.src_word_embedding(src))
        tgt = self.positional_encoding(self.tgt_word_embedding(tgt))
        return self.projection_layer(self.transformer(src, tgt, src_mask, tgt_mask, src_mask))


def build_transformer(config):
    layers = range(config.num_layers)
    encoder = Encoder(nn.ModuleList([EncoderBlock(config.d_model, config.num_heads, config.d_ff) for _ in layers]))
    decoder = Decoder(nn.ModuleList([DecoderBlock(config.d_model, config.num_heads, config.d_ff) for _ in layers]))
    return MachineTranslationModel(
        WordEmbeddings(config.src_vocab_size, config.d_model),
        WordEmbeddings(config.tgt_vocab_size, config.d_model),
        PositionalEncoding(config.max_seq_len, config.d_model),
        Transformer(encoder, decoder),
        nn.Linear(config.d_model, config.tgt_vocab_size),
    )


class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, seq_len):
        super().__init__()
        self.embedding, self.positions = WordEmbeddings(vocab_size, d_model), PositionalEncoding(seq_len, d_model)
        self.layers = nn.ModuleList([EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.to_logits = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, x, mask):
        x = self.positions(self.embedding(x))
        for layer in self.layers:
            x = layer(x, mask)
        return self.to_logits(x)
