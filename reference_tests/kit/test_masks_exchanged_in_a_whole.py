"""Masks that a whole model hands on the other way round."""

import pytest

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.learners.pieces import HEADS

pytestmark = pytest.mark.long

MODEL = (
    HEADS.replace("MASK", "mask")
    + """

class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class EncoderLayer(nn.Module):
    def __init__(self, width, n_heads, hidden, dropout):
        super().__init__()
        self.own, self.net = Heads(width, n_heads), FeedForward(width, hidden)
        self.norm_a, self.norm_b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.norm_a(x + self.drop(self.own(x, x, mask)))
        return self.norm_b(x + self.drop(self.net(x)))


class DecoderLayer(nn.Module):
    def __init__(self, width, n_heads, hidden, dropout):
        super().__init__()
        self.own, self.other, self.net = Heads(width, n_heads), Heads(width, n_heads), FeedForward(width, hidden)
        self.norm_a, self.norm_b, self.norm_c = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, y, memory, pad_mask, mask):
        y = self.norm_a(y + self.drop(self.own(y, y, mask)))
        y = self.norm_b(y + self.drop(self.other(y, memory, pad_mask)))
        return self.norm_c(y + self.drop(self.net(y)))


class Words(nn.Module):
    def __init__(self, n_words, width, longest):
        super().__init__()
        self.table, self.width = nn.Embedding(n_words, width), width
        at, rate = torch.arange(longest)[:, None], 10000 ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("places", torch.stack(((at * rate).sin(), (at * rate).cos()), -1).flatten(1))

    def forward(self, ids):
        return self.table(ids) * math.sqrt(self.width) + self.places[: ids.shape[1]]


class Encoder(nn.Module):
    def __init__(self, n_words, width, longest, n_heads, hidden, n_layers, dropout):
        super().__init__()
        self.words, self.drop = Words(n_words, width, longest), nn.Dropout(dropout)
        self.layers = nn.ModuleList([EncoderLayer(width, n_heads, hidden, dropout) for _ in range(n_layers)])

    def forward(self, src, mask):
        x = self.drop(self.words(src))
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Decoder(nn.Module):
    def __init__(self, n_words, width, longest, n_heads, hidden, n_layers, dropout):
        super().__init__()
        self.words, self.drop = Words(n_words, width, longest), nn.Dropout(dropout)
        self.layers = nn.ModuleList([DecoderLayer(width, n_heads, hidden, dropout) for _ in range(n_layers)])
        self.head = nn.Linear(width, n_words)

    def forward(self, tgt, memory, pad_mask, mask):
        y = self.drop(self.words(tgt))
        for layer in self.layers:
            y = layer(y, memory, pad_mask, mask)
        return self.head(y)


class Transformer(nn.Module):
    def __init__(
        self, src_vocab_size, tgt_vocab_size, d_model, n_heads, d_ff, n_layers, max_len, src_pad, tgt_pad, dropout=0.1
    ):
        super().__init__()
        self.encoder = Encoder(src_vocab_size, d_model, max_len, n_heads, d_ff, n_layers, dropout)
        self.decoder = Decoder(tgt_vocab_size, d_model, max_len, n_heads, d_ff, n_layers, dropout)
        self.src_pad, self.tgt_pad = src_pad, tgt_pad

    def forward(self, src, tgt):
        src_mask = (src != self.src_pad)[:, None, None]
        length = tgt.shape[1]
        earlier = torch.ones(length, length, dtype=torch.bool, device=tgt.device).tril()
        tgt_mask = (tgt != self.tgt_pad)[:, None, None] & earlier
        cross_mask = src_mask.expand(-1, -1, length, -1)
        memory = self.encoder(src, src_mask)
        return self.decoder(tgt, memory, HANDED)
"""
)


@pytest.mark.parametrize("handed, ids", [("cross_mask, tgt_mask", []), ("tgt_mask, cross_mask", ["A27"])])
def test_two_masks_that_a_whole_exchanges_are_named_where_it_hands_them_on(handed, ids, tmp_path):
    whole = check_text(MODEL.replace("HANDED", handed), tmp_path)["Transformer"]
    assert whole.severe == ids, whole
    if ids:
        (named,) = whole.mistakes
        assert named.shown.strip() == f"return self.decoder(tgt, memory, {handed})"
        assert "by its name" in named.fix


CAUSAL = "torch.ones(src.shape[1], src.shape[1], dtype=torch.bool, device=src.device).tril()"


@pytest.mark.parametrize("padding, ids", [
    ("src_mask & ", {"A27"}), ("", {"A24", "A27"}),
])  # fmt: skip
def test_an_encoder_that_is_given_a_causal_mask_is_named(padding, ids, tmp_path):
    text = MODEL.replace("HANDED", "cross_mask, tgt_mask" if padding else "None, earlier")
    text = text.replace("memory = self.encoder(src, src_mask)", f"memory = self.encoder(src, {padding}{CAUSAL})")
    whole = check_text(text, tmp_path)["Transformer"]
    assert {found.id for found in whole.mistakes if found.severity == "mistake"} == ids, whole
    assert any("no word of the source sees a later one" in found.form for found in whole.mistakes)
