"""B30 of a table of positions that is made, and that forward never adds; not of one that another way adds."""

import pytest

from reference_tests.kit.learners.checked import check_text

ENCODER = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        pe, position = torch.zeros(max_len, d_model), torch.arange(max_len).unsqueeze(1)
        angles = position * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:x.size(1)]


class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding, self.pos_encoding = nn.Embedding(vocab_size, d_model), PositionalEncoding(d_model)
        layers = [nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True) for _ in range(num_layers)]
        self.layers = nn.ModuleList(layers)

    def forward(self, ids, src_key_padding_mask=None):
        x = ADDED
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=src_key_padding_mask)
        return x
"""
EMBEDDED = "self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)"


@pytest.mark.parametrize("added, ids", [(f"self.pos_encoding({EMBEDDED})", []), (EMBEDDED, ["B30"])])
def test_positions_that_are_made_are_to_be_added(added, ids, tmp_path):
    result = check_text(ENCODER.replace("ADDED", added), tmp_path)["Encoder"]
    assert result.severe == ids, result


OF_VECTORS = (
    ENCODER.replace("vocab_size, ", "")
    .replace("ids, ", "x, ")
    .replace("self.embedding, self.pos_encoding = nn.Embedding(d_model), ", "self.pos_encoding = ")
    .replace("        x = ADDED\n", "")
)
ADDED_BY_OTHERS = """
def encode(encoder, embedded):
    return encoder(encoder.pos_encoding(embedded))
"""


@pytest.mark.parametrize("rest, ids", [("", ["B30"]), (ADDED_BY_OTHERS, [])])
def test_a_stack_of_vectors_may_leave_its_positions_to_what_calls_it(rest, ids, tmp_path):
    result = check_text(OF_VECTORS + rest, tmp_path)["Encoder"]
    assert result.severe == ids, result


ROTATED = """
class RotaryEmbedding(nn.Module):
    def __init__(self, d_head, base=10000.0):
        super().__init__()
        self.register_buffer("frequencies", base ** (-torch.arange(0, d_head, 2) / d_head))

    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[-2]).to(self.frequencies), self.frequencies)
        first, second = x[..., 0::2], x[..., 1::2]
        turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
        return torch.stack(turned, -1).flatten(-2)


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.rope = RotaryEmbedding(d_model // num_heads)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        q, k = TURNED
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("turned, ids", [("self.rope(q), self.rope(k)", []), ("q, k", ["B30"])])
def test_a_rotation_that_is_made_is_to_be_called(turned, ids, tmp_path):
    result = check_text(ROTATED.replace("TURNED", turned), tmp_path)["CausalSelfAttention"]
    assert result.severe == ids, result
