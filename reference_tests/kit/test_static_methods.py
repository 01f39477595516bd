"""Static methods: of a class of modules they are judged by themselves where that stops, of other classes always."""

import pytest

from reference_tests.kit.learners.checked import check_text, reported, written

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


MANAGER = """
class Manager:
    @staticmethod
    def train(model, loader):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for x, y in loader:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @staticmethod
    def attention(query, key, value):
        return torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)), dim=AXIS) @ value

    @staticmethod
    def greedy_decode(model, src, src_mask, tokenizer, max_len):
        memory = model.encode(src, src_mask)
        ids = torch.full((1, 1), tokenizer.token_to_id("[SOS]"))
        while ids.size(1) < max_len:
            word = model.project(model.decode(memory, src_mask, ids, None)[:, PLACE]).argmax(-1)
            ids = torch.cat([ids, word[:, None]], dim=1)
            if word.item() == tokenizer.token_to_id("[EOS]"):
                break
        return ids.squeeze(0)

    @staticmethod
    def run(model, loader, tokenizer):
        return [Manager.greedy_decode(model, src, mask, tokenizer, 20) for src, mask in loader]
"""


@pytest.mark.parametrize("place, axis, ids", [("-1", "-1", ([], [])), ("0", "-2", (["D8"], ["A2"]))])
def test_of_a_class_that_is_no_module_they_are_judged_as_functions(place, axis, ids, tmp_path):
    report = reported(written(MANAGER.replace("PLACE", place).replace("AXIS", axis), tmp_path))
    found = {result.name: result.severe for result in report.results}
    assert found == dict(zip(("Manager.greedy_decode", "Manager.attention"), ids, strict=True))
    assert "Manager (no nn.Module; its attention and its greedy_decode are judged)" in "".join(report.ignored)
