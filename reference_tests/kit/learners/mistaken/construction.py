"""A28, A30, B21, B22, B24, B26, B27: weights, masks and dropouts that are made, filled or used at the wrong place."""

from reference_tests.kit.learners.corpus import mistaken

CONSTRUCTION = (
    mistaken("A28", "embed_size", "SelfAttention",
             "self.values = nn.Linear(embed_size, embed_size)", "self.values = nn.Linear(self.head_dim, self.head_dim)",
             "self.keys = nn.Linear(embed_size, embed_size)", "self.keys = nn.Linear(self.head_dim, self.head_dim)",
             "self.queries = nn.Linear(embed_size, embed_size)", "self.queries = nn.Linear(self.head_dim, self.head_dim)",
             "self.values(values).reshape(N, value_len, self.heads, self.head_dim)",
             "self.values(values.reshape(N, value_len, self.heads, self.head_dim))",
             "self.keys(keys).reshape(N, key_len, self.heads, self.head_dim)",
             "self.keys(keys.reshape(N, key_len, self.heads, self.head_dim))",
             "self.queries(query).reshape(N, query_len, self.heads, self.head_dim)",
             "self.queries(query.reshape(N, query_len, self.heads, self.head_dim))"),
    mistaken("A28", "notebook", "MultiHeadAttention",
             "self.W_q = nn.Linear(d_model, d_model)", "self.W_q = nn.Linear(self.d_k, self.d_k)",
             "self.W_k = nn.Linear(d_model, d_model)", "self.W_k = nn.Linear(self.d_k, self.d_k)",
             "self.W_v = nn.Linear(d_model, d_model)", "self.W_v = nn.Linear(self.d_k, self.d_k)",
             "self.split_heads(self.W_q(Q))", "self.W_q(self.split_heads(Q))",
             "self.split_heads(self.W_k(K))", "self.W_k(self.split_heads(K))",
             "self.split_heads(self.W_v(V))", "self.W_v(self.split_heads(V))"),
    mistaken("A30", "gpt", "CausalSelfAttention",
             "        self.register_buffer(\n"
             '            "mask", torch.tril(torch.ones(config.block_size, config.block_size))[None, None], persistent=False\n'
             "        )\n",
             "        self.mask = torch.tril(torch.ones(config.block_size, config.block_size))[None, None]\n"),
    mistaken("A30", "lecture", "MultiHeadAttention",
             'self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))',
             "self.tril = torch.tril(torch.ones(block_size, block_size))"),
    mistaken("B21", "notebook", "PositionWiseFeedForward",
             "        self.fc2 = nn.Linear(d_ff, d_model)\n", "        self.d_ff, self.d_model = d_ff, d_model\n",
             "self.fc2(self.dropout(self.relu(self.fc1(x))))",
             "nn.Linear(self.d_ff, self.d_model)(self.dropout(self.relu(self.fc1(x))))"),
    mistaken("B21", "ffn_hidden", "EncoderLayer",
             "        x = self.norm1(self.dropout1(x) + _x)\n        _x = x\n        x = self.ffn(x)\n        return self.norm2(self.dropout2(x) + _x)",
             "        x = nn.LayerNorm(x.size(-1))(self.dropout1(x) + _x)\n        _x = x\n        x = self.ffn(x)\n        return nn.LayerNorm(x.size(-1))(self.dropout2(x) + _x)"),
    mistaken("B22", "ffn_hidden", "LayerNorm",
             "self.gamma = nn.Parameter(torch.ones(d_model))", "self.gamma = nn.Parameter(torch.empty(d_model))"),
    mistaken("B22", "seq2seq", "LayerNormalization",
             "torch.zeros(features)", "torch.Tensor(features)"),
    mistaken("B26", "seq2seq", "FeedForwardBlock",
             "self.linear_2(self.dropout(torch.relu(self.linear_1(x))))",
             "self.linear_2(self.drop_out(torch.relu(self.linear_1(x))))"),
    mistaken("B26", "ffn_hidden", "LayerNorm",
             "self.gamma = nn.Parameter", "self.gama = nn.Parameter"),
    mistaken("B27", "seq2seq", "LayerNormalization",
             "mean = x.mean(dim=-1, keepdim=True)", "mean = x.mean(dim=-1, keepdim=True).detach()"),
    mistaken("B27", "ffn_hidden", "PositionwiseFeedForward",
             "        x = self.dropout(x)\n        return self.linear2(x)",
             "        x = self.dropout(x.data)\n        return self.linear2(x)"),
    mistaken("B24", "embed_size", "TransformerBlock",
             "self.norm1(self.dropout(attention) + query)", "self.dropout(self.norm1(attention + query))",
             "return self.norm2(self.dropout(forward) + x)", "return self.dropout(self.norm2(forward + x))"),
    mistaken("B24", "notebook", "EncoderLayer",
             "    def forward(self, x, mask):\n        attn_output = self.self_attn(x, x, x, mask)\n"
             "        x = self.norm1(x + self.dropout(attn_output))\n        ff_output = self.feed_forward(x)\n"
             "        x = self.norm2(x + self.dropout(ff_output))",
             "    def forward(self, x, mask):\n        attn_output = self.self_attn(x, x, x, mask)\n"
             "        x = self.dropout(self.norm1(x + attn_output))\n        ff_output = self.feed_forward(x)\n"
             "        x = self.dropout(self.norm2(x + ff_output))"),
    mistaken("B24", "seq2seq", "ResidualConnection",
             "return x + self.dropout(sublayer(self.norm(x)))", "return self.dropout(x + sublayer(self.norm(x)))"),
)  # fmt: skip
