"""B26: tensors where numbers or answers are wanted, arrays where tensors are; and what the whole is called then."""

import pytest
from torch import nn

from reference_tests.kit.learners.checked import WORDS, check_text
from scratch_transformer.kit.resolve.library.supplied import is_whole_sublayer

pytestmark = pytest.mark.long

LEARNER = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads, self.width = num_heads, d_model // num_heads
        self.query, self.key, self.value = (nn.Linear(d_model, d_model) for _ in range(3))
        self.out, self.norm = nn.Linear(d_model, d_model), nn.LayerNorm(d_model)

    def split(self, x):
        return x.view(x.shape[0], -1, self.num_heads, self.width).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        residual = query
        q, k, v = self.split(self.query(query)), self.split(self.key(key)), self.split(self.value(value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.width)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = scores.softmax(-1)
        y = (weights @ v).transpose(1, 2).reshape(query.shape)
        return self.norm(residual + self.out(y))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.norm(x + self.down(torch.relu(self.up(x))))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention, self.network = Attention(d_model, num_heads), FeedForward(d_model, d_ff)

    def forward(self, x, mask=None):
        return self.network(self.attention(x, x, x, mask))


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        rates = 10000 ** (np.arange(0, d_model, 2) / d_model)
        angles = np.arange(max_len)[:, None] / rates
        table = np.zeros((max_len, d_model))
        table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
        self.register_buffer("table", torch.cat([torch.from_numpy(table).float()]))

    def forward(self, x):
        return x + self.table[: x.shape[1]]
"""


def results(folder, old="", new="", names=None):
    assert old in LEARNER
    return check_text(f"import numpy as np\n{LEARNER.replace(old, new) if old else LEARNER}", folder, names)


def test_a_layer_of_whole_sublayers_is_right(tmp_path):
    found = results(tmp_path)
    assert {name: result.verdict for name, result in found.items()} == {
        "Attention": "matches the builtin",
        "FeedForward": "matches the builtin",
        "EncoderLayer": "matches the builtin",
        "PositionalEncoding": "matches the builtin",
    }


@pytest.mark.parametrize("old, new, said", [
    pytest.param("scores.softmax(-1)", "scores.softmax(scores)", "softmax the tensor scores as dim", marks=WORDS),
    pytest.param("scores.softmax(-1)", "F.softmax(scores, dim=v)", "softmax the tensor v as dim", marks=WORDS),
    ("        residual =", "        assert query == key == value\n        residual =", "whether query == key == value"),
    ("        residual =", "        if value:\n            key = value\n        residual =", "whether value"),
])  # fmt: skip
def test_what_stops_in_a_sublayer_is_named_and_its_layer_lacks_no_sum(old, new, said, tmp_path):
    found = results(tmp_path, old, new, ("Attention", "FeedForward", "EncoderLayer"))
    (mistake,) = found["Attention"].mistakes
    assert mistake.id == "B26" and said in mistake.evidence
    layer = found["EncoderLayer"]
    assert (layer.verdict, layer.ids, layer.inherited) == ("mistake", [], ["B26"])


def test_an_array_among_tensors_is_named(tmp_path):
    found = results(
        tmp_path, "[torch.from_numpy(table).float()]", "(torch.zeros(1, d_model), table)", ("PositionalEncoding",)
    )
    (mistake,) = found["PositionalEncoding"].mistakes
    assert mistake.id == "B26" and "table, an array of NumPy's" in mistake.evidence


class Whole(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, query, key, mask=None):
        kept = query.clone()
        query = self.norm(query)
        return query @ key + kept


class TurnsNormalizedQueries(nn.Module):
    def __init__(self, q_norm):
        super().__init__()
        self.q_norm = q_norm

    def forward(self, query, key, mask=None):
        scores = self.q_norm(query) @ key.transpose(-2, -1)
        return (scores + mask).softmax(-1) @ key


class AddsWithoutNorm(nn.Module):
    def forward(self, x):
        return x + x.relu()


def test_the_reference_does_not_stand_in_for_what_normalizes_and_adds_its_input():
    """With the reference's attention in that place, the layer would lack the sum and the norm that the part has."""
    assert is_whole_sublayer(Whole, "MultiheadAttention")
    assert not is_whole_sublayer(Whole, "EncoderLayer")  # of which the reference has both
    assert not is_whole_sublayer(TurnsNormalizedQueries, "MultiheadAttention")
    assert not is_whole_sublayer(AddsWithoutNorm, "FeedForward")


def test_a_number_that_is_compared_is_no_tensor(tmp_path):
    new = "        if key.shape[1] == 0:\n            return query\n        residual ="
    found = results(tmp_path, "        residual =", new, ("Attention",))
    assert found["Attention"].verdict == "matches the builtin"
