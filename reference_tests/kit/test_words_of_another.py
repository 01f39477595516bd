"""B29 of a table of words that has another number of rows than it was told, in a model that makes the rest of it."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

MODEL = """
class Seq2Seq(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.src_embed, self.tgt_embed = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        sizes = (d_model, num_heads, d_ff)
        self.encoder = nn.ModuleList([nn.TransformerEncoderLayer(*sizes, batch_first=True) for _ in range(num_layers)])
        self.decoder = nn.ModuleList([nn.TransformerDecoderLayer(*sizes, batch_first=True) for _ in range(num_layers)])
        self.out = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt):
        future = torch.ones(tgt.shape[1], tgt.shape[1]).triu(1).bool()
        memory, x, pads = self.src_embed(src), self.tgt_embed(tgt), src == 0
        for layer in self.encoder:
            memory = layer(memory, src_key_padding_mask=pads)
        for layer in self.decoder:
            x = layer(x, memory, tgt_mask=future, memory_key_padding_mask=pads)
        return self.out(x)
"""


@pytest.mark.parametrize(
    "old, new, form",
    [
        ("", "", None),
        ("nn.Embedding(tgt_vocab_size", "nn.Embedding(src_vocab_size", "tgt_vocab_size"),
        ("nn.Embedding(src_vocab_size", "nn.Embedding(tgt_vocab_size", "src_vocab_size"),
    ],
)
def test_a_table_of_the_other_languages_words(old, new, form, tmp_path):
    (result,) = check_text(MODEL.replace(old, new), tmp_path).values()
    named = [found.form for found in result.mistakes if found.id == "B29"]
    assert named == ([form] if form else []), result
