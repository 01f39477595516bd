"""A cache of a class of the learner's own in another file: imported, or only put together with the model there."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, reported

pytestmark = pytest.mark.long

CACHE = """
class KVCache:
    def __init__(self, n_layer, B, max_seq_len, n_head, head_dim, device="cpu", dtype=torch.float32):
        shape = (B, n_head, max_seq_len, head_dim)
        self.k = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(n_layer)]
        self.v = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(n_layer)]
        self.seq_len = 0

    def update(self, layer_idx, k, v):
        end = self.seq_len + k.shape[2]
        self.k[layer_idx][:, :, self.seq_len : end], self.v[layer_idx][:, :, self.seq_len : end] = k, v
        return self.k[layer_idx][:, :, :end], self.v[layer_idx][:, :, :end]

    def advance(self, length):
        self.seq_len += length
"""
MODEL = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, cache=None, layer_idx=None):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if cache is not None:
            assert layer_idx is not None, "which layer it is must be told"
            k, v = cache.update(layer_idx, k, v)
        hidden = torch.ones(q.shape[2], k.shape[2], device=x.device).triu(DIAGONAL).bool()
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([Block(d_model, num_heads) for _ in range(num_layers)])
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)

    def forward(self, ids, cache=None):
        start = 0 if cache is None else START
        x = self.embedding(ids) + self.positions(torch.arange(start, start + ids.shape[1], device=ids.device))
        for index, block in enumerate(self.blocks):
            x = block(x, cache=cache, layer_idx=index)
        if cache is not None:
            cache.advance(ids.shape[1])
        return self.head(self.norm(x))


class Block(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attention, self.norm1, self.norm2 = CausalSelfAttention(d_model, num_heads), *(nn.LayerNorm(d_model),) * 2
        self.ffn = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, cache=None, layer_idx=None):
        x = x + self.attention(self.norm1(x), cache=cache, layer_idx=layer_idx)
        return x + self.ffn(self.norm2(x))
"""
RIGHT, NAMES = "1 + k.shape[2] - q.shape[2]", ("CausalSelfAttention", "GPT")


@pytest.mark.parametrize("imported", ["", "from inference import KVCache\n"])
@pytest.mark.parametrize(("diagonal", "start", "ids"), [
    (RIGHT, "cache.seq_len", [[], []]), (RIGHT, "0", [[], ["P7"]]), ("1", "cache.seq_len", [["K1"], []]),
])  # fmt: skip
def test_a_cache_of_a_class_in_a_file_beside_is_judged(imported, diagonal, start, ids, tmp_path):
    (tmp_path / "inference.py").write_text(IMPORTS + CACHE)
    text = MODEL.replace("DIAGONAL", diagonal).replace("START", start)
    (tmp_path / "model.py").write_text(IMPORTS + imported + text)
    results = {one.name: one for one in reported(tmp_path / "model.py").results}
    assert [results[name].severe for name in NAMES] == ids, results
    assert any(ids) or all("token by token" in str(results[name].notes) for name in NAMES), results
