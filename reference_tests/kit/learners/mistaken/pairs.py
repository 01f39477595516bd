"""Two mistakes in one component."""

from reference_tests.kit.learners.corpus import mistaken

PAIRS = (
    mistaken("LN1 LN4", "seq2seq", "LayerNormalization",
             "x.var(dim=-1, keepdim=True, unbiased=False)", "x.var(dim=-1, keepdim=True)",
             "torch.ones(features)", "torch.ones(1)", "torch.zeros(features)", "torch.zeros(1)"),
    mistaken("LN1 LN6", "dim_heads", "LayerNorm",
             "torch.var(x, dim=-1, unbiased=False, keepdim=True)", "torch.var(x, dim=-1, keepdim=True)",
             "        self.b = nn.Parameter(torch.zeros(dim))\n", "",
             "(var + self.eps).rsqrt() * self.g + self.b", "(var + self.eps).rsqrt() * self.g"),
    mistaken("A1 A14", "annotated", "MultiHeadedAttention",
             "torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)", "torch.matmul(query, key.transpose(-2, -1))",
             "clones(nn.Linear(d_model, d_model), 4)", "clones(nn.Linear(d_model, d_model, bias=False), 4)"),
    mistaken("A1 A13", "notebook", "MultiHeadAttention",
             "math.sqrt(self.d_k)", "math.sqrt(self.d_model)",
             "x.view(batch_size, seq_length, self.num_heads, self.d_k).transpose(1, 2)",
             "x.view(batch_size, self.num_heads, seq_length, self.d_k)"),
    mistaken("A1 A23", "gpt", "CausalSelfAttention",
             "(q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))", "q @ k.transpose(-2, -1)",
             "y.transpose(1, 2).contiguous().view(B, T, C)", "y.contiguous().view(B, T, C)"),
    mistaken("A1 A13 A23", "annotated", "MultiHeadedAttention",
             "math.sqrt(d_k)", "math.sqrt(query.size(1) * d_k)",
             "lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)", "lin(x).view(nbatches, self.h, -1, self.d_k)",
             "x.transpose(1, 2).contiguous().view(", "x.contiguous().view("),
    mistaken("A1 A10", "seq2seq", "MultiHeadAttentionBlock",
             "(query @ key.transpose(-2, -1)) / math.sqrt(d_k)", "query @ key.transpose(-2, -1)",
             'float("-inf")', "-1e4"),
    mistaken("A1 B2", "lecture", "Block",
             "k.shape[-1] ** -0.5", "C**-0.5",
             "        x = x + self.sa(self.ln1(x))\n        x = x + self.ffwd(self.ln2(x))\n",
             "        x = self.ln1(x)\n        x = x + self.sa(x)\n        x = self.ln2(x)\n        x = x + self.ffwd(x)\n"),
    mistaken("P2 P3", "dim_heads", "FixedPositionalEmbedding",
             "torch.arange(0, self.dim, 2, device=x.device).float()", "2 * torch.arange(0, self.dim, 2, device=x.device).float()",
             "torch.stack((sinusoid.sin(), sinusoid.cos()), dim=-1).flatten(1)[:, : self.dim]",
             "torch.cat((sinusoid.sin(), sinusoid.cos()), dim=-1)[:, : self.dim]"),
    mistaken("T3 T4", "formulas", "cross_entropy",
             "uniform = -log_probs.mean(-1)", "uniform = (-log_probs.sum(-1) - nll) / (logits.shape[-1] - 1)",
             "per_token[keep].sum() / keep.sum()", "per_token.mean()"),
    mistaken("E2 P3", "sequence_first", "EmbeddingsWithPositionalEncoding",
             "self.linear(x) * math.sqrt(self.d_model) + pe", "self.linear(x) + pe",
             "    encodings[:, 0::2] = torch.sin(position * div_term)\n"
             "    encodings[:, 1::2] = torch.cos(position * div_term[: d_model // 2])\n",
             "    half = div_term.shape[0]\n"
             "    encodings[:, :half] = torch.sin(position * div_term)\n"
             "    encodings[:, half:] = torch.cos(position * div_term[: d_model // 2])\n"),
)  # fmt: skip
