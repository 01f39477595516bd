"""Feed-forward networks that have the residual sum or the norm inside, which is theirs to have, and once only."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

BLOCK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w1, self.w2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return RETURNED


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention, self.network = nn.MultiheadAttention(d_model, num_heads), FeedForward(d_model, d_ff)
        self.attention.batch_first = True
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(SUMMED)
"""
LAST = "nn.Linear(d_ff, d_model)"
NETWORK = "self.w2(torch.relu(self.w1(x)))"


@pytest.mark.parametrize("returned", [f"x + {NETWORK}", f"self.norm({NETWORK})"])
def test_the_residual_or_the_norm_may_be_inside(returned, tmp_path):
    more = f"{LAST}, nn.LayerNorm(d_model)" if "norm" in returned else LAST
    text = BLOCK.partition("class Block")[0].replace("RETURNED", returned).replace(LAST, more)
    text = text.replace("self.w1, self.w2 =", "self.w1, self.w2, self.norm =") if "norm" in returned else text
    result = check_text(text, tmp_path)["FeedForward"]
    assert result.verdict in FINE, result


@pytest.mark.parametrize("summed, ids", [("self.network(x)", []), ("x + self.network(x)", ["B23"])])
def test_the_residual_is_added_once(summed, ids, tmp_path):
    results = check_text(BLOCK.replace("RETURNED", f"x + {NETWORK}").replace("SUMMED", summed), tmp_path)
    assert results["Block"].ids == ids, results["Block"]
