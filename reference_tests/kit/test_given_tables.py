"""A table of positions that forward is given: it is the paper's, and the rest is judged."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

ADDED = """
class PositionalEncoding(nn.Module):
    def forward(self, x, NAME):
        return x SUM NAME[CUT]


class Embeddings(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.table, self.d_model = nn.Embedding(vocab_size, d_model), d_model

    def forward(self, ids, NAME):
        x = self.table(ids) * math.sqrt(self.d_model)
        return x SUM NAME[CUT]
"""
MODEL = """
class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, dropout=0.0, batch_first=True)
        self.d_model, self.embed = d_model, nn.Embedding(vocab_size, d_model)
        self.stack = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)

    def forward(self, ids, NAME, mask):
        x = self.embed(ids) * math.sqrt(self.d_model)
        return self.stack(x SUM NAME[CUT], src_key_padding_mask=mask)
"""
TABLES = [("pe", ": x.size(1)"), ("pos_table", ": x.size(1)"), ("sinusoid_table", ":, : x.size(1)")]


def _with(text, **words):
    for word, said in words.items():
        text = text.replace(word, said)
    return text


@pytest.mark.parametrize("name, cut", TABLES)
def test_what_adds_a_table_that_it_is_given_is_judged(name, cut, tmp_path):
    with time_to_look(1):
        results = check_text(_with(ADDED, NAME=name, CUT=cut, SUM="+"), tmp_path)
    assert set(results) == {"PositionalEncoding", "Embeddings"} and all(r.verdict in FINE for r in results.values()), (
        results
    )


@pytest.mark.long
def test_what_is_wrong_beside_it_is_named(tmp_path):
    results = check_text(_with(ADDED, NAME="pe", CUT=": x.size(1)", SUM="*"), tmp_path)
    assert all(result.verdict == "mistake" and result.ids == ["P10"] for result in results.values()), results


@pytest.mark.long
@pytest.mark.parametrize("name, cut", TABLES)
@pytest.mark.parametrize("sum, is_right", [("+", True), ("-", False)])
def test_so_it_is_of_a_model(name, cut, sum, is_right, tmp_path):
    with time_to_look(1):
        result = check_text(_with(MODEL, NAME=name, CUT=cut, SUM=sum), tmp_path)["Encoder"]
    assert (result.verdict in FINE) == is_right, result
