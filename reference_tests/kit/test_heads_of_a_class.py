"""As many heads as are written into a class, beside sizes that a global has: judged with a width that they divide."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

LAYERS = """
WIDTH = D_MODEL = 128

class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_heads = 8
        self.w_q, self.w_k = nn.Linear(D_MODEL, D_MODEL), nn.Linear(D_MODEL, D_MODEL)
        self.w_v, self.w_o = nn.Linear(D_MODEL, D_MODEL), nn.Linear(D_MODEL, D_MODEL)

    def heads(self, x):
        return x.reshape(x.shape[0], -1, self.num_heads, D_MODEL // self.num_heads).transpose(1, 2)

    def forward(self, x, source, tokens_mask_source, tokens_mask_target, sort):
        if sort == "cross":
            seen, y = tokens_mask_source, source
        elif sort == "own":
            seen, y = tokens_mask_target, x
        q, k, v = self.heads(self.w_q(x)), self.heads(self.w_k(y)), self.heads(self.w_v(y))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(seen[:, None, None, :] == 0, float("-inf"))
        if sort == "own":
            later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape[0], -1, D_MODEL))

class LayerNorm(nn.Module):
    def forward(self, x):
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)

class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.cross = SelfAttention(), SelfAttention()
        self.first, self.second = nn.Linear(D_MODEL, 4 * D_MODEL), nn.Linear(4 * D_MODEL, D_MODEL)
        self.norm1, self.norm2, self.norm3 = LayerNorm(), LayerNorm(), LayerNorm()

    def forward(self, x, tokens_mask_source, tokens_mask_target, source):
        x = self.norm1(x + self.attention(x, None, tokens_mask_source, tokens_mask_target, "own"))
        x = self.norm2(x + self.cross(x, source, tokens_mask_source, tokens_mask_target, "cross"))
        return self.norm3(x + self.second(torch.relu(self.first(x))))
"""
ROOT = "torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)"


def test_a_layer_with_such_an_attention_is_judged(tmp_path):
    results = check_text(LAYERS, tmp_path)
    assert results["DecoderLayer"].error < 1e-9, results["DecoderLayer"]
    problem = results["SelfAttention"].problem  # not that our 12 features cannot be cut into 8 heads
    assert "num_heads must divide" not in problem and "its forward" in problem, problem


def test_nor_does_it_stop_with_our_sizes_where_it_is_wrong(tmp_path):
    wrong = LAYERS.replace(ROOT, "x.var(-1, keepdim=True)").replace("x + self.cross(", "x + 1.3 * self.cross(")
    result = check_text(wrong, tmp_path)["DecoderLayer"]
    assert result.verdict == "mistake" and "LN10" in result.inherited, result
    assert result.error < float("inf") and not result.problem


def test_a_flag_that_is_compared_with_false_is_no_mask_that_stops_it(tmp_path):
    asked = LAYERS.replace("tokens_mask_target, sort):", "tokens_mask_target, masked):")
    asked = asked.replace('if sort == "cross"', "if (masked == False)").replace('sort == "own"', "masked == True")
    result = check_text(asked, tmp_path)["SelfAttention"]
    assert "A31" not in result.ids
