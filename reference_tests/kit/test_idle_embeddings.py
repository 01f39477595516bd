"""Embeddings that the constructor of what takes vectors makes, and nothing uses (B30)."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:enable_nested_tensor")]

ENCODER = """
class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)
        self.words = nn.Embedding(vocab_size, d_model)
        self.body = nn.TransformerEncoder(layer, num_layers)

    def forward(self, x, mask=None):
        return self.body(x, src_key_padding_mask=mask)
"""
EMBEDS = """
    def embed(self, ids):
        return self.words(ids)
"""
ASKED = """

def run(encoder, ids):
    return encoder(encoder.words(ids))
"""
TRANSLATOR = """
class Translator(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, src_vocab_size, tgt_vocab_size):
        super().__init__()
        self.body = nn.Transformer(d_model, num_heads, num_layers, num_layers, d_ff, batch_first=True)
        self.head = nn.Linear(d_model, tgt_vocab_size)
        MADE

    def forward(self, src_emb, tgt_emb, src_mask, tgt_mask):
        y = self.body(src_emb, tgt_emb, tgt_mask=tgt_mask, src_key_padding_mask=src_mask,
                      memory_key_padding_mask=src_mask)
        return self.head(y)
"""
MADE = "self.here, self.there = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)"
USED = """

def run(model, src, tgt, *masks):
    return model(model.here(src), model.there(tgt), *masks)
"""


@pytest.mark.parametrize("more, ids", [("", ["B30"]), (EMBEDS, []), (ASKED, [])])
def test_a_table_that_nothing_reads(more, ids, tmp_path):
    result = check_text(ENCODER + more, tmp_path)["Encoder"]
    assert result.severe == ids, result
    assert [one.form for one in result.mistakes if one.id == "B30"] == ["self.words"] * len(ids), result


@pytest.mark.parametrize("more, ids", [("", ["B30"]), (USED, [])])
def test_tables_of_a_model_of_vectors(more, ids, tmp_path):
    result = check_text(TRANSLATOR.replace("MADE", MADE) + more, tmp_path)["Translator"]
    assert result.severe == ids and not result.unexplained, result
    assert result.verdict == ("mistake" if ids else "matches the builtin"), result
