"""Sizes that are written into how features are cut, or into products, in place of what the constructor is told."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.checking import Checking
from scratch_transformer.kit.kind import ONE_LENGTH
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, 8, -1).transpose(1, 2) for part in self.qkv(x).split(C, dim=-1))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(C // 8)).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(B, T, C))
"""
PACKED = "nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)"
CUT, SCALE = "view(B, T, 8, -1)", "math.sqrt(C // 8)"


def test_heads_that_are_written_in_are_told_not_used(tmp_path):
    result = check_text(ATTENTION, tmp_path)["MultiHeadAttention"]
    assert result.ids[:1] == ["B29"] and any("8 is written in; it was checked with 3" in one for one in result.limits)


@pytest.mark.parametrize(
    "changed",
    [
        {CUT: "view(B, T, self.num_heads, 64)", SCALE: "64 ** 0.5"},  # whose root is computed in advance
        {CUT: "view(B, T, self.num_heads, -1)", SCALE: "math.sqrt(k.size(-1))",
         PACKED: "nn.Linear(64, 3 * 64), nn.Linear(64, 64)"},
        {CUT: "view(B, T, self.num_heads, -1)", SCALE: "math.sqrt(k.size(-1))",
         "        self.num_heads = num": "        assert d_model % num_heads**2 == 0\n        self.num_heads = num"},
    ],
)  # fmt: skip
def test_what_is_right_with_its_sizes_is_right(changed, tmp_path):
    text = ATTENTION
    for old, new in changed.items():
        text = text.replace(old, new)
    result = check_text(text, tmp_path)["MultiHeadAttention"]
    assert result.verdict in FINE and "B29" not in result.ids, result


def test_what_takes_too_long_as_it_is_large_is_said_to_be_large():
    checking = Checking({}, None, lambda *_, **__: None)
    assert "endless" in checking._why_long()
    checking.library.most_weights = 17_000_000
    assert "17 million weights" in checking._why_long()


OF_TORCH = """
EMBEDDING_DIM = 128

class EncoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_heads = 8
        self.attention = nn.MultiheadAttention(EMBEDDING_DIM, self.num_heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(EMBEDDING_DIM), nn.LayerNorm(EMBEDDING_DIM)
        self.feed_forward = nn.Sequential(nn.Linear(EMBEDDING_DIM, 512), nn.ReLU(), nn.Linear(512, EMBEDDING_DIM))

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.feed_forward(x))
"""


@pytest.mark.parametrize("norm, ids", [("self.norm2(x +", []), ("(x +", ["B14"])])
def test_heads_that_are_written_in_get_a_width_that_they_divide(norm, ids, tmp_path):
    result = check_text(OF_TORCH.replace("self.norm2(x +", norm), tmp_path)["EncoderBlock"]
    assert (result.verdict in FINE, result.severe) == (not ids, ids), result


OF_ONE_BATCH = """
BATCH_SIZE, SEQ_LEN, EMBEDDING_DIM = 64, 16, 128

class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_heads = 8
        self.head_dim = EMBEDDING_DIM // self.num_heads
        self.wq, self.wk = nn.Linear(EMBEDDING_DIM, EMBEDDING_DIM), nn.Linear(EMBEDDING_DIM, EMBEDDING_DIM)
        self.wv, self.wo = nn.Linear(EMBEDDING_DIM, EMBEDDING_DIM), nn.Linear(EMBEDDING_DIM, EMBEDDING_DIM)

    def split(self, x):
        return x.view(BATCH, LENGTH, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(SCALE)).softmax(-1)
        return self.wo((weights @ v).transpose(1, 2).reshape(BATCH, LENGTH, EMBEDDING_DIM))
"""


@pytest.mark.parametrize("batch, length, said", [
    ("64", "x.size(1)", "size 64 is written in; it was checked with 2"), ("BATCH_SIZE", "SEQ_LEN", ONE_LENGTH),
])  # fmt: skip
@pytest.mark.parametrize("scale, ids", [("self.head_dim", []), ("EMBEDDING_DIM", ["A1"])])
def test_sizes_of_a_batch_that_are_written_in_are_given(batch, length, said, scale, ids, tmp_path):
    text = OF_ONE_BATCH.replace("BATCH,", f"{batch},").replace("LENGTH", length).replace("SCALE", scale)
    result = check_text(text, tmp_path)["SelfAttention"]
    assert (result.verdict in FINE, result.severe) == (not ids, ids), result
    assert any(said in limit for limit in result.limits)
