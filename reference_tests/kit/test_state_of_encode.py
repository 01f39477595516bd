"""Models whose decode reads what encode has kept: self.memory, self.memory_pad."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

TEXT = """
class Transformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model=512, nhead=8, num_layers=6, d_ff=2048, max_len=100):
        super().__init__()
        self.d_model = d_model
        self.src_embed, self.tgt_embed = nn.Embedding(src_vocab, d_model), nn.Embedding(tgt_vocab, d_model)
        angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("pe", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))
        encoder = nn.TransformerEncoderLayer(d_model, nhead, d_ff, dropout=0.0, batch_first=True)
        decoder = nn.TransformerDecoderLayer(d_model, nhead, d_ff, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(encoder, num_layers, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder, num_layers)
        self.out = nn.Linear(d_model, tgt_vocab)

    def encode(self, src, src_pad=None):
        x = self.src_embed(src) * math.sqrt(self.d_model) + self.pe[: src.size(1)]
        self.memory = self.encoder(x, src_key_padding_mask=src_pad)
        self.memory_pad = KEPT
        return self.memory

    def decode(self, tgt):
        x = self.tgt_embed(tgt) * math.sqrt(self.d_model) + self.pe[: tgt.size(1)]
        later = torch.ones(tgt.size(1), tgt.size(1), device=tgt.device).triu(1).bool()
        return self.out(self.decoder(x, self.memory, tgt_mask=later, memory_key_padding_mask=self.memory_pad))
"""
FORWARD = """
    def forward(self, src, tgt, src_pad=None):
        self.encode(src, src_pad)
        return self.decode(tgt)
"""


@pytest.mark.parametrize("forward", [FORWARD, ""], ids=["forward", "no forward"])
def test_what_encode_keeps_is_judged_with_the_whole(forward, tmp_path):
    with time_to_look(1):
        result = check_text(TEXT.replace("KEPT", "src_pad") + forward, tmp_path)["Transformer"]
    assert result.verdict in FINE and not [one for one in result.mistakes if one.severity == "mistake"], result


@pytest.mark.parametrize("forward, ids", [(FORWARD, None), ("", ["A22"])], ids=["forward", "no forward"])
def test_a_mask_that_is_not_kept_is_missed(forward, ids, tmp_path):
    result = check_text(TEXT.replace("KEPT", "None") + forward, tmp_path)["Transformer"]
    found = [one.id for one in result.mistakes if one.severity == "mistake"]
    assert result.verdict not in FINE and ids in (None, found), result
