"""Attention whose weights are plain tensors, in a layer that has others: B10, in the part, and nothing else for that.

And what is built with the file's own sizes and says nothing of heads has one.
"""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look

pytestmark = pytest.mark.long

LAYER = """
width, longest = 64, 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        MADE

    def forward(self, x, mask):
        q, k, v = CALLED
        dk = k.size(-1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(dk)
        hidden = scores + ((mask == 0) * -1000.0).unsqueeze(1)
        return torch.softmax(SCORES, dim=-1) @ v


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.out = Attention(), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, mask):
        x = self.norm1(x + self.out(self.attention(x, mask)))
        return self.norm2(x + self.down(torch.relu(self.up(x))))
"""
LINEAR = LAYER.replace("CALLED", "self.w_q(x), self.w_k(x), self.w_v(x)").replace(
    "MADE", "self.w_q, self.w_k, self.w_v = (nn.Linear(width, width, bias=False) for _ in range(3))"
)
PLAIN = LAYER.replace("CALLED", "x @ self.w_q, x @ self.w_k, x @ self.w_v").replace(
    "MADE", "\n        ".join(f"self.w_{one} = torch.rand(width, width)" for one in "qkv")
)
MODEL = """

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        self.layer = Layer()

    def forward(self, ids, mask):
        return self.layer(self.embedding(ids), mask)
"""


def test_a_layer_of_one_head_with_the_files_sizes_is_right(tmp_path):
    with time_to_look(1):
        told = check_text(LINEAR.replace("SCORES", "hidden"), tmp_path)
    assert {name: one.severe for name, one in told.items()} == {"Attention": [], "Layer": []}
    assert not any(one.unexplained for one in told.values())


@pytest.mark.parametrize("scores, more", [("hidden", []), ("scores", ["A24"])])
def test_weights_that_are_plain_tensors_are_named_in_the_part(scores, more, tmp_path):
    """Not as a table that is no buffer (P5), nor as a tensor that a buffer is to be made of (B32)."""
    told = check_text(PLAIN.replace("SCORES", scores) + MODEL, tmp_path)
    assert {name: sorted(one.severe) for name, one in told.items()} == {
        "Attention": [*more, "B10"],
        "Layer": [],
        "Model": [],
    }
    assert not any(one.unexplained for one in told.values())
    assert told["Layer"].inherited and told["Model"].inherited
