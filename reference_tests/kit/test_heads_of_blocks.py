"""A block that has a list of heads and the matrix behind them itself, and no class for all of its attention."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

MODEL = """
class Head(nn.Module):
    def __init__(self, width, d_head, block_size):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, d_head) for _ in range(3))
        self.register_buffer("lower", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        T = x.size(1)
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / math.sqrt(WIDTH)
        return scores.masked_fill(self.lower[:T, :T] == 0, float("-inf")).softmax(-1) @ self.value(x)

class Block(nn.Module):
    def __init__(self, width, n_heads, block_size):
        super().__init__()
        assert width % n_heads == 0
        self.heads = nn.ModuleList(Head(width, width // n_heads, block_size) for _ in range(n_heads))
        self.proj = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.proj(torch.cat([head(y) for head in self.heads], dim=-1))
        return x + self.net(self.norm2(x))

class MiniGPT(nn.Module):
    def __init__(self, vocab_size, block_size, width, n_heads, n_layers):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab_size, width), nn.Embedding(block_size, width)
        self.blocks = nn.Sequential(*[Block(width, n_heads, block_size) for _ in range(n_layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab_size)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        return self.head(self.norm(self.blocks(x)))
"""


def judged(tmp_path, width="self.query.out_features", names=None):
    return check_text(MODEL.replace("WIDTH", width), tmp_path, names)


@pytest.mark.parametrize("name", ["Block", "MiniGPT"])
def test_its_weights_are_known(name, tmp_path):
    result = judged(tmp_path)[name]
    assert result.verdict in FINE and result.error < 1e-12 and not result.replaced, result


def test_what_is_wrong_in_a_head_explains_its_block(tmp_path):
    results = judged(tmp_path, "x.size(-1)", ["Head", "Block"])
    assert results["Head"].severe == ["A1"]
    assert results["Block"].inherited == ["A1"] and not results["Block"].unexplained, results["Block"]
