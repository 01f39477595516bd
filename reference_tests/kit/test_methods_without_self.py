"""Methods that lack self, and a width of the encoder that is told and not heard."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

NETWORK = """
class FeedForward(nn.Module):
    def __init__(TAKEN):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(GIVEN):
        return self.down(torch.relu(self.up(x)))

class AddAndNorm(nn.Module):
    def __init__():
        super().__init__()

    def forward(x, fx):
        return F.normalize(x + fx)
"""


@pytest.mark.parametrize("taken, given, head", [
    ("self, d_model, d_ff", "x", "def forward(x):"), ("d_model, d_ff", "self, x", "def __init__(d_model, d_ff):"),
    ("self, d_model, d_ff", "self, x", ""), ("module, d_model, d_ff", "self, x", ""),
])  # fmt: skip
def test_a_method_without_self_is_named_at_its_head(taken, given, head, tmp_path):
    text = NETWORK.replace("TAKEN", taken).replace("GIVEN", given)
    text = text.replace("self.up, self.down =", "module.up, module.down =") if "module" in taken else text
    results = check_text(text, tmp_path)
    network, residual = results["FeedForward"], results["AddAndNorm"]
    assert [found.id for found in network.mistakes] == ["B26"] * bool(head), network
    for result, shown in ((network, head), (residual, "def __init__():")):
        for stop in result.mistakes:
            assert stop.shown.strip() == shown and "self" in stop.fix
    assert (
        residual.ids == ["B26"] and "__init__ and forward of AddAndNorm have no self" in residual.mistakes[0].evidence
    )


LAYER = """
class DecoderLayer(nn.Module):
    def __init__(self, decoder_d_model, encoder_d_model, n_heads, hidden, dropout=0.1):
        super().__init__()
        d_model = decoder_d_model
        self.encoder_d_model = encoder_d_model
        self.own = nn.MultiheadAttention(d_model, n_heads, dropout=dropout, batch_first=True)
        self.other = nn.MultiheadAttention(d_model, n_heads, dropout=dropout, kdim=WIDTH, vdim=WIDTH, batch_first=True)
        self.up, self.down = nn.Linear(d_model, hidden), nn.Linear(hidden, d_model)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.drop(self.own(x, x, x, attn_mask=None if mask is None else ~mask)[0]))
        hidden = None if memory_mask is None else ~memory_mask
        x = self.norm2(x + self.drop(self.other(x, memory, memory, key_padding_mask=hidden)[0]))
        return self.norm3(x + self.drop(self.down(self.drop(torch.relu(self.up(x))))))
"""


@pytest.mark.parametrize("width, ids", [("d_model", ["B29"]), ("encoder_d_model", [])])
def test_a_width_of_the_encoder_is_to_be_handed_on(width, ids, tmp_path):
    layer = check_text(LAYER.replace("WIDTH", width), tmp_path)["DecoderLayer"]
    assert layer.ids == ids, layer
    assert all("encoder_d_model" in named.shown for named in layer.mistakes)
