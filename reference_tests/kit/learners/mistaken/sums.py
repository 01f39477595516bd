"""A21 in the core, A28 of whole heads, and what is added, subtracted or thrown away around a sublayer: B13, B23, B30."""

from reference_tests.kit.learners.corpus import mistaken

SUMS = (
    mistaken("A21", "formulas", "scaled_dot_product_attention",
             "scores = q @ k.transpose(-1, -2)", "scores = q @ v.transpose(-1, -2)"),
    mistaken("A21", "annotated", "attention",
             "return torch.matmul(p_attn, value), p_attn", "return torch.matmul(p_attn, key), p_attn"),
    mistaken("A28", "seq2seq", "MultiHeadAttentionBlock",
             "self.w_v = nn.Linear(d_model, d_model)", "self.w_v = nn.Linear(d_model, self.d_k)",
             "value = value.view(value.shape[0], value.shape[1], self.h, self.d_k).transpose(1, 2)",
             "value = value.unsqueeze(1)"),
    mistaken("A28", "lecture", "MultiHeadAttention",
             "nn.ModuleList([Head(head_size) for _ in range(num_heads)])",
             "nn.ModuleList([Head(head_size)] * num_heads)"),
    mistaken("B30", "ffn_hidden", "EncoderLayer",
             "        x = self.attention(q=x, k=x, v=x, mask=src_mask)\n        x = self.norm1(self.dropout1(x) + _x)",
             "        y = self.attention(q=x, k=x, v=x, mask=src_mask)\n        x = self.norm1(self.dropout1(x) + _x)"),
    mistaken("B30", "embed_size", "TransformerBlock",
             "self.norm1(self.dropout(attention) + query)", "self.norm1(query)"),
    mistaken("B30", "hid_dim", "DecoderLayer",
             "        _trg = self.positionwise_feedforward(trg)\n        trg = self.ff_layer_norm(trg + self.dropout(_trg))",
             "        ff = self.positionwise_feedforward(trg)\n        trg = self.ff_layer_norm(trg + self.dropout(_trg))"),
    mistaken("B23", "embed_size", "TransformerBlock",
             "return self.norm2(self.dropout(forward) + x)", "return x + self.norm2(self.dropout(forward) + x)"),
    mistaken("B23", "annotated", "SublayerConnection",
             "return x + self.dropout(sublayer(self.norm(x)))", "return self.dropout(sublayer(self.norm(x))) - x"),
    mistaken("B23", "seq2seq", "ResidualConnection",
             "return x + self.dropout(sublayer(self.norm(x)))", "return x - self.dropout(sublayer(self.norm(x)))"),
)  # fmt: skip
