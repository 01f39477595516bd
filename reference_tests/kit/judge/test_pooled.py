"""What an encoder makes of a sentence: with more padding it must be the same (A24)."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

CLASSIFIER = """
class SentenceClassifier(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, num_classes, dropout=0.1, max_len=64):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, dropout, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.dropout, self.head = nn.Dropout(dropout), nn.Linear(d_model, num_classes)

    def forward(self, ids, mask=None):
        x = self.words(ids) * self.words.embedding_dim**0.5
        x = self.dropout(x + self.places(torch.arange(ids.size(1), device=ids.device)))
        x = self.layers(x, src_key_padding_mask=None if mask is None else mask == 0)
        POOLED
        return self.head(pooled)
"""
MASKED = "pooled = (x * mask[..., None]).sum(1) / mask[..., None].sum(1) if mask is not None else x.mean(1)"


@pytest.mark.parametrize("pooled", ["pooled = x.mean(dim=1)", "pooled = x.max(dim=1).values"])
def test_padding_that_counts_for_the_class_of_a_sentence_is_named_at_its_line(pooled, tmp_path):
    found = check_text(CLASSIFIER.replace("POOLED", pooled), tmp_path)["SentenceClassifier"]
    (named,) = [one for one in found.mistakes if one.id == "A24"]
    assert found.verdict == "mistake" and "counts padding in" in named.form and named.fix.startswith("keep = ")
    assert named.shown.strip() == pooled


@pytest.mark.parametrize("pooled", [MASKED, "pooled = x[:, 0]"])
def test_what_is_made_of_the_real_tokens_is_right(pooled, tmp_path):
    found = check_text(CLASSIFIER.replace("POOLED", pooled), tmp_path)["SentenceClassifier"]
    assert "A24" not in found.ids and any("last layer's output" in limit for limit in found.limits), found
