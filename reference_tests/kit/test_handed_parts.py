"""What code is handed, as constructors and calls of strangers want it: it is right only where it is."""

import pytest

from reference_tests.kit.learners.checked import LESS, check_text, time_to_look
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.trials import outcome
from scratch_transformer.kit.results.unbuilt import is_left_out

pytestmark = pytest.mark.long

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
NEEDS_ITS_MASK = """
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.h, self.d_k = num_heads, dim // num_heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        q, k, v = (x.unflatten(-1, (self.h, self.d_k)).transpose(1, 2) for x in (self.q(q), self.k(k), self.v(v)))
        scores = (q @ k.transpose(-2, -1) / self.d_k ** 0.5).masked_fill(mask == 0, -1e10)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
PLACES = """
def create_padding_mask(seq_len, padding_positions):
    mask = torch.ones(1, 1, 1, seq_len)
    for position in padding_positions:
        mask[0, 0, 0, position] = 0
    return mask
"""
ADDS_POSITIONS = """
def positional_encoding(input_x, dim, max_length=100):
    table = torch.zeros(1, max_length, dim)
    angle = torch.arange(max_length).reshape(-1, 1) / 10000 ** (torch.arange(0, dim, 2) / dim)
    table[:, :, 0::2], table[:, :, 1::2] = torch.sin(angle), torch.cos(angle)
    return input_x + table[:, :input_x.shape[1], :]
"""
HEADS_AFTER_THE_LENGTH = """
class ScaledDotProductAttention(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        return (F.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]), dim=-1) @ v).transpose(1, 2)
"""
OF_A_LENGTH = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.d_model = d_model

    def forward(self, seq_length):
        angle = torch.arange(0, seq_length)[:, None] / 10000 ** (torch.arange(0, self.d_model, 2) / self.d_model)
        return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)
"""
FINISHED_LATER = """
class InputEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.table, self.d_model = nn.Embedding(vocab_size, d_model), d_model

    def set_scale(self):
        self.factor = math.sqrt(self.d_model)

    def forward(self, ids):
        return self.table(ids) * self.factor
"""
TURNED_BY_AN_OBJECT = """
class RoPE(nn.Module):
    def __init__(self, head_dim, base=10000.0):
        super().__init__()
        self.register_buffer("freqs", base ** (-torch.arange(0, head_dim, 2) / head_dim))

    def forward(self, x, position_ids):
        angle = position_ids[..., None] * self.freqs
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin


class Attention(nn.Module):
    def __init__(self, emb_dim, n_heads):
        super().__init__()
        self.h, self.d = n_heads, emb_dim // n_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(emb_dim, emb_dim) for _ in range(4))

    def forward(self, x, rope: RoPE, position_ids, attn_mask=None):
        both = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        q, k, v = (part.unflatten(-1, (self.h, self.d)).transpose(1, 2) for part in both)
        scores = rope(q, position_ids) @ rope(k, position_ids).transpose(-2, -1) / math.sqrt(self.d)
        if attn_mask is not None:
            scores = scores + attn_mask
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
MAY_TURN = """
class RotaryEmbedding(nn.Module):
    def __init__(self, dim, theta=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / theta ** (torch.arange(0, dim, 2) / dim), persistent=False)

    def forward(self, seq_len: int, device: torch.device, dtype: torch.dtype, position_offset: int = 0):
        places = torch.arange(position_offset, position_offset + seq_len, device=device)
        angle = torch.outer(places, self.inv_freq).repeat(1, 2)
        return angle.cos().to(dtype), angle.sin().to(dtype)


