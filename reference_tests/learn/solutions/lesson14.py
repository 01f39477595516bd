"""Lesson 14, training: right."""

from torch import nn

from scratch_transformer.learn.parts import Decoder, Encoder, InputEmbeddings, PositionalEncoding


class Transformer(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.src_embed = InputEmbeddings(d_model, src_vocab_size)
        self.tgt_embed = InputEmbeddings(d_model, tgt_vocab_size)
        self.positions = PositionalEncoding(d_model, max_len)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)
        self.decoder = Decoder(d_model, num_heads, d_ff, num_layers)
        self.projection = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None):
        memory = self.encoder(self.positions(self.src_embed(src)), src_mask)
        y = self.decoder(self.positions(self.tgt_embed(tgt)), memory, src_mask, tgt_mask)
        return self.projection(y)
