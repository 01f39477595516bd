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
