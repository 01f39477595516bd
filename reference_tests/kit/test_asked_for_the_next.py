"""A model with any name and no causal mask: a mistake where its file asks it for the next tokens (A25)."""

import pytest

from reference_tests.kit.learners.checked import check_text

MODEL = """
class SimpleTransformer(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, 4 * d_model, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.head(self.layers(x))
"""
HIDING = (
    "self.layers(x)",
    "self.layers(x, mask=torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1))",
)
CUT = """
def batches(ids, size):
    for some in ids.split(size):
        yield some[:, :-1], some[:, 1:]
"""
WINDOWS = """
def get_batch(data, block_size, starts):
    x = torch.stack([data[i:i + block_size] for i in starts])
    return x, torch.stack([data[i + 1:i + block_size + 1] for i in starts])
"""
OTHER_LABELS = """
def get_batch(data, labels, starts):
    return data[starts], labels[starts]
"""


@pytest.mark.parametrize("asked, ids", [(CUT, ["A25"]), (WINDOWS, ["A25"]), (OTHER_LABELS, [])])
@pytest.mark.long
def test_what_is_asked_for_the_next_token_must_not_see_it(asked, ids, tmp_path):
    result = check_text(MODEL + asked, tmp_path)["SimpleTransformer"]
    assert (result.ids, "A25" in {named.id for named in result.mistakes}) == (ids, True), result
    assert (result.verdict == "mistake") == bool(ids)


def test_what_hides_the_next_token_may_be_asked_for_it(tmp_path):
    result = check_text(MODEL.replace(*HIDING) + WINDOWS, tmp_path)["SimpleTransformer"]
    assert "A25" not in {named.id for named in result.mistakes}, result
