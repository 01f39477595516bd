"""Layers of today with attention written out in them: beside a mistake, words tell of the design, and no numbers."""

import pytest
from torch import nn

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.judge.designs import is_near, said_by
from scratch_transformer.kit.report.finding import FINE

BLOCK = """
class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class DecoderBlock(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads, hidden):
        super().__init__()
        assert dim % n_heads == 0
        self.h, self.shared, self.d_k = n_heads, n_kv_heads, dim // n_heads
        self.wq, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wk, self.wv = (nn.Linear(dim, n_kv_heads * self.d_k, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(dim, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, dim, bias=False)
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)

    def rope(self, x):
        length, d_k = x.shape[-2:]
        angles = torch.outer(torch.arange(length), 10000 ** (-torch.arange(0, d_k, 2) / d_k))
        cos, sin, even, odd = angles.cos(), angles.sin(), x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def forward(self, x):
        B, T, C = x.shape
        y = self.norm1(x)
        q = self.rope(self.wq(y).view(B, T, self.h, self.d_k).transpose(1, 2))
        k = self.rope(self.wk(y).view(B, T, self.shared, self.d_k).transpose(1, 2))
        v = self.wv(y).view(B, T, self.shared, self.d_k).transpose(1, 2)
        k = k.repeat_interleave(self.h // self.shared, 1)
        v = v.repeat_interleave(self.h // self.shared, 1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
        x = x + self.wo((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))
"""
INTERLEAVED, ONE_AFTER_THE_OTHER = (
    "repeat_interleave(self.h // self.shared, 1)",
    "repeat(1, self.h // self.shared, 1, 1)",
)


@pytest.mark.long
@pytest.mark.parametrize("repeated, ids", [(INTERLEAVED, []), (ONE_AFTER_THE_OTHER, ["G3"])])
def test_shared_heads_in_another_order_are_named_where_they_are_repeated(repeated, ids, tmp_path):
    text = BLOCK.replace(INTERLEAVED, repeated)
    result = check_text(text, tmp_path)["DecoderBlock"]
    found = [named for named in result.mistakes if named.id == "G3"]
    assert result.verdict in FINE and [named.id for named in found] == ids  # as good, for a model that is trained so
    numbers = [int(named.where.rpartition(":")[2]) for named in found]
    assert all(ONE_AFTER_THE_OTHER in (IMPORTS + text).splitlines()[number - 1] for number in numbers)


@pytest.mark.parametrize(
    "parts, said",
    [
        ((nn.Linear(2, 2), nn.GELU()), {"activation": "gelu"}),
        ((nn.Linear(2, 2), nn.LeakyReLU()), {"activation": "relu"}),
        ((nn.GELU(), nn.ReLU()), {}),
        ((nn.Linear(2, 2),), {}),
    ],
)
def test_words_of_one_activation_alone_show_it(parts, said):
    assert said_by(nn.Sequential(*parts)) == said
    assert said_by(None) == {}


def test_a_design_may_compute_what_words_say_in_any_form():
    assert is_near(("GELU by tanh", {"activation": "gelu tanh"}), {"activation": "gelu"})
    assert is_near(("no choice", {}), {"activation": "gelu"})
    assert not is_near(("ReLU", {"activation": "relu"}), {"activation": "gelu"})
