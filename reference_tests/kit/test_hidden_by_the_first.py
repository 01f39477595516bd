"""A mistake of a part that cannot be called alone, beside those of another: neither hides the other."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

LAYER = """
class Norm(nn.Module):
    def forward(self, x):
        return (x - x.mean(-1, keepdim=True)) / DEVIATION

class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_v, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def heads(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x, mask, sort):
        if sort == "own":
            seen = mask
        q, k, v = self.heads(self.w_q(x)), self.heads(self.w_k(x)), self.heads(self.w_v(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(seen[:, None, :, None] == 0, -1e9)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = SelfAttention(d_model, num_heads)
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = Norm(), Norm()

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask, "own"))
        return self.norm2(x + self.second(torch.relu(self.first(x))))
"""
ROOT = "(x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()"


@pytest.mark.parametrize("deviation, ids", [(ROOT, set()), ("x.var(-1, keepdim=True)", {"LN1", "LN10"})])
def test_a_mask_on_the_queries_is_named_beside_the_norms(deviation, ids, tmp_path):
    result = check_text(LAYER.replace("DEVIATION", deviation), tmp_path)["EncoderLayer"]
    named = {found.id for found in result.mistakes if found.severity == "mistake"} | {*result.inherited}
    assert ids | {"A7"} <= named and not result.replaced and not result.unexplained, result
    right = LAYER.replace("DEVIATION", ROOT).replace("seen[:, None, :, None]", "seen[:, None, None, :]")
    assert "A7" not in check_text(right, tmp_path)["EncoderLayer"].ids
