"""Whole models of Tutorials A and D. Neither shows how: the parts are joined as everybody joins them."""

from functools import partial

from torch import nn

from reference_tests.as_taught import tutorial_a, tutorial_d


def model_of_tutorial_a(src_vocab, tgt_vocab, src_length, tgt_length, d_model, N, h, dropout, d_ff):
    attention = partial(tutorial_a.MultiHeadAttentionBlock, d_model, h, dropout)
    feed_forward = partial(tutorial_a.FeedForwardBlock, d_model, d_ff, dropout)
    encoder = [tutorial_a.EncoderBlock(d_model, attention(), feed_forward(), dropout) for _ in range(N)]
    decoder = [tutorial_a.DecoderBlock(d_model, attention(), attention(), feed_forward(), dropout) for _ in range(N)]
    return tutorial_a.Transformer(
        tutorial_a.Encoder(d_model, nn.ModuleList(encoder)),
        tutorial_a.Decoder(d_model, nn.ModuleList(decoder)),
        tutorial_a.InputEmbeddings(d_model, src_vocab),
        tutorial_a.InputEmbeddings(d_model, tgt_vocab),
        tutorial_a.PositionalEncoding(d_model, src_length, dropout),
        tutorial_a.PositionalEncoding(d_model, tgt_length, dropout),
        tutorial_a.ProjectionLayer(d_model, tgt_vocab),
    )


def model_of_tutorial_d(src_vocab, tgt_vocab, src_length, tgt_length, d_model, N, h, dropout, d_ff):
    attention = partial(tutorial_d.MultiHeadAttentionBlock, d_model, h, dropout)
    feed_forward = partial(tutorial_d.FeedForwardBlock, d_model, d_ff, dropout)
    encoder = [tutorial_d.EncoderBlock(attention(), feed_forward(), dropout) for _ in range(N)]
    decoder = [tutorial_d.DecoderBlock(attention(), attention(), feed_forward(), dropout) for _ in range(N)]
    return tutorial_a.Transformer(
        tutorial_d.Encoder(nn.ModuleList(encoder)),
        tutorial_d.Decoder(nn.ModuleList(decoder)),
        tutorial_d.InputEmbedding(d_model, src_vocab),
        tutorial_d.InputEmbedding(d_model, tgt_vocab),
        tutorial_d.PositionalEncoding(d_model, src_length, dropout),
        tutorial_d.PositionalEncoding(d_model, tgt_length, dropout),
        tutorial_d.ProjectionLayer(d_model, tgt_vocab),
    )
