"""E1 … E5 and P1 … P8.

Not here: P7, positions in incremental decoding, which none of the styles has.
"""

from reference_tests.kit.learners.corpus import mistaken

EMBEDDING = (
    mistaken("E1", "seq2seq", "InputEmbeddings",
             "self.embedding(x) * math.sqrt(self.d_model)",
             "self.embedding(x) * torch.sqrt(self.d_model, dtype=torch.float32)"),
    mistaken("E1", "annotated", "Embeddings",
             "self.lut(x) * math.sqrt(self.d_model)", "self.lut(x) * torch.sqrt(self.d_model)"),
    mistaken("E2", "seq2seq", "InputEmbeddings",
             "self.embedding(x) * math.sqrt(self.d_model)", "self.embedding(x)"),
    mistaken("E2", "annotated", "Embeddings",
             "self.lut(x) * math.sqrt(self.d_model)", "self.lut(x)"),
    mistaken("E2", "given_parts", "WordEmbeddings",
             "self.word_embd(tokens) * math.sqrt(self.d_model)", "self.word_embd(tokens) + math.sqrt(self.d_model)"),
    mistaken("E2", "formulas", "embed",
             "table[tokens] * math.sqrt(table.shape[1])", "table[tokens]"),
    mistaken("E2", "notebook", "Transformer",
             "self.encoder_embedding(src) * math.sqrt(self.d_model)", "self.encoder_embedding(src)",
             "self.decoder_embedding(tgt) * math.sqrt(self.d_model)", "self.decoder_embedding(tgt)"),
    mistaken("E2", "ffn_hidden", "TokenEmbedding",
             "super().forward(x) * math.sqrt(self.d_model)", "super().forward(x)"),
    mistaken("P12", "ffn_hidden", "TransformerEmbedding",
             "tok_emb(x) + self.pos_emb(x)", "tok_emb(x) + (self.tok_emb(x) + self.pos_emb(x))"),
    mistaken("P12", "seq2seq", "Transformer", "src = self.src_pos(src)", "src = src + self.src_pos(src)",
             "tgt = self.tgt_pos(tgt)", "tgt = tgt + self.tgt_pos(tgt)"),
    mistaken("E4", "annotated", "Embeddings",
             "self.lut = nn.Embedding(vocab, d_model)",
             "self.lut = nn.Embedding(vocab, d_model, padding_idx=0)\n        nn.init.normal_(self.lut.weight, std=0.1)"),
    mistaken("E4", "seq2seq", "InputEmbeddings",
             "self.embedding = nn.Embedding(vocab_size, d_model)",
             "self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=1)\n"
             "        nn.init.xavier_uniform_(self.embedding.weight)"),
    mistaken("E5", "seq2seq", "InputEmbeddings",
             "def __init__(self, d_model: int, vocab_size: int) -> None:\n        super().__init__()\n"
             "        self.d_model = d_model\n        self.vocab_size = vocab_size\n"
             "        self.embedding = nn.Embedding(vocab_size, d_model)",
             "def __init__(self, d_model: int, vocab_size: int, padding_idx: int = 1) -> None:\n"
             "        super().__init__()\n"
             "        self.d_model = d_model\n        self.vocab_size = vocab_size\n"
             "        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=0)"),
    mistaken("E5", "annotated", "Embeddings",
             "def __init__(self, d_model, vocab):\n        super().__init__()\n"
             "        self.lut = nn.Embedding(vocab, d_model)",
             "def __init__(self, d_model, vocab, pad_idx=1):\n        super().__init__()\n"
             "        self.lut = nn.Embedding(vocab, d_model, padding_idx=0)"),
    # ---- Positions ----
    mistaken("P1", "seq2seq", "PositionalEncoding",
             "torch.cos(position * div_term)[:, : d_model // 2]", "torch.cos(position * div_term)"),
    mistaken("P1", "annotated", "PositionalEncoding",
             "torch.cos(position * div_term[: d_model // 2])", "torch.cos(position * div_term)"),
    mistaken("P1", "notebook", "PositionalEncoding",
             "torch.cos(position * div_term)[:, : d_model // 2]", "torch.cos(position * div_term)"),
    mistaken("P2", "heads_first", "PositionalEncoding", "/ 10000 ** (", "/ self.max_sequence_length ** ("),
    mistaken("P2", "seq2seq", "PositionalEncoding",
             "torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model)",
             "2 * torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model)"),
    mistaken("P2", "formulas", "positional_encoding",
             "2 * (i // 2) / d_model", "2 * i / d_model"),
    mistaken("P2", "annotated", "PositionalEncoding",
             "torch.cos(position * div_term[: d_model // 2])",
             "torch.cos(position * torch.pow(10000.0, -torch.arange(1, d_model, 2) / d_model))"),
    mistaken("P3", "formulas", "positional_encoding",
             "torch.where(i % 2 == 0, torch.sin(angles), torch.cos(angles))",
             "torch.cat([torch.sin(angles[:, 0::2]), torch.cos(angles[:, 1::2])], dim=-1)"),
    mistaken("P3", "dim_heads", "FixedPositionalEmbedding",
             "torch.stack((sinusoid.sin(), sinusoid.cos()), dim=-1).flatten(1)[:, : self.dim]",
             "torch.cat((sinusoid.sin(), sinusoid.cos()), dim=-1)[:, : self.dim]"),
    # Alone, an encoding along the first axis is right for tensors (sequence, batch, features).
    mistaken("P4", "seq2seq", "build_transformer",
             "x = x + self.pe[:, : x.shape[1], :]", "x = x + self.pe[0, : x.shape[0]].unsqueeze(1)"),
    mistaken("P4", "notebook", "Transformer",
             "return x + self.pe[:, : x.size(1)]", "return x + self.pe[0, : x.size(0)].unsqueeze(1)"),
    mistaken("P5", "seq2seq", "PositionalEncoding",
             'self.register_buffer("pe", pe.unsqueeze(0))', "self.pe = pe.unsqueeze(0)"),
    mistaken("P5", "annotated", "PositionalEncoding",
             'self.register_buffer("pe", pe.unsqueeze(0))', "self.pe = pe.unsqueeze(0)"),
    mistaken("P5", "ffn_hidden", "PositionalEncoding",
             'self.register_buffer("encoding", encoding)', "self.encoding = encoding"),
    mistaken("P6", "annotated", "PositionalEncoding",
             '        assert x.size(1) <= self.pe.size(1), f"more than {self.pe.size(1)} positions"\n', ""),
    mistaken("P6", "notebook", "PositionalEncoding",
             "        if x.size(1) > self.pe.size(1):\n"
             '            raise ValueError(f"got {x.size(1)} tokens, max_seq_length is {self.pe.size(1)}")\n', ""),
    mistaken("P13", "seq2seq", "PositionalEncoding",
             "        x = x + self.pe[:, : x.shape[1], :]\n", "        x + self.pe[:, : x.shape[1], :]\n"),
    mistaken("P13", "annotated", "PositionalEncoding",
             "x = x + self.pe[:, : x.size(1)].requires_grad_(False)", "x = x"),
    mistaken("P8", "seq2seq", "PositionalEncoding",
             "torch.arange(0, seq_len, dtype=torch.float).unsqueeze(1)",
             "torch.arange(0, seq_len, dtype=torch.bfloat16).unsqueeze(1)"),
    mistaken("P8", "notebook", "PositionalEncoding",
             "torch.arange(0, max_seq_length, dtype=torch.float).unsqueeze(1)",
             "torch.arange(0, max_seq_length, dtype=torch.bfloat16).unsqueeze(1)"),
)  # fmt: skip
