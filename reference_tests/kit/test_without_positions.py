"""A model that tells its tokens no positions at all: that is said, for information."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.embedding import NO_POSITIONS

MODEL = """
class WordsOnly(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.block = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, 0.0, batch_first=True)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        x = self.words(ids)
        x = self.block(x, src_mask=nn.Transformer.generate_square_subsequent_mask(ids.size(1)), is_causal=True)
        return self.head(x)
"""
LEARNED = MODEL.replace("self.head =", "self.places = nn.Embedding(64, d_model)\n        self.head =").replace(
    "x = self.words(ids)", "x = self.words(ids) + self.places(torch.arange(ids.size(1)))"
)


@pytest.mark.parametrize("text, forms", [(MODEL, [NO_POSITIONS]), (LEARNED, [])])
def test_a_language_model_without_positions_is_told_of(text, forms, tmp_path):
    found = check_text(text.replace("WordsOnly", "MiniGPT"), tmp_path)["MiniGPT"]
    assert [named.form for named in found.mistakes if named.id == "P13"] == forms
    assert "P13" not in found.ids and found.verdict != "mistake"
    assert not any("Adds the positions" in named.does for named in found.mistakes)
