"""What is built again, with dropout, has its weights where it had them: sublayers are silenced by weights of zero."""

import pytest

from reference_tests.kit.learners.checked import check_text

HEADS_OF_THE_WHOLE_WIDTH = """
class Head(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.ql, self.kl, self.vl = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x, mask):
        scores = self.ql(x) @ self.kl(x).transpose(1, 2) / math.sqrt(x.size(-1))
        return scores.masked_fill(mask == 0, float("-inf")).softmax(-1) @ self.vl(x)


class MultiHead(nn.Module):
    def __init__(self, size, n_heads):
        super().__init__()
        self.heads = nn.ModuleList([Head(size) for _ in range(n_heads)])
        self.projection = nn.Linear(size * n_heads, size)

    def forward(self, x, mask):
        return self.projection(torch.cat([head(x, mask) for head in self.heads], -1))


class EncoderLayer(nn.Module):
    def __init__(self, size, n_heads, dropout):
        super().__init__()
        self.attention, self.dropout = MultiHead(size, n_heads), nn.Dropout(dropout)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.linear1, self.linear2 = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        return self.norm2(SUM)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "sum, ids",
    [
        ("x + self.dropout(self.linear2(torch.relu(self.linear1(x))))", []),
        ("self.dropout(x) + self.linear2(torch.relu(self.linear1(x)))", ["B24"]),
    ],
)
def test_dropout_is_looked_for_around_heads_of_the_whole_width(sum, ids, tmp_path):
    result = check_text(HEADS_OF_THE_WHOLE_WIDTH.replace("SUM", sum), tmp_path)["EncoderLayer"]
    assert [id for id in result.ids if id == "B24"] == ids