class CausalAttention(nn.Module):
    def __init__(self, d_model, num_heads, rope: "RotaryEmbedding | None" = None):
        super().__init__()
        self.h, self.d, self.rope = num_heads, d_model // num_heads, rope
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def turned(self, x, cos, sin):
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    def forward(self, x, past_kv=None, rope_position_offset: int = 0, cache_len: int = 0):
        q, k, v = (part.unflatten(-1, (self.h, self.d)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.rope is not None:
            cos, sin = self.rope(x.shape[1], x.device, x.dtype, rope_position_offset)
            q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
        if past_kv is not None:
            k, v = torch.cat((past_kv[0], k), 2), torch.cat((past_kv[1], v), 2)
        keys, queries = (torch.arange(x.shape[2], device=x.device) for x in (k, q))
        future = keys > queries[:, None] + cache_len
        scores = (q @ k.transpose(-2, -1) / math.sqrt(self.d)).masked_fill(future, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)
"""
SHARED = """
class TranslationModel(nn.Module):
    def __init__(self, vocab_size, d_model=512, n_heads=8, d_ff=2048, n_layers=6, max_len=100):
        super().__init__()
        self.token_embeddings = nn.Embedding(vocab_size + 3, d_model)
        layer = dict(d_model=d_model, nhead=n_heads, dim_feedforward=d_ff, dropout=0.0, batch_first=True)
        self.encoders = nn.ModuleList([nn.TransformerEncoderLayer(**layer) for _ in range(n_layers)])
        self.decoders = nn.ModuleList([nn.TransformerDecoderLayer(**layer) for _ in range(n_layers)])
        self.W_o = nn.Linear(d_model, vocab_size + 3)
        angle = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("pe", torch.stack((angle.sin(), angle.cos()), -1).flatten(1))

    def embed(self, ids):
        return self.token_embeddings(ids) + self.pe[: ids.shape[1]]

    def forward(self, src, tgt, src_padding_mask=None, tgt_padding_mask=None):
        x, memory = self.embed(tgt), self.embed(src)
        for layer in self.encoders:
            memory = layer(memory, src_key_padding_mask=src_padding_mask)
        future = torch.ones(tgt.shape[1], tgt.shape[1]).triu(1).bool()
        for layer in self.decoders:
            x = layer(x, memory, future, None, tgt_padding_mask, src_padding_mask)
        return self.W_o(x)
"""
BY_ANNOTATIONS = """
class WordEmbedding(nn.Module):
    def __init__(self, d_model: int, vocab_size: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)

    def forward(self, ids):
        return self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, seq_len: int):
        super().__init__()
        angle = torch.arange(seq_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("pe", torch.stack((angle.sin(), angle.cos()), -1).flatten(1))

    def forward(self, x):
        return x + self.pe[: x.shape[1]]


class Block(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        x = self.norm_1(x + self.attention(x, x, x, attn_mask=future)[0])
        return self.norm_2(x + self.net(x))


class Generator(nn.Module):
    def __init__(self, d_model: int, vocab_size: int):
        super().__init__()
        self.linear = nn.Linear(d_model, vocab_size)

    def forward(self, x):
        return self.linear(x)


class GPT(nn.Module):
    def __init__(self, lut: WordEmbedding, pes_layer: "PositionalEncoding", blocks: nn.ModuleList, last: Generator):
        super().__init__()
        self.lut, self.pes_layer, self.blocks, self.last = lut, pes_layer, blocks, last

    def forward(self, ids):
        x = self.pes_layer(self.lut(ids))
        for block in self.blocks:
            x = block(x)
        return self.last(x)
"""


def result_of(text, name, folder, old="", new=""):
    assert old in text
    return check_text(text.replace(old, new) if old else text, folder, {name})[name]


RIGHT = [
    pytest.param(ATTENTION + DECODER_LAYER, "DecoderLayer", "DecoderLayer", id="memory as keys and as values"),
    pytest.param(ATTENTION + LISTS, "Encoder", "Encoder", id="lists of parts"),
    pytest.param(OF_LAYERS, "Encoder", "Encoder", id="layers of which nobody has any, asked for their size"),
    pytest.param(FLAGGED, "attention", "ScaledDotProductAttention", id="a mask that is a flag"),
    pytest.param(HEADS_AFTER_THE_LENGTH, "ScaledDotProductAttention", "ScaledDotProductAttention", id="(B, T, h, d)"),
    pytest.param(OF_A_LENGTH, "PositionalEncoding", "PositionalEncoding", id="a number of positions"),
    pytest.param(
        FINISHED_LATER, "InputEmbedding", "InputEmbedding", id="a method that is called after the constructor"
    ),
    pytest.param(PLACES, "create_padding_mask", "PaddingMask", id="a length and places of padding"),
    pytest.param(ADDS_POSITIONS, "positional_encoding", "PositionalEncoding", id="tokens and a width"),
    pytest.param(TURNED_BY_AN_OBJECT, "Attention", "RotaryAttention", id="what turns, as an object"),
    pytest.param(MAY_TURN, "CausalAttention", "CausalRotaryAttention", id="what may turn, and where a cache stands"),
    pytest.param(MAY_TURN, "RotaryEmbedding", "RotaryEmbedding", id="tables of a device and a dtype"),
    pytest.param(SHARED, "TranslationModel", "Transformer", id="one table of a few words more, and W_o"),
    pytest.param(BY_ANNOTATIONS, "GPT", "DecoderOnly", id="parts by their annotations"),
]
WRONG = [
    pytest.param(ATTENTION + DECODER_LAYER, "DecoderLayer", "x = self.norms[1](x + ", "x = self.norms[1](enc_k + "),
    pytest.param(ATTENTION + LISTS, "Encoder", "x = x + self.dropout(self.self", "x = h + self.dropout(self.self"),
    pytest.param(OF_LAYERS, "Encoder", "x = layer(x, encoder_mask=mask)", "layer(x, encoder_mask=mask)"),
    pytest.param(FLAGGED, "attention", " / math.sqrt(d_k)", ""),
    pytest.param(NEEDS_ITS_MASK, "MultiHeadAttention", " / self.d_k ** 0.5", ""),
    pytest.param(HEADS_AFTER_THE_LENGTH, "ScaledDotProductAttention", "dim=-1", "dim=-2"),
    pytest.param(OF_A_LENGTH, "PositionalEncoding", "2) / self.d_model", "2)"),
    pytest.param(FINISHED_LATER, "InputEmbedding", "self.table(ids)", "self.table(ids.flip(1))"),
    pytest.param(FINISHED_LATER, "InputEmbedding", "def set_scale(self)", "def set_scale(self, factor)"),
    pytest.param(PLACES, "create_padding_mask", "[0, 0, 0, position]", "[0, 0, 0, position - 1]"),
    pytest.param(ADDS_POSITIONS, "positional_encoding", "torch.arange(0, dim, 2) / dim", "torch.arange(0, dim, 2)"),
    pytest.param(TURNED_BY_AN_OBJECT, "Attention", " / math.sqrt(self.d)", ""),
    pytest.param(MAY_TURN, "CausalAttention", " + cache_len", ""),
    pytest.param(MAY_TURN, "CausalAttention", "x.dtype, rope_position_offset)", "x.dtype)"),
    pytest.param(SHARED, "TranslationModel", "future, None", "None, None"),
    pytest.param(BY_ANNOTATIONS, "GPT", ".triu(1)", ".triu(2)"),
]


def test_none_is_no_tensor_and_it_stops_with_that(tmp_path):
    assert result_of(NEEDS_ITS_MASK, "MultiHeadAttention", tmp_path).ids[:1] == ["B26"]


@pytest.mark.parametrize(("text", "name", "kind"), RIGHT)
def test_it_is_recognised(text, name, kind, tmp_path):
    result = result_of(text, name, tmp_path)
    assert (result.verdict in FINE, result.kind) == (True, kind), (result.verdict, result.problem)


@pytest.mark.parametrize(("text", "name", "old", "new"), WRONG)
def test_with_one_mistake_it_is_not_right(text, name, old, new, tmp_path):
    """Whichever it is."""
    with time_to_look(LESS):
        assert result_of(text, name, tmp_path, old, new).verdict not in FINE


def test_of_two_errors_that_which_came_farther_is_said():
    class Part:
        def forward(self, x):
            y = 1 / x
            return y[0]

    def stops_with(x):
        with pytest.raises((ZeroDivisionError, TypeError)) as stopped:
            Part().forward(x)
        return stopped.value

    first, second = stops_with(0), stops_with(1)
    assert outcome.farther(first, second, Part()) is second and outcome.farther(second, first, Part()) is second
    assert outcome.farther(None, first, Part()) is first and outcome.farther(first, stops_with(0), Part()) is first


CALLED_A_CLASS = """
class Norm(nn.Module):
    def __init__(self, d_model: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias)


class ResidualConnection(nn.Module):
    def __init__(self, norm_class: Norm, dropout: float):
        super().__init__()
        self.norm, self.dropout = norm_class, nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))
"""


def test_what_is_called_a_class_is_an_instance_if_its_annotation_says_so(tmp_path):
    check = check_text(CALLED_A_CLASS, tmp_path)["ResidualConnection"]
    assert check.verdict == "matches the builtin" and check.design == "pre-norm"
    wrong = check_text(CALLED_A_CLASS.replace("x + self.dropout", "self.norm(x) + self.dropout"), tmp_path)
    assert "B2" in [named.id for named in wrong["ResidualConnection"].mistakes]


def test_a_name_that_a_line_of_the_file_gives_its_value_was_left_out():
    source = Source("writes.py", "END: int = words['<eos>']\ndef write(model):\n    START = 1\n", module="writes")
    assert [is_left_out(name, source) for name in ("END", "START", "EN")] == [True, False, False]


STACKED = """
class Layer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.d_model = d_model
        self.att = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff1, self.ff2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        x = self.norm1(x + self.att(x, x, x)[0])
        return self.norm2(x + self.ff2(self.ff1(x).relu()))


class Encoder(nn.Module):
    def __init__(self, layer_module: nn.Module, n_layers: int):
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(layer_module) for _ in range(n_layers))
        self.norm = nn.LayerNorm(layer_module.d_model)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)
