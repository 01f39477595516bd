"""Layers in a Python list run as any others, though PyTorch does not see them (B10)."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look

pytestmark = pytest.mark.long

CLASSIFIER = """
class Layer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.n1(x + self.attn(x, x, x, need_weights=False)[0])
        return self.n2(x + self.ff(x))


class Positions(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        table = torch.zeros(max_len, d_model)
        angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("table", table)

    def forward(self, ids):
        return self.table[: ids.size(1)]


class Classifier(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, max_len, n_classes):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab_size, d_model), Positions(d_model, max_len)
        self.layers = LAYERS
        self.classifier = nn.Linear(d_model, n_classes)

    def forward(self, ids):
        x = self.tok(ids) * self.tok.embedding_dim**0.5 + self.pos(ids)
        for layer in self.layers:
            x = layer(GIVEN)
        return self.classifier(x[:, 0])
"""
LISTED = "[Layer(d_model, n_heads, d_ff) for _ in range(n_layers)]"


@pytest.mark.parametrize("layers, listed", [(LISTED, ["B10"]), (f"nn.ModuleList({LISTED})", [])])
@pytest.mark.parametrize("before, given, first", [("", "x", []), ("first = x\n        ", "first", ["B19"])])
def test_what_is_made_of_listed_layers_is_compared_by_these(before, given, first, layers, listed, tmp_path):
    text = CLASSIFIER.replace("LAYERS", layers).replace("GIVEN", given)
    with time_to_look(1):
        result = check_text(text.replace("for layer in", f"{before}for layer in"), tmp_path)["Classifier"]
    assert set(result.severe) == {*listed, *first}, result


OF_THE_FILE = """
width = 64


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x, need_weights=False)[0])
        return self.norm2(x + self.down(torch.relu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, num_layers):
        super().__init__()
        self.layers = [Layer() for _ in range(num_layers)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


def test_sizes_of_the_file_show_in_layers_of_a_python_list(tmp_path):
    """How wide the network is, 4 · width, only the shapes of its weights say, which torch does not list."""
    result = check_text(OF_THE_FILE, tmp_path)["Encoder"]
    assert (result.severe, result.unexplained) == (["B10"], False) and result.error < 1e-12
