"""B29 of heads that a layer is told and does not hand on to its attention, which keeps its own number of them."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

LAYER = """
class Attention(nn.Module):
    def __init__(self, dim=384, n_heads=6, head_dim=64):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, head_dim
        self.q, self.k, self.v = (nn.Linear(dim, n_heads * head_dim) for _ in range(3))
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, self.head_dim)).transpose(1, 2) for w in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        scores = scores + torch.full(scores.shape[-2:], -math.inf, device=x.device).triu(1)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, n_heads=6, dim=384):
        super().__init__()
        self.attention = Attention(HANDED)
        self.network = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.network(self.norm2(x))
"""


@pytest.mark.parametrize("handed", ["dim=dim, head_dim=dim // n_heads", "dim, head_dim=dim // n_heads"])
def test_heads_that_are_not_handed_on_are_named(handed, tmp_path):
    result = check_text(LAYER.replace("HANDED", handed), tmp_path)["Block"]
    (found,) = (one for one in result.mistakes if one.severity == "mistake")
    assert (found.id, found.shown.strip()) == ("B29", f"self.attention = Attention({handed})")
    assert "is not told its n_heads, and has 6, whatever n_heads is" in found.evidence


def test_heads_that_are_handed_on_are_right(tmp_path):
    with time_to_look(1):
        text = LAYER.replace("HANDED", "dim, n_heads, dim // n_heads")
        assert check_text(text, tmp_path)["Block"].verdict in FINE
