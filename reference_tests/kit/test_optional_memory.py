"""A decoder that may be called without what the encoder gives is judged with it: right without may be wrong with it."""

import pytest

from reference_tests.kit.learners.checked import LESS, check_text, time_to_look

pytestmark = pytest.mark.long

BLOCK = """
class DecoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.self_attn = nn.MultiheadAttention(d_model, num_heads, dropout=dropout, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d_model, num_heads, dropout=dropout, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, encoder_output=None, causal_mask=None):
        y = self.norm1(x)
        x = x + self.dropout(self.self_attn(y, y, y, attn_mask=causal_mask)[0])
        if encoder_output is not None:
            y = self.norm2(x)
            x = x + self.dropout(self.cross_attn(y, encoder_output, encoder_output)[0])
        return x + self.dropout(self.ffn(self.norm3(x)))
"""
DECODER = """
class Decoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len, dropout):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Parameter(torch.zeros(max_len, d_model))
        self.layers = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff, dropout) for _ in range(num_layers))
        self.norm, self.out = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids, encoder_output=None):
        T = ids.shape[1]
        x = self.dropout(self.embedding(ids) + self.positions[:T])
        mask = torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1)
        for layer in self.layers:
            x = layer(x, encoder_output, mask)
        return self.out(self.norm(x))
"""
CROSS = "self.cross_attn(y, encoder_output, encoder_output)"


def test_what_may_be_left_out_is_given(tmp_path):
    results = check_text(BLOCK + DECODER, tmp_path)
    assert {name: (r.kind, r.verdict) for name, r in results.items()} == {
        "DecoderBlock": ("DecoderLayer", "matches the builtin"),
        "Decoder": ("TokenDecoder", "matches the builtin"),
    }


def test_cross_attention_that_is_wrong_is_named(tmp_path):
    (block,) = check_text(BLOCK.replace(CROSS, "self.cross_attn(y, y, y)"), tmp_path).values()
    assert (block.kind, block.verdict, block.ids) == ("DecoderLayer", "mistake", ["A21"])


def test_another_cross_attention_is_not_called_right(tmp_path):
    turned = CROSS.replace("output)", "output.flip(1))")
    with time_to_look(LESS):
        (block,) = check_text(BLOCK.replace(CROSS, turned), tmp_path).values()
    assert (block.kind, block.verdict) == ("DecoderLayer", "unknown mismatch")


def test_what_is_not_understood_with_it_is_said_to_be_unseen(tmp_path):
    text = BLOCK.replace(f"self.dropout({CROSS}[0])", "torch.stack(encoder_output).mean(0)")
    (block,) = check_text(text, tmp_path).values()
    assert any("called without encoder_output" in limit for limit in block.limits)


CHOSEN = """
class DecoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, use_cross_attention: bool = False):
        super().__init__()
        self.self_attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.use_cross_attention = use_cross_attention
        if use_cross_attention:
            self.cross_attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
            self.norm2 = nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, memory=None, memory_mask=None, mask=None):
        x = self.norm1(x + self.self_attention(x, x, x, attn_mask=mask)[0])
        if self.use_cross_attention and memory is not None:
            x = self.norm2(x + self.cross_attention(x, memory, memory, key_padding_mask=memory_mask)[0])
        return self.norm3(x + self.feed_forward(x))
"""


@pytest.mark.parametrize("name", ["use_cross_attention", "is_decoder"])
def test_an_attention_to_the_encoder_that_must_be_asked_for_is_asked_for(name, tmp_path):
    (block,) = check_text(CHOSEN.replace("use_cross_attention", name), tmp_path).values()
    assert (block.kind, block.verdict) == ("DecoderLayer", "matches the builtin")


def test_one_that_is_asked_for_is_judged(tmp_path):
    with time_to_look(LESS):
        (block,) = check_text(CHOSEN.replace("x, memory, memory,", "x, memory, x,"), tmp_path).values()
    assert block.verdict in ("mistake", "unknown mismatch")


def test_no_attention_to_the_encoder_shares_no_weights_with_the_other(tmp_path):
    left_out = CHOSEN.replace("if use_cross_attention:", "if use_cross_attention is None:")
    left_out = left_out.replace("if self.use_cross_attention and", "if self.use_cross_attention is None and")
    with time_to_look(LESS):
        (block,) = check_text(left_out, tmp_path).values()
    assert "A36" not in block.ids and block.verdict in ("mistake", "unknown mismatch"), block
