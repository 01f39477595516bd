"""Static methods of a class of modules: where the class stops, they are judged by themselves."""

import pytest

from reference_tests.kit.learners.checked import check_text

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.out = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def split(self, x):
        return x.view(x.size(0), -1, self.{0}, self.d_k).transpose(1, 2).flatten(0, 1)

    def forward(self, query, key, value):
        q, k, v = self.split(self.q(query)), self.split(self.k(key)), self.split(self.v(value))
        y = self.scaled_dot_product_attention(q, k, v)
        return self.out(y.unflatten(0, (-1, self.num_heads)).transpose(1, 2).flatten(2))

    @staticmethod
    def scaled_dot_product_attention(q, k, v, dropout{1}):
        weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.size(-1)), dim={2})
        {3}
        return weights @ v
"""
NAME = "MultiHeadAttention.scaled_dot_product_attention"
NONE, DROPS = "weights = weights + 0", "weights = nn.Dropout(p=dropout)(weights)"


@pytest.mark.parametrize("axis, ids", [("-1", []), ("1", ["A2"])])
def test_of_a_class_that_stops_they_are_judged(axis, ids, tmp_path):
    results = check_text(ATTENTION.format("parts", "=0.1", axis, NONE), tmp_path)
    assert (results["MultiHeadAttention"].verdict, results["MultiHeadAttention"].ids) == ("mistake", ["B26"])
    assert (results[NAME].verdict == "mistake", results[NAME].severe) == (bool(ids), ids)


def test_of_a_class_that_runs_they_are_a_part(tmp_path):
    results = check_text(ATTENTION.format("num_heads", "=0.1", "-1", NONE), tmp_path)
    assert NAME not in results
    assert results["MultiHeadAttention"].verdict == "matches the builtin"


@pytest.mark.parametrize(
    "default, line, ids",
    [
        ("=0.1", DROPS, ["B12"]),
        ("=0.0", DROPS, []),
        ("", DROPS, []),
        ("=0.1, training=False", f"weights = weights if not training else {DROPS.partition('= ')[2]}", []),
        ("=0.1", NONE, []),
    ],
)
def test_a_dropout_that_is_made_in_a_function_never_knows_of_evaluation(default, line, ids, tmp_path):
    result = check_text(ATTENTION.format("parts", default, "-1", line), tmp_path)[NAME]
    assert result.severe == ids
    for named in result.mistakes:
        assert named.id != "B12" or named.shown.strip() == DROPS