"""


@pytest.mark.parametrize("fed, ids", [("layer(x)", []), ("x + layer(x)", None)])
def test_a_stack_of_what_is_called_the_module_of_a_layer(fed, ids, tmp_path):
    stack = check_text(STACKED.replace("x = layer(x)", f"x = {fed}"), tmp_path)["Encoder"]
    assert (stack.verdict == "matches the builtin") == (ids == []), stack


FROM_ONE = (
    ("self, layer_module: nn.Module, n_layers: int", "self, d_model, num_heads, d_ff, n_layers"),
    (
        "nn.ModuleList(copy.deepcopy(layer_module) for _ in range(n_layers))",
        'nn.ModuleDict({f"block_{i + 1}": Layer(d_model, num_heads, d_ff) for i in range(n_layers)})',
    ),
    ("layer_module.d_model", "d_model"),
    ("in self.layers", "in self.layers.values()"),
)
"""The layers of a stack are called block_1 and block_2."""


@pytest.mark.parametrize("order, is_right", [("self.layers.values()", True), ("[*self.layers.values()][:1]", False)])
def test_layers_may_be_counted_from_one(order, is_right, tmp_path):
    text = STACKED
    for old, new in FROM_ONE:
        text = text.replace(old, new)
    stack = check_text(text.replace("self.layers.values()", order), tmp_path)["Encoder"]
    assert (stack.verdict == "matches the builtin") == is_right, stack


BLOCK_OF_PARTS = """
class Residual(nn.Module):
    def __init__(self, features, dropout):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(features), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))

