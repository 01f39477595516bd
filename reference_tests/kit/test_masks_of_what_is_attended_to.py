"""A kv_mask beside the masks of source and target is that of what the decoder attends to: the source's padding."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

MODEL = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, kv, mask=None):
        projected = (self.wq(x), self.wk(kv), self.wv(kv))
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in projected)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def network(d_model, d_ff):
    return nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.own, self.network = Attention(d_model, num_heads), network(d_model, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, src_mask=None):
        x = self.norm1(x + self.own(x, x, src_mask))
        return self.norm2(x + self.network(x))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.own, self.cross = Attention(d_model, num_heads), Attention(d_model, num_heads)
        self.network = network(d_model, d_ff)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, kv, tgt_mask=None, kv_mask=None):
        x = self.norm1(x + self.own(x, x, tgt_mask))
        x = self.norm2(x + self.cross(x, kv, GIVEN))
        return self.norm3(x + self.network(x))


class Transformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.scale, sizes = d_model**0.5, (d_model, num_heads, d_ff)
        self.src, self.tgt = nn.Embedding(src_vocab, d_model), nn.Embedding(tgt_vocab, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.encoder = nn.ModuleList(EncoderLayer(*sizes) for _ in range(num_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*sizes) for _ in range(num_layers))
        self.out = nn.Linear(d_model, tgt_vocab)

    def forward(self, src_ids, tgt_ids, src_mask=None, tgt_mask=None, kv_mask=None):
        kv = self.src(src_ids) * self.scale + self.places(torch.arange(src_ids.shape[1]))
        for layer in self.encoder:
            kv = layer(kv, src_mask)
        x = self.tgt(tgt_ids) * self.scale + self.places(torch.arange(tgt_ids.shape[1]))
        for layer in self.decoder:
            x = layer(x, kv, tgt_mask, kv_mask)
        return self.out(x)
"""


@pytest.mark.parametrize("given, ids", [("kv_mask", []), ("None", ["A22"])])
def test_the_mask_of_keys_and_values_is_that_of_the_source(given, ids, tmp_path):
    result = check_text(MODEL.replace("GIVEN", given), tmp_path, {"Transformer"})["Transformer"]
    assert "unknown" not in result.verdict
    assert [id for id in (*result.severe, *result.inherited) if id in ("A22", "A24")][:1] == ids, result
