"""Right styles with one thing wrong, most of them beyond the catalogue: whatever they are called, it is not right.

A row: the style, the components of which none may be called right, and the change.
"""

from reference_tests.kit.learners.corpus import Mistaken


def wrong(style, components, old, new):
    return [Mistaken("", style, component, ((old, new),)) for component in components.split()]


CALL = "layer(trg, enc_src, trg_mask, src_mask)"
CROSS = "self.encoder_attention(trg, enc_src, enc_src, src_mask)"
OWN = "self.self_attention(trg, trg, trg, trg_mask)"
INNER = "layer(x, enc_out, enc_out, src_mask, trg_mask)"
ENC_DEC = "self.enc_dec_attention(q=x, k=enc, v=enc, mask=src_mask)"
WRONG = [
    # masks that get lost between the whole and its parts
    *wrong("hid_dim", "Encoder Seq2Seq", "src = layer(src, src_mask)", "src = layer(src, None)"),
    *wrong("hid_dim", "Decoder Seq2Seq", CALL, "layer(trg, enc_src, trg_mask, None)"),
    *wrong("hid_dim", "Decoder Seq2Seq", CALL, "layer(trg, enc_src, None, src_mask)"),
    *wrong("hid_dim", "Decoder Seq2Seq", CALL, "layer(trg, enc_src, None, None)"),
    *wrong("hid_dim", "Decoder Seq2Seq", CALL, "layer(trg, enc_src, src_mask, trg_mask)"),
    *wrong("hid_dim", "DecoderLayer Decoder Seq2Seq", CROSS, "self.encoder_attention(trg, enc_src, enc_src, None)"),
    *wrong("hid_dim", "DecoderLayer Decoder Seq2Seq", OWN, "self.self_attention(trg, trg, trg, src_mask)"),
    *wrong("hid_dim", "DecoderLayer Decoder Seq2Seq", OWN, "self.self_attention(trg, trg, trg)"),
    *wrong("hid_dim", "DecoderLayer Decoder Seq2Seq", CROSS, "self.encoder_attention(trg, enc_src, enc_src, trg_mask)"),
    *wrong("hid_dim", "DecoderLayer Decoder Seq2Seq", CROSS, "self.encoder_attention(trg, trg, trg, trg_mask)"),
    *wrong("hid_dim", "Seq2Seq", "self.decoder(trg, enc_src, trg_mask, src_mask)",
           "self.decoder(trg, enc_src, trg_mask, None)"),
    *wrong("hid_dim", "Seq2Seq", "self.encoder(src, src_mask)", "self.encoder(src, None)"),
    *wrong("hid_dim", "Seq2Seq", "trg_pad_mask & trg_sub_mask", "trg_pad_mask"),
    *wrong("embed_size", "Decoder Transformer", INNER, "layer(x, enc_out, enc_out, trg_mask, src_mask)"),
    *wrong("embed_size", "Decoder Transformer", INNER, "layer(x, x, x, src_mask, trg_mask)"),
    *wrong("embed_size", "Decoder Transformer", INNER, "layer(x, enc_out, enc_out, None, trg_mask)"),
    *wrong("ffn_hidden", "DecoderLayer Decoder Transformer", ENC_DEC,
           "self.enc_dec_attention(q=x, k=enc, v=enc)"),
    *wrong("ffn_hidden", "DecoderLayer Decoder Transformer", ENC_DEC,
           "self.enc_dec_attention(q=x, k=enc, v=x, mask=src_mask)"),
    *wrong("dim_heads", "Decoder XTransformer", "cross_attn(x, context=context, mask=context_mask)",
           "cross_attn(x, context=context)"),
    *wrong("dim_heads", "XTransformer", "mask=tgt_mask, context_mask=src_mask", "mask=tgt_mask"),
    # residuals, norms and layers
    *wrong("ffn_hidden", "DecoderLayer Decoder Transformer", "        if enc is not None:\n            _x = x\n",
           "        if enc is not None:\n            _x = dec\n"),
    *wrong("ffn_hidden", "DecoderLayer Decoder Transformer", "self.norm3(self.dropout3(x) + _x)",
           "self.norm2(self.dropout3(x) + _x)"),
    *wrong("ffn_hidden", "EncoderLayer Encoder Transformer", "return self.norm2(self.dropout2(x) + _x)",
           "return self.norm2(self.dropout2(x)) + _x"),
    *wrong("ffn_hidden", "DecoderLayer Decoder Transformer", "self.norm3(self.dropout3(x) + _x)",
           "self.norm3(self.dropout3(x))"),
    *wrong("gpt", "Block GPT", "x = x + self.mlp(self.ln_2(x))", "x = x + self.mlp(self.ln_1(x))"),
    *wrong("gpt", "Block GPT", "x = x + self.mlp(self.ln_2(x))", "x = self.mlp(self.ln_2(x))"),
    *wrong("gpt", "GPT", "for block in self.transformer.h:", "for block in self.transformer.h[1:]:"),
    *wrong("gpt", "GPT", "self.transformer.wte(idx) + self.transformer.wpe(pos)", "self.transformer.wpe(pos)"),
    # attention that is right for some heads, samples or tokens
    *wrong("gpt", "CausalSelfAttention Block GPT", 'att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))',
           'att[:, 1:] = att[:, 1:].masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))'),
    *wrong("dim_heads", "Attention", "~mask[:, None, None, :], mask_value", "~mask[:1, None, None, :], mask_value"),
    *wrong("seq2seq", "MultiHeadAttentionBlock", "attention(query, key, value, mask, self.dropout)",
           "attention(query, value, key, mask, self.dropout)"),
    *wrong("seq2seq", "MultiHeadAttentionBlock EncoderBlock DecoderBlock Transformer", 'mask == 0, float("-inf")',
           'mask == 0, float("-inf")) if mask.shape[-2] > 1 else attention_scores.masked_fill(mask == 0, 0.0'),
]  # fmt: skip
