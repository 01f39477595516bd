"""What code is handed, as constructors and calls of strangers want it: it is right only where it is."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_here
from scratch_transformer.kit import checking
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.trials import choice

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout):
        super().__init__()
        self.h, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def split(self, x):
        return x.unflatten(-1, (self.h, self.d_k)).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.split(self.w_q(query)), self.split(self.w_k(key)), self.split(self.w_v(value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.w_o((self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout):
        super().__init__()
        self.w_1, self.w_2, self.dropout = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), nn.Dropout(dropout)

    def forward(self, x):
        return self.w_2(self.dropout(torch.relu(self.w_1(x))))
"""
DECODER_LAYER = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.ff, self.dropout = FeedForward(d_model, d_ff, dropout), nn.Dropout(dropout)
        self.norms = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(3)])

    def forward(self, x, enc_k, enc_v, enc_padding_mask, dec_mask):
        x = self.norms[0](x + self.dropout(self.self_attn(x, x, x, dec_mask)))
        x = self.norms[1](x + self.dropout(self.cross_attn(x, enc_k, enc_v, enc_padding_mask)))
        return self.norms[2](x + self.dropout(self.ff(x)))
"""
LISTS = """
class Encoder(nn.Module):
    def __init__(self, d_model, self_attn, feed_forward, dropout, num_layers=6):
        super().__init__()
        self.self_attn, self.feed_forward = nn.ModuleList(self_attn), nn.ModuleList(feed_forward)
        self.norm_att = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(num_layers)])
        self.norm_ff = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(num_layers)])
        self.final_norm, self.dropout, self.num_layers = nn.LayerNorm(d_model), nn.Dropout(dropout), num_layers

    def forward(self, x, mask):
        for i in range(self.num_layers):
            h = self.norm_att[i](x)
            x = x + self.dropout(self.self_attn[i](query=h, key=h, value=h, mask=mask))
            x = x + self.dropout(self.feed_forward[i](self.norm_ff[i](x)))
        return self.final_norm(x)
"""
OF_LAYERS = """
class Encoder(nn.Module):
    def __init__(self, layers: nn.ModuleList):
        super().__init__()
        self.layers, self.norm = layers, nn.LayerNorm(layers[0].size)

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x, encoder_mask=mask)
        return self.norm(x)
"""
FLAGGED = """
def attention(q, k, v, d_k, mask=False):
    scores = q @ k.transpose(2, 1) / math.sqrt(d_k)
    if mask:
        scores = scores + torch.triu(torch.ones(scores.shape), diagonal=1) * -1e9
    return scores.softmax(-1) @ v
"""


def result_of(text, name, folder, old="", new=""):
    assert old in text
    path = folder / "learner.py"
    path.write_text(IMPORTS + (text.replace(old, new) if old else text))
    return check_here(path, {name})[name]


RIGHT = [
    pytest.param(ATTENTION + DECODER_LAYER, "DecoderLayer", "DecoderLayer", id="memory as keys and as values"),
    pytest.param(ATTENTION + LISTS, "Encoder", "Encoder", id="lists of parts"),
    pytest.param(OF_LAYERS, "Encoder", "Encoder", id="layers of which nobody has any, asked for their size"),
    pytest.param(FLAGGED, "attention", "ScaledDotProductAttention", id="a mask that is a flag"),
]
WRONG = [
    pytest.param(ATTENTION + DECODER_LAYER, "DecoderLayer", "x = self.norms[1](x + ", "x = self.norms[1](enc_k + "),
    pytest.param(ATTENTION + LISTS, "Encoder", "x = x + self.dropout(self.self", "x = h + self.dropout(self.self"),
    pytest.param(OF_LAYERS, "Encoder", "x = layer(x, encoder_mask=mask)", "layer(x, encoder_mask=mask)"),
    pytest.param(FLAGGED, "attention", " / math.sqrt(d_k)", ""),
]


@pytest.mark.parametrize(("text", "name", "kind"), RIGHT)
def test_it_is_recognised(text, name, kind, tmp_path):
    result = result_of(text, name, tmp_path)
    assert (result.verdict in FINE, result.kind) == (True, kind), (result.verdict, result.problem)


@pytest.mark.parametrize(("text", "name", "old", "new"), WRONG)
def test_with_one_mistake_it_is_not_right(text, name, old, new, tmp_path, monkeypatch):
    """Whichever it is: nobody looks for long."""
    for module, seconds in ((checking, ("SEARCH", "SEARCH_SECONDS", "LEAST_SEARCH")), (choice, ("QUICK", "THOROUGH"))):
        for constant in seconds:
            monkeypatch.setattr(module, constant, 0.5)
    assert result_of(text, name, tmp_path, old, new).verdict not in FINE
