"""Pieces of made-up files that several tests are written around."""

HEADS = """
class Heads(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        assert width % n_heads == 0, "heads must divide the width"
        self.n_heads = n_heads
        self.to_q, self.to_k = nn.Linear(width, width), nn.Linear(width, width)
        self.to_v, self.to_out = nn.Linear(width, width), nn.Linear(width, width)

    def cut(self, t):
        return t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, a, b, mask=None):
        q, k, v = self.cut(self.to_q(a)), self.cut(self.to_k(b)), self.cut(self.to_v(b))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(MASK == 0, float("-inf"))
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
"""Attention. MASK: what is compared with 0."""

LANGUAGE_MODEL = """
class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model, block_size):
        super().__init__()
        self.block_size = block_size
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(block_size, d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, idx):
        return self.head(self.words(idx) + self.places(torch.arange(idx.size(1), device=idx.device)))
"""
"""The least that gives scores of next words, to which methods can be added that write with it."""
