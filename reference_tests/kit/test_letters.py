"""Names of one letter: n heads, m for a mask, y beside what says that it is the encoder's output."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

LAYER = """
class Attention(nn.Module):
    def __init__(self, dim, n):
        super().__init__()
        self.n, self.proj = n, nn.ModuleList(nn.Linear(dim, dim) for _ in range(4))

    def forward(self, q, k, v, m=None):
        q, k, v = (f(x).unflatten(-1, (self.n, -1)).transpose(1, 2) for f, x in zip(self.proj, (q, k, v)))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.proj[0].in_features // self.n)
        if m is not None:
            scores = scores.masked_fill(m.unsqueeze(1) == 0, float("-inf"))
        return self.proj[3]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, dim, n, ff):
        super().__init__()
        self.attend, self.norms = Attention(dim, n), nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.ff = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Linear(ff, dim))

    def forward(self, x, m):
        x = self.norms[0](x + self.attend(x, x, x, m))
        return self.norms[1](x + self.ff(x))
"""


def test_n_heads_and_m_for_a_mask(tmp_path):
    results = check_text(LAYER, tmp_path)
    assert not any("no mask" in limit for result in results.values() for limit in result.limits)
    assert [(r.kind, r.verdict in FINE) for r in results.values()] == [
        ("MultiheadAttention", True),
        ("EncoderLayer", True),
    ]


DECODER = """
class Decoder(nn.Module):
    def __init__(self, vocab, d, h, ff, layers, max_len):
        super().__init__()
        self.words, self.places, self.out = nn.Embedding(vocab, d), nn.Embedding(max_len, d), nn.Linear(d, vocab)
        self.layers = nn.ModuleList(
            nn.TransformerDecoderLayer(d, h, ff, 0.0, batch_first=True) for _ in range(layers)
        )

    def forward(self, y, mem, mem_pad=None):
        T = y.shape[1]
        z = self.words(y) + self.places(torch.arange(T))
        for layer in self.layers:
            z = layer(z, mem, torch.ones(T, T).triu(1).bool(), memory_key_padding_mask=mem_pad)
        return self.out(z)
"""


def test_y_beside_the_memory_is_the_target(tmp_path):
    result = check_text(DECODER, tmp_path)["Decoder"]
    assert (result.kind, result.verdict in FINE) == ("TokenDecoder", True), result


HEADS = """
class Head(nn.Module):
    def __init__(self, d, d_H):
        super().__init__()
        self.d, self.d_H = d, d_H
        self.q, self.k, self.v = (nn.Linear(d, d_H) for _ in range(3))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT / WIDTH**0.5
        return scores.softmax(-1) @ self.v(x)


class FeedForward(nn.Module):
    def __init__(self, d, d_h):
        super().__init__()
        self.up, self.down = nn.Linear(d, d_h), nn.Linear(d_h, d)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
"""


def test_of_a_head_d_h_is_its_width_and_of_a_network_the_one_within(tmp_path):
    """A head as wide as its model cannot tell √d_k from √d_model."""
    right, wrong = (check_text(HEADS.replace("WIDTH", width), tmp_path) for width in ("self.d_H", "self.d"))
    assert right["Head"].verdict in FINE and wrong["Head"].verdict == "mistake" and "A1" in wrong["Head"].ids, wrong
    assert all(result["FeedForward"].verdict in FINE for result in (right, wrong)), right


DIVIDED = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, d_h=4):
        super().__init__()
        self.d_h, self.d_k = d_h, d_model // d_h
        self.maps = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])

    def forward(self, x):
        q, k, v = (one(x).view(*x.shape[:2], self.d_h, self.d_k).transpose(1, 2) for one in self.maps[:3])
        heads = (q @ k.mT / WIDTH**0.5).softmax(-1) @ v
        return self.maps[3](heads.transpose(1, 2).flatten(2))
"""


def test_what_divides_the_width_is_how_many_heads_there_are_whatever_it_is_called(tmp_path):
    right, wrong = (check_text(DIVIDED.replace("WIDTH", width), tmp_path) for width in ("self.d_k", "self.d_h"))
    assert right["SelfAttention"].verdict in FINE, right
    assert wrong["SelfAttention"].ids == ["A1"] and "√heads" in wrong["SelfAttention"].mistakes[0].form, wrong
