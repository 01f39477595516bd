"""What reads a second sample stops with a batch of one."""

import pytest

from reference_tests.kit.learners.checked import check_text

ATTENTION = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_v, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            print("masks:", mask[ROW].shape)
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("row, ids", [("1", ["B26"]), ("0", []), ("-1", [])])
def test_a_line_that_needs_a_second_sample_is_shown(row, ids, tmp_path):
    result = check_text(ATTENTION.replace("ROW", row), tmp_path)["SelfAttention"]
    severe = [named for named in result.mistakes if named.severity == "mistake"]
    assert [named.id for named in severe] == ids, result
    if ids:
        assert "mask[1]" in severe[0].shown
