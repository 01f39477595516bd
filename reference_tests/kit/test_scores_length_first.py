"""Scores (T, B, V) of ids (B, T), and a writer of text beside the model that returns them."""

import pytest

from reference_tests.kit.learners.checked import check_text

MODEL = """
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        layer = lambda: nn.TransformerEncoderLayer(d_model, num_heads, d_ff)
        self.layers = nn.ModuleList([layer() for _ in range(num_layers)])
        self.fc = nn.Linear(d_model, vocab_size)

    def forward(self, x, mask=None):
        x = self.embedding(x).transpose(0, 1)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return RETURNED

def generate(model, ids, max_new_tokens):
    for _ in range(max_new_tokens):
        hidden = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        scores = model(ids, hidden)
        ids = torch.cat((ids, scores[:, -1].argmax(-1, keepdim=True)), dim=1)
    return ids
"""


@pytest.mark.parametrize("returned, is_said", [("self.fc(x)", True), ("self.fc(x).transpose(0, 1)", False)])
def test_it_is_said_of_the_model_and_of_what_writes_with_it(returned, is_said, tmp_path):
    results = check_text(MODEL.replace("RETURNED", returned), tmp_path)
    of_model, of_writer = (" ".join(results[name].limits) for name in ("TransformerDecoder", "generate"))
    assert ("returns scores (T, B, V)" in of_model) == is_said, results["TransformerDecoder"]
    assert ("TransformerDecoder returns (T, B, V)" in of_writer) == is_said, results["generate"]


PLAIN = """
class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.w_query = MADE
        self.w_key, self.w_value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, odd):
        scores = torch.matmul(x, self.w_query) @ self.w_key(x).transpose(-2, -1) / x.shape[-1] ** 0.5
        return (scores + odd["there"]).softmax(-1) @ self.w_value(x)
"""


@pytest.mark.parametrize(
    "made, ids", [("torch.rand(width, width)", ["B10"]), ("nn.Parameter(torch.rand(width, width))", [])]
)
def test_drawn_weights_are_told_of_without_a_run(made, ids, tmp_path):
    results = check_text(PLAIN.replace("MADE", made), tmp_path)
    assert [found.id for found in results["Attention"].mistakes if found.id == "B10"] == ids, results
