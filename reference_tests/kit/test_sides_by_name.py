"""Which of two inputs is the source is said by their names; where they do not, both ways are tried."""

import pytest

from reference_tests.kit.learners.checked import check_text

BOTH = """
class Transformer(nn.Module):
    def __init__(self, vocab, d_model, nhead, num_layers, d_ff, max_len):
        super().__init__()
        self.table, self.other = nn.Embedding(vocab, d_model), nn.Embedding(vocab, d_model)
        self.places = nn.Embedding(max_len, d_model)
        sizes = (d_model, nhead, d_ff, 0.0)
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(*sizes, batch_first=True) for _ in range(num_layers))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(*sizes, batch_first=True) for _ in range(num_layers))
        self.out = nn.Linear(d_model, vocab)

    def forward(self, FIRST, SECOND):
        memory = self.table(SECOND) + self.places(torch.arange(SECOND.shape[1]))
        words = self.other(FIRST) + self.places(torch.arange(FIRST.shape[1]))
        later = torch.ones(FIRST.shape[1], FIRST.shape[1]).triu(1).bool()
        hidden, own = SECOND == 0, FIRST == 0
        for layer in self.encoder:
            memory = layer(memory, src_key_padding_mask=hidden)
        for layer in self.decoder:
            words = layer(words, memory, later, None, own, hidden)
        return self.out(words)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "first, second, ids", [("x", "y", []), ("x", "context", []), ("x", "src", []), ("src", "tgt", ["B25"])]
)
def test_nobody_says_of_x_and_y_which_is_the_source(first, second, ids, tmp_path):
    result = check_text(BOTH.replace("FIRST", first).replace("SECOND", second), tmp_path)["Transformer"]
    assert "unknown" not in result.verdict and [id for id in result.ids if id != "B4"] == ids
