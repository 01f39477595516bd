"""A model of vectors, with no embeddings of its own, is given those of the source and those of the target."""

import pytest

from reference_tests.kit.learners.checked import LESS, check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

OF_EMBEDDED = """
class CoreTransformer(nn.Module):
    def __init__(self, d_model, nhead, num_layers, dim_feedforward, dropout):
        super().__init__()
        sizes = d_model, nhead, dim_feedforward, dropout
        self.encoders = nn.ModuleList([nn.TransformerEncoderLayer(*sizes) for _ in range(num_layers)])
        self.decoders = nn.ModuleList([nn.TransformerDecoderLayer(*sizes) for _ in range(num_layers)])

    def forward(self, src_emb, trg_emb, trg_mask=None, src_padding_mask=None, trg_padding_mask=None):
        memory = src_emb
        for layer in self.encoders:
            memory = layer(memory, None, src_padding_mask)
        for layer in self.decoders:
            trg_emb = layer(trg_emb, ATTENDED, trg_mask, None, trg_padding_mask, src_padding_mask)
        return trg_emb
"""


@pytest.mark.parametrize("attended", ["memory", "memory.relu()"])
def test_vectors_of_either_side_are_known_by_a_word_in_their_names(attended, tmp_path):
    with time_to_look(1 if attended == "memory" else LESS):
        (result,) = check_text(OF_EMBEDDED.replace("ATTENDED", attended), tmp_path).values()
    assert (result.verdict in FINE) == (attended == "memory"), result
    assert any("works on vectors" in note for note in result.notes)
