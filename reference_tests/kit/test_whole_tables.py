"""A table of positions that is added whole: only sentences of the longest length can be given, of both sides."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

WHOLE = """
class PositionalEncoding(nn.Module):
    def __init__(self, max_length, width):
        super().__init__()
        table, row = torch.zeros(max_length, width), torch.arange(max_length).float().unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table[:, 0::2], table[:, 1::2] = torch.sin(row * rate), torch.cos(row * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table


class Transformer(nn.Module):
    def __init__(self, source_words, target_words, width, heads, inner, layers, max_length):
        super().__init__()
        self.source, self.target = nn.Embedding(source_words, width), nn.Embedding(target_words, width)
        self.places = PositionalEncoding(max_length, width)
        options = {"dim_feedforward": inner, "batch_first": True}
        self.encoder = nn.ModuleList([nn.TransformerEncoderLayer(width, heads, **options) for _ in range(layers)])
        self.decoder = nn.ModuleList([nn.TransformerDecoderLayer(width, heads, **options) for _ in range(layers)])
        self.head = nn.Linear(width, target_words)

    def forward(self, source, target):
        length = target.size(1)
        ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
        x, y = self.places(self.source(source)), self.places(self.target(target))
        for layer in self.encoder:
            x = layer(x)
        for layer in self.decoder:
            y = layer(y, x, tgt_mask=ahead)
        return self.head(y)
"""
UNFINISHED = (
    ("self.places(self.target(target))", "self.target(source)"),
    (
        "            y = layer(y, x, tgt_mask=ahead)\n",
        "            y = layer(y, x, tgt_mask=ahead)\n            break\n",
    ),
    ("return self.head(y)", "return y"),
)


@pytest.mark.parametrize(
    "changes, verdict, ids",
    [((), "mistake", ["A24", "B4", "E2"]), (UNFINISHED, "unknown mismatch", [])],  # padding is hidden from nobody
)
def test_a_whole_is_given_a_source_and_a_target_of_the_longest_length(changes, verdict, ids, tmp_path):
    source = WHOLE
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    result = check_text(source, tmp_path)["Transformer"]
    assert (result.verdict, result.ids) == (verdict, ids), result
    assert any("longest length alone" in limit for limit in result.limits), result


BY_SAMPLES = """
class PositionalEncoding(nn.Module):
    def __init__(self, max_length, width):
        super().__init__()
        table, row = torch.zeros(max_length, 1, width), torch.arange(max_length).float().unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(row * rate), torch.cos(row * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table


class Encoder(nn.Module):
    def __init__(self, words, width, heads, inner, layers, max_length, dropout=0.1):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), PositionalEncoding(max_length, width)
        layer = nn.TransformerEncoderLayer(width, heads, inner, dropoutFIRST)
        self.layers, self.head = nn.TransformerEncoder(layer, layers), nn.Linear(width, words)

    def forward(self, ids):
        return self.head(self.layers(PLACED))
"""


@pytest.mark.parametrize("first, placed, verdict, ids", [
    (", batch_first=True", "self.places(self.words(ids))", "mistake", ["P4"]),
    (", batch_first=True", "self.places(self.words(ids).transpose(0, 1)).transpose(0, 1)", "matches the builtin", []),
    ("", "self.places(self.words(ids))", "matches the builtin", []),
])  # fmt: skip
def test_rows_that_are_added_whole_are_of_samples_where_its_layers_are_batch_first(
    first, placed, verdict, ids, tmp_path
):
    results = check_text(BY_SAMPLES.replace("FIRST", first).replace("PLACED", placed), tmp_path)
    result, whole = results["PositionalEncoding"], results["Encoder"]
    assert (result.verdict, result.severe) == (verdict, ids), result
    assert all("In Encoder" in mistake.evidence for mistake in result.mistakes if mistake.id == "P4")
    assert not whole.severe, whole
