"""A29, A31, A32, A34, B23, B25, and in whole models A7, A13, A16 and A23: masks and tensors that go another way."""

from reference_tests.kit.learners.corpus import mistaken

PATHS = (
    mistaken("A29", "notebook", "Transformer",
             "return src_mask, tgt_mask & nopeak_mask.to(tgt.device)",
             "tgt_mask = nopeak_mask.to(tgt.device)\n        return src_mask, tgt_mask"),
    mistaken("A29", "ffn_hidden", "Transformer",
             "return trg_pad_mask & trg_sub_mask", "trg_mask = trg_pad_mask\n        trg_mask = trg_sub_mask\n        return trg_mask"),
    mistaken("A31", "ffn_hidden", "ScaleDotProductAttention",
             "score.masked_fill(mask == 0", "score.mask_fill(mask == 0"),
    mistaken("A31", "seq2seq", "MultiHeadAttentionBlock",
             "attention_scores.masked_fill(mask == 0", "attention_scores.masked_fill(mask.T == 0, 0, mask"),
    mistaken("A32", "dim_heads", "Attention",
             "sim.masked_fill(~mask[:, None, None, :], mask_value)", "sim.masked_fill(mask[:, None, None, :], mask_value)"),
    mistaken("A32", "formulas", "scaled_dot_product_attention",
             "    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])\n    if mask is not None:\n"
             "        scores = torch.where(mask, scores, torch.tensor(-torch.inf, dtype=scores.dtype))",
             '    """mask: True = may attend."""\n'
             "    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])\n    if mask is not None:\n"
             "        scores = torch.where(mask, torch.tensor(-torch.inf, dtype=scores.dtype), scores)"),
    mistaken("A34", "lecture", "MultiHeadAttention",
             'wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))',
             'wei.masked_fill((self.tril[:T, :T] == 0).byte(), float("-inf"))'),
    mistaken("A34", "embed_size", "SelfAttention",
             "energy.masked_fill(mask == 0,", "energy.masked_fill((1 - (mask != 0)).bool(),"),
    mistaken("B23", "notebook", "EncoderLayer",
             "    def forward(self, x, mask):\n        attn_output = self.self_attn(x, x, x, mask)\n"
             "        x = self.norm1(x + self.dropout(attn_output))\n        ff_output = self.feed_forward(x)\n",
             "    def forward(self, x, mask):\n        attn_output = self.self_attn(x, x, x, mask)\n"
             "        y = self.norm1(x + self.dropout(attn_output))\n        ff_output = self.feed_forward(y)\n"),
    mistaken("B23", "ffn_hidden", "DecoderLayer",
             "        _x = x\n        x = self.ffn(x)\n        return self.norm3(self.dropout3(x) + _x)",
             "        x = self.ffn(x)\n        return self.norm3(self.dropout3(x) + _x)"),
    mistaken("B23", "hid_dim", "DecoderLayer",
             "trg = self.enc_attn_layer_norm(trg + self.dropout(_trg))",
             "trg = self.enc_attn_layer_norm(enc_src + self.dropout(_trg))"),
    mistaken("B25", "embed_size", "Transformer",
             "        src_mask = self.make_src_mask(src)\n", "        src, trg = trg, src\n        src_mask = self.make_src_mask(src)\n"),
    mistaken("B25", "ffn_hidden", "Transformer",
             "        src_mask = self.make_src_mask(src)\n", "        src, trg = trg, src\n        src_mask = self.make_src_mask(src)\n"),
    mistaken("A7", "embed_size", "Transformer",
             "return (src != self.src_pad_idx).unsqueeze(1).unsqueeze(2)", "return (src != self.src_pad_idx).unsqueeze(1).unsqueeze(3)"),
    mistaken("A23", "notebook", "Transformer",
             "x.transpose(1, 2).contiguous().view(batch_size, seq_length, self.d_model)",
             "x.contiguous().view(batch_size, seq_length, self.d_model)"),
    mistaken("A23", "gpt", "GPT",
             "y.transpose(1, 2).contiguous().view(B, T, C)", "y.permute(0, 2, 3, 1).contiguous().view(B, T, C)"),
    mistaken("A13", "notebook", "Transformer",
             "x.view(batch_size, seq_length, self.num_heads, self.d_k).transpose(1, 2)",
             "x.view(batch_size, self.num_heads, seq_length, self.d_k)"),
    mistaken("A16", "gpt", "GPT",
             'att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))', "att = att + self.mask[:, :, :T, :T]"),
    mistaken("A22", "given_parts", "Transformer",
             "self.encoder(src, self_attn_mask), masked_self_attn_mask, cross_attn_mask)",
             "self.encoder(src, self_attn_mask), masked_self_attn_mask, None)"),
)  # fmt: skip
