"""A mask that is made on the CPU unless its maker is told otherwise, by what does not tell it."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

ENCODER = """
def make_mask(ids, pad=0, device=DEFAULT):
    return (ids != torch.full_like(ids, pad).to(device))[:, None, None]


class Encoder(nn.Module):
    def __init__(self, vocab_size, width, n_heads, hidden, n_layers, longest):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, width), nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(width, n_heads, hidden, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)

    def forward(self, ids):
        mask = make_mask(idsTOLD)
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.layers(x, src_key_padding_mask=~mask[:, 0, 0])
"""


@pytest.mark.parametrize("default, told, ids", [
    ('"cpu"', "", ["B32"]), ('torch.device("cpu")', "", ["B32"]), ('"cpu"', ", device=ids.device", []),
    ('"cpu"', ", 0, ids.device", []), ("None", "", []),
])  # fmt: skip
def test_what_makes_a_mask_is_to_be_told_where(default, told, ids, tmp_path):
    encoder = check_text(ENCODER.replace("DEFAULT", default).replace("TOLD", told), tmp_path)["Encoder"]
    assert encoder.severe == ids, encoder
    for named in encoder.mistakes if ids else ():
        if named.id == "B32":
            assert named.shown.strip() == "mask = make_mask(ids)"
            assert named.fix == "make_mask(ids, device=ids.device)."