class DecoderBlock(nn.Module):
    def __init__(self, features, attention, cross_attention, ff_block, dropout):
        super().__init__()
        self.attention, self.cross_attention, self.ff_block = attention, cross_attention, ff_block
        self.residuals = nn.ModuleList([Residual(features, dropout) for _ in range(3)])

    def forward(self, x, encoder_output, src_mask, tgt_mask):
        x = self.residuals[0](x, lambda x: self.attention(x, x, x, tgt_mask))
        x = self.residuals[1](x, lambda x: self.cross_attention(x, encoder_output, encoder_output, src_mask))
        return self.residuals[2](x, self.ff_block)
"""


@pytest.mark.parametrize("old, new, is_right", [("", "", True), ("self.norm(x)))", "x))", False)])
def test_two_letters_that_are_a_word_of_a_name_say_which_part_is_given(old, new, is_right, tmp_path):
    result = check_text(BLOCK_OF_PARTS.replace(old, new), tmp_path)["DecoderBlock"]
    assert (result.verdict in FINE) is is_right
    assert is_right or result.inherited == ["B14"]
    assert any("FeedForward" in limit for limit in result.limits)


WIDTHS = """
class EncoderLayer(nn.Module):
    def __init__(self, input_dim, d_model, n_heads, num_layers=6):
        super().__init__()
        self.input_dim = input_dim
        self.mha = MultiHeadAttention(d_model, n_heads, 0.0)
        self.ff = FeedForward(d_model, 64, 0.0)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.mha(x, x, x, mask))
        return self.norm2(x + self.ff(x))
"""


def test_d_model_is_no_width_in_between_beside_input_dim(tmp_path):
    result = check_text(ATTENTION + WIDTHS, tmp_path)["EncoderLayer"]
    assert result.verdict in FINE and not result.mistakes


BLOCK = """
class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, feed_forward, dropout):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.network = FeedForward(d_model=d_model, d_ff=feed_forward, dropout=dropout)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout(self.attention(x, x, x, mask)))
        return self.norm2(x + self.dropout(self.network(x)))
"""


@pytest.mark.parametrize("merged, ids", [("transpose(1, 2).", []), ("", ["A23"])])
def test_what_is_handed_on_as_a_size_is_one_though_it_is_called_like_a_part(merged, ids, tmp_path):
    text = (ATTENTION + BLOCK).replace("v).transpose(1, 2).flatten(2)", f"v).{merged}reshape(query.shape)")
    block = check_text(text, tmp_path)["EncoderBlock"]
    assert [id for id in (*block.ids, *block.inherited) if id == "A23"] == ids, block
    assert (block.verdict in FINE) == (not ids) and not block.limits, block


GIVEN_A_NETWORK = """
class Around(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x, sub_layer):
        return x + sub_layer(self.norm(x))


class EncoderBlock(nn.Module):
    def __init__(self, self_attention, position_ff, norm):
        super().__init__()
        self.self_attention, self.position_ff = self_attention, position_ff
        self.first, self.second = Around(copy.deepcopy(norm)), Around(copy.deepcopy(norm))

    def forward(self, x, mask):
        x = self.first(x, lambda y: self.self_attention(query=y, key=y, value=y, mask=mask))
        return self.second(x, self.position_ff)
"""


def test_a_network_that_is_handed_on_is_given(tmp_path):
    block = check_text("import copy\n" + GIVEN_A_NETWORK, tmp_path)["EncoderBlock"]
    assert block.verdict == "matches the builtin" and "FeedForward" in block.replaced, block
