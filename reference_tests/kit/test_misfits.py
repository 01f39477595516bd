"""B26 also of shapes that never fit: proved by trial, and said of nothing that fits in some way."""

import runpy

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text, time_to_look
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.trials import uneven
from scratch_transformer.kit.resolve.trials.outcome import Outcome

pytestmark = pytest.mark.long

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, dim_head):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, dim_head * num_heads)
        self.key_proj = nn.Linear(hidden_dim, dim_head * num_heads)
        self.value_proj = nn.Linear(hidden_dim, dim_head * num_heads)
        self.dense = nn.Linear(dim_head * num_heads, hidden_dim)
        self.num_heads, self.dim_head = num_heads, dim_head

    def split(self, x):
        return x.view(len(x), -1, self.num_heads, self.dim_head).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k = self.split(self.query_proj(query)), self.split(self.key_proj(key))
        v = self.split(self.value_proj(value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.dim_head)
        weights = (scores if mask is None else scores.masked_fill(mask == 0, -math.inf)).softmax(-1)
        return self.dense((weights @ v{}).transpose(1, 2).flatten(2))
"""
POSITIONS = """
class PositionalEncoding(nn.Module):
    def __init__(self, dimension, max_len):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dimension, max_len))

    def forward(self, x):
        return x + self.weight.narrow(1, 0, x.size(1))
"""
TABLE = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, seq_len: int):
        super().__init__()
        table, places = torch.zeros(seq_len, d_model), torch.arange(seq_len).unsqueeze(1)
        angles = places / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
        table = table.unsqueeze(0)
        self.register_buffer("table", {})

    def forward(self, x):
        return x + self.table[:, : x.shape[1], :]
"""
UNVIEWABLE = """
class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, width = config["num_heads"], config["dim_embed"]
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, query, key, value, attention_mask=None):
        q, k, v = self.split(self.query(query)), self.split(self.key(key)), self.split(self.value(value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores += (1 - attention_mask[:, None, None, :]) * -1e9
        joined = (scores.softmax(-1) @ v).transpose(1, 2){}.view(len(query), -1, self.heads * q.shape[-1])
        return self.out(joined)
"""
UNBATCHED = """
class SelfAttention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x):
        weights = (self.q(x) @ self.k(x).T / x.shape[-1] ** 0.5).softmax(-1)
        return torch.mm(weights, self.v(x))
"""


@pytest.mark.parametrize(
    "name, text, line",
    [
        ("MultiHeadAttention", ATTENTION.format(".transpose(0, 1)"), "weights @ v.transpose(0, 1)"),
        ("Attention", UNVIEWABLE.format(""), "transpose(1, 2).view("),
        ("PositionalEncoding", TABLE.format("places"), "self.table[:, : x.shape[1], :]"),
        ("PositionalEncoding", POSITIONS, "self.weight.narrow(1, 0, x.size(1))"),
    ],
)
def test_shapes_that_never_fit_are_a_mistake_with_the_line_where_it_stops(name, text, line, tmp_path):
    result = check_text(text, tmp_path)[name]
    assert (result.verdict, [m.id for m in result.mistakes]) == ("mistake", ["B26"])
    assert line in result.mistakes[0].evidence


def test_heads_in_place_of_the_length_never_fit_whatever_mask_it_must_be_given(tmp_path):
    right = ATTENTION.format("").replace("mask=None", "mask")
    merged = "contiguous().view(len(query), {}, self.num_heads * self.dim_head)"
    wrong = right.replace("flatten(2)", merged.format("q.shape[1]"))
    (result,) = check_text(wrong, tmp_path).values()
    assert (result.verdict, [m.id for m in result.mistakes]) == ("mistake", ["B26"])
    (result,) = check_text(right.replace("flatten(2)", merged.format("q.shape[2]")), tmp_path).values()
    assert result.verdict == "matches the builtin"


def test_what_fits_without_a_batch_or_as_it_should_is_none(tmp_path):
    results = check_text(ATTENTION.format("") + UNBATCHED + TABLE.format("table"), tmp_path)
    assert {m.id for result in results.values() for m in result.mistakes} & {"B26"} == set()
    assert results["MultiHeadAttention"].verdict == results["PositionalEncoding"].verdict == "matches the builtin"


LAYER = """
class DecoderLayer(nn.Module):
    def __init__(self, hidden_dim, num_heads, dim_head, ffn_dim):
        super().__init__()
        self.self_attn = MultiHeadAttention(hidden_dim, num_heads, dim_head)
        self.cross_attn = MultiHeadAttention(hidden_dim, num_heads, dim_head)
        self.ffn = nn.Sequential(nn.Linear(hidden_dim, ffn_dim), nn.ReLU(), nn.Linear(ffn_dim, hidden_dim))
        self.norms = nn.ModuleList([nn.LayerNorm(hidden_dim) for _ in range(3)])

    def forward(self, x, {}, src_mask=None, tgt_mask=None):
        x = self.norms[0](x + self.self_attn(x, x, x, tgt_mask))
        x = self.norms[1](x + {})
        return self.norms[2](x + self.ffn(x))
"""


@pytest.mark.parametrize("given, crossed, is_one", [
    ("encoder_output", "self.cross_attn(x, encoder_output, x, src_mask)", True),
    ("query, key", "self.cross_attn(query, key, x, src_mask)", True),
    ("value, key", "self.cross_attn(x, key, value, src_mask)", False),
    ("encoder_output", "self.cross_attn(x, encoder_output, encoder_output, src_mask)", False),
    ("angles", "angles * self.cross_attn(x, x, x, src_mask)", False),
])  # fmt: skip
def test_what_works_with_one_length_of_source_and_target_alone_is_a_mistake(given, crossed, is_one, tmp_path):
    path = tmp_path / "learner.py"
    path.write_text(IMPORTS + ATTENTION.format("") + LAYER.format(given, crossed))
    namespace = runpy.run_path(str(path))
    outcome = Outcome(KINDS["DecoderLayer"], error=RuntimeError("the size of tensor a must match the size of b"))
    outcome.made = namespace["DecoderLayer"](12, 3, 4, 17).double().eval()
    found = uneven.finding(outcome)
    assert (found is not None) == is_one, found
    if found is not None:
        assert found[0].mistake.id == "B26" and "with 7 and 5 it stops" in found[0].evidence


HALF = """
class SelfAttentionOfDecoder(nn.Module):
    def __init__(self, hidden_dim, num_heads, dim_head):
        super().__init__()
        self.attn = MultiHeadAttention(hidden_dim, num_heads, dim_head)
        self.norm = nn.LayerNorm(hidden_dim)

    def forward(self, x, encoder_output, {}):
        y = self.norm(x)
        return x + self.attn(y, y, y, {})
"""


@pytest.mark.parametrize("mask", ["extended_mask", "encoder_mask"])
def test_a_mask_of_either_side_is_tried_before_lengths_are_said_not_to_fit(mask, tmp_path):
    """Half of a layer, which makes nothing of the encoder's output."""
    path = tmp_path / "learner.py"
    always = ATTENTION.format("").replace("scores if mask is None else scores.masked_fill", "scores.masked_fill")
    path.write_text(IMPORTS + always + HALF.format(mask, mask))
    outcome = Outcome(KINDS["DecoderLayer"], error=RuntimeError("the size of tensor a must match the size of b"))
    outcome.made = runpy.run_path(str(path))["SelfAttentionOfDecoder"](12, 3, 4).double().eval()
    assert uneven.finding(outcome) is None


def test_what_is_told_how_long_its_sequences_are_is_not_said_to_fit_none(tmp_path):
    told = ATTENTION.format("").replace("num_heads, dim_head):", "num_heads, dim_head, seq_len):")
    told = told.replace("len(x), -1, self", "len(x), self.seq_len, self").replace("= num_heads, dim_head\n", (
        "= num_heads, dim_head\n        self.seq_len = seq_len\n"))  # fmt: skip
    right, lacking = check_text(told, tmp_path), check_text(told.replace("flatten(2)", "flatten(self.first)"), tmp_path)
    assert [m.id for m in right["MultiHeadAttention"].mistakes if m.id == "B26"] == []
    assert [m.id for m in lacking["MultiHeadAttention"].mistakes] == ["B26"]
    assert "self.first" in lacking["MultiHeadAttention"].mistakes[0].evidence


COUNTED = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "heads must divide the width"
        self.h, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        B, T, E = query.shape
        q, k, v = (w(x).view(B, LENGTH, self.h, self.d_k).transpose(1, 2)
                   for w, x in ((self.w_q, query), (self.w_k, key), (self.w_v, value)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        weights = (scores if mask is None else scores.masked_fill(mask == 0, -math.inf)).softmax(-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn, self.cross_attn = (MultiHeadAttention(d_model, num_heads) for _ in range(2))
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        x = self.norm1(x + self.self_attn(x, x, x, tgt_mask))
        x = self.norm2(x + self.cross_attn(x, memory, memory, src_mask))
        return self.norm3(x + self.ffn(x))


class Transformer(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.src_embed, self.tgt_embed = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        layers = [nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True) for _ in range(num_layers)]
        self.encoder = nn.ModuleList(layers)
        self.decoder = nn.ModuleList([DecoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.project = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt):
        memory, x = self.src_embed(src), self.tgt_embed(tgt)
        for layer in self.encoder:
            memory = layer(memory, src_key_padding_mask=src == 0)
        later = torch.ones(tgt.shape[1], tgt.shape[1]).tril()[None, None]
        for layer in self.decoder:
            x = layer(x, memory, (src != 0)[:, None, None], later)
        return self.project(x)
"""


@pytest.mark.parametrize("length, ids", [("T", ["A35"]), ("-1", [])])
def test_what_is_right_with_one_length_is_harmless_in_a_part_and_in_the_whole(length, ids, tmp_path):
    """Of what is wrong even then, that it stops with two lengths is what can be proved: B26."""
    results = check_text(COUNTED.replace("LENGTH", length), tmp_path)
    for result in results.values():
        named = [id for id in (*result.ids, *result.inherited) if id in ("A35", "B26")]
        assert (named, result.verdict in FINE) == (ids, True), result
    assert (results["MultiHeadAttention"].verdict == "harmless deviation") == bool(ids)


GROUPED = """
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_groups):
        super().__init__()
        self.h, self.groups, self.depth = num_heads, num_groups, d_model // num_heads
        self.w_q, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_k, self.w_v = nn.Linear(d_model, d_model // num_groups), nn.Linear(d_model, d_model // num_groups)

    def split(self, x, heads):
        return x.view(len(x), LENGTH, heads, self.depth).transpose(1, 2)

    def forward(self, x):
        q = self.split(self.w_q(x), self.h)
        k, v = (self.split(w(x), self.groups).repeat(1, self.h // self.groups, 1, 1) for w in (self.w_k, self.w_v))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(self.depth)).softmax(-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("length, ids", [("x.shape[1]", []), ("2 * x.shape[1]", ["B26"])])
def test_what_fits_with_four_heads_in_two_groups_is_not_said_to_fit_never(length, ids, tmp_path):
    (result,) = check_text(GROUPED.replace("LENGTH", length), tmp_path).values()
    assert result.severe == ids, result


OF_ANOTHER_WIDTH = """
class GateLayer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.transform = nn.Linear(2 * d_model, d_model)

    def forward(self, x):
        return self.transform(x).sigmoid()


class PoolingAttention(nn.Module):
    def __init__(self, n_features=2, d_model=16):
        super().__init__()
        self.proj, self.post = nn.Linear(n_features, d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        hidden = torch.tanh(self.proj(x))
        return (hidden.mean(2).softmax(1)[..., None] * self.post(hidden)).sum(1)
"""
WRONG_WAY_ROUND = """
class FeedForward(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.up, self.down = nn.Linear(4 * d_model, d_model), nn.Linear(d_model, 4 * d_model)

    def forward(self, x):
        hidden = self.up(x)
        return self.down(hidden.relu())
"""


def test_what_is_meant_for_tokens_of_another_width_is_no_mistake(tmp_path):
    """Nothing in it is as wide as what its first layer asks for: two sequences side by side, or a few numbers."""
    results = check_text(OF_ANOTHER_WIDTH, tmp_path)
    assert {id for result in results.values() for id in (*result.ids, *result.inherited)} == set()
    (result,) = check_text(WRONG_WAY_ROUND, tmp_path).values()
    assert ([m.id for m in result.mistakes], result.mistakes[0].where) == (["B26"], "learner.py:14")


IN_A_COLUMN = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        pe, position = torch.zeros(ROWS, d_model), torch.arange(max_len)COLUMN
        angles = position * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:x.size(1)]
"""


@pytest.mark.parametrize(
    "column, rows, ids", [("", "max_len", ["B26"]), ("[:, None]", "max_len", []), ("[:, None]", "512", [])]
)
def test_a_constructor_whose_shapes_never_fit(column, rows, ids, tmp_path):
    """Of as many rows as are written in they may."""
    text = IN_A_COLUMN.replace("COLUMN", column).replace("ROWS", rows)
    (result,) = check_text(text, tmp_path).values()
    assert [m.id for m in result.mistakes if m.id == "B26"] == ids, result


OF_ONE = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, d_ff, max_len):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.norm1, self.norm2 = nn.LayerNorm([max_len, d_model]), nn.LayerNorm([max_len, d_model])
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        weights = (self.q(x) @ self.k(x).mT / x.shape[-1] ** 0.5).softmax(-1)
        x = self.norm1(x + (weights[..., None] * self.v(x).view(1, *x.shape)).sum(2))
        return self.norm2(x + self.ffn(x))
"""


def test_what_fits_with_one_sentence_is_said_to_stop_with_more(tmp_path):
    (layer,) = check_text(OF_ONE, tmp_path).values()
    assert [m.id for m in layer.mistakes] == ["B26"]
    assert layer.mistakes[0].evidence.startswith("With more than one sentence in a batch its shapes do not fit")


FROM_OUTSIDE = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))
        self.num_heads = num_heads

    def forward(self, x, attention_mask):
        q, k, v = (f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(READ[:, None, None] == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
"""


def test_a_tensor_of_the_file_in_place_of_an_argument_is_named(tmp_path):
    (attention,) = check_text(FROM_OUTSIDE.replace("READ", "mask"), tmp_path).values()
    (found,) = attention.mistakes
    assert (found.id, found.fix) == ("B26", "attention_mask in place of mask.")
    assert found.evidence.startswith("It reads mask, a tensor of shape (2, 3) that its file makes, and never attention")
    (right,) = check_text(FROM_OUTSIDE.replace("READ", "attention_mask"), tmp_path).values()
    assert right.verdict in FINE


OF_DEFAULTS = """
class Config:
    n_embed, n_heads = 20, 2


class SelfAttention(nn.Module):
    def __init__(self, config=Config()):
        super().__init__()
        self.h = config.n_heads
        self.qkv, self.out = nn.Linear(config.n_embed, 3 * config.n_embed), nn.Linear(config.n_embed, config.n_embed)

    def forward(self, x):
        x = self.qkv(x).unflatten(-1, (3 * self.h, -1))
        q, k, v = x.transpose(1, 2).chunk(3, dim=1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class DecoderBlock(nn.Module):
    def __init__(self, config=Config()):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(config.n_embed), nn.LayerNorm(config.n_embed)
        self.attention = SelfAttention(GIVEN)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embed, WIDE), nn.GELU(), nn.Linear(4 * config.n_embed, config.n_embed))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))
"""


@pytest.mark.parametrize("given, wide, named", [
    ("config", "4 * config.n_embed", []),
    ("", "4 * config.n_embed", [("B29", "self.attention = SelfAttention()")]),
    ("", "2 * config.n_embed", [("B26", "x = self.qkv(x).unflatten(-1, (3 * self.h, -1))")]),
])  # fmt: skip
def test_what_fits_with_the_sizes_of_its_defaults_is_not_said_to_fit_never(given, wide, named, tmp_path):
    """A part that is told nothing has those of its own: that they are not handed on is the mistake."""
    result = check_text(OF_DEFAULTS.replace("GIVEN", given).replace("WIDE", wide), tmp_path)["DecoderBlock"]
    severe = [mistake for mistake in result.mistakes if mistake.severity == "mistake"]
    assert [(mistake.id, mistake.shown.strip()) for mistake in severe] == named, result


UNTOLD_HEADS = """
class Head(nn.Module):
    def __init__(self, d_model=8, d_k=8):
        super().__init__()
        self.d_k = d_k
        self.q, self.k, self.v = (nn.Linear(d_model, d_k) for _ in range(3))

    def forward(self, Q, K, V):
        scores = self.q(Q) @ self.k(K).transpose(1, 2) / self.d_k**0.5
        return scores.softmax(-1) @ self.v(V)


class MultiHeadAttention(nn.Module):
    def __init__(self, h, d_v, d_model):
        super().__init__()
        self.heads = nn.ModuleList([Head() for _ in range(h)])
        self.dense = nn.Linear(h * d_v, d_model)

    def forward(self, Q, K, V):
        return self.dense(torch.cat([head(Q, K, V) for head in self.heads], dim=2))
"""


def test_heads_that_are_told_nothing_fit_with_their_own_width(tmp_path):
    result = check_text(UNTOLD_HEADS, tmp_path)["MultiHeadAttention"]
    assert [(mistake.id, mistake.evidence.partition(" ")[0]) for mistake in result.mistakes] == [("B29", "Head()")]


OF_WIDTHS = """
class AttentionHead(nn.Module):
    def __init__(self, q_dim, k_dim, v_dim, embed_dim):
        super().__init__()
        self.embed_dim = embed_dim
        self.q_linear = nn.Linear(q_dim, embed_dim)
        self.k_linear = nn.Linear(k_dim, embed_dim)
        self.v_linear = nn.Linear(v_dim, embed_dim)

    def forward(self, q, k, v, mask=None):
        scores = self.q_linear(q) @ self.k_linear(k).transpose(1, 2) / self.embed_dim**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return scores.softmax(-1) @ self.v_linear(v)


class MultiHeadAttention(nn.Module):
    def __init__(self, q_dim, k_dim, v_dim, embed_dim, num_heads):
        super().__init__()
        head_dim = embed_dim // num_heads
        self.heads = nn.ModuleList([AttentionHead(q_dim, k_dim, v_dim, head_dim) for _ in range(num_heads)])
        self.linear = nn.Linear(head_dim * num_heads, embed_dim)

    def forward(self, q, k, v, mask=None):
        return self.linear(torch.cat([head(q, k, v, mask) for head in self.heads], dim=-1))
"""


def test_widths_of_queries_that_go_into_a_projection_are_those_of_the_tokens(tmp_path):
    results = check_text(OF_WIDTHS, tmp_path)
    assert {name: (result.verdict in FINE, result.ids) for name, result in results.items()} == {
        "AttentionHead": (True, ["A8"]), "MultiHeadAttention": (True, []),
    }  # fmt: skip


CHECKED = '''
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.d_model, self.d_ff = d_model, d_ff
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        """SAID"""
        hidden = self.up(x)
        CHECK
        return self.down(hidden.relu())
'''
SHAPE = "(x.shape[0], x.shape[2], x.shape[1])"


@pytest.mark.parametrize("check", [
    f"assert hidden.shape == {SHAPE}", f"if x.shape != {SHAPE}:\n            raise ValueError('a wrong shape')",
    "B, T, C = x.shape\n        assert x.dim() == 3 and T == self.d_model, 'a wrong width'",
])  # fmt: skip
def test_a_check_of_its_own_that_nothing_passes(check, tmp_path):
    (found,) = check_text(CHECKED.replace("CHECK", check), tmp_path)["FeedForward"].mistakes
    assert found.id == "B26" and "do not pass its own check" in found.evidence
    asked = " is (2, 5, 30) and (x.shape[0], x.shape[2], x.shape[1]) is (2, 30, 5)"
    assert (asked if SHAPE in check else "T is 5 and self.d_model is 30") in found.evidence
    assert found.evidence.partition("It stops at: ")[2].startswith(("assert", "raise"))


@pytest.mark.parametrize(
    "check",
    ["assert x.size(-1) == 2048", "assert x.shape[1] == 128", "self.length = 128; assert x.size(1) == self.length"],
)
def test_a_check_that_other_sizes_may_pass_is_no_mistake(check, tmp_path):
    (result,) = check_text(CHECKED.replace("CHECK", check).replace("SAID", ""), tmp_path).values()
    assert (result.verdict, result.ids) == ("crashed", [])


@pytest.mark.parametrize("check", ["assert x.shape[-1] == self.d_model", "assert x.dim() == 3 and len(x) == x.size(0)"])
def test_a_check_that_what_is_right_passes(check, tmp_path):
    assert check_text(CHECKED.replace("CHECK", check), tmp_path)["FeedForward"].verdict == FINE[0]


@pytest.mark.parametrize("said, ids", [("Two layers.", []), ("x: (batch, seq_len, d_model)", ["B26"])])
def test_a_check_that_no_batch_passes_is_told_of_and_wrong_where_batches_are_documented(said, ids, tmp_path):
    text = CHECKED.replace("CHECK", "assert x.size(1) == self.d_model").replace("SAID", said)
    result = check_text(text, tmp_path)["FeedForward"]
    told = [*result.limits, *(found.evidence for found in result.mistakes)]
    assert result.severe == ids
    assert any("x.size(1) is 5 and self.d_model is 12" in one for one in told), result


VIEWED = """
class SelfAttention(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        assert width % n_heads == 0, "heads must divide the width"
        self.width, self.n_heads = width, n_heads
        self.to_q, self.to_k = nn.Linear(width, width), nn.Linear(width, width)
        self.to_v, self.to_out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, _ = x.shape
        split = lambda y: y.view(batch, length, self.n_heads, -1).transpose(1, 2)
        q, k, v = split(self.to_q(x)), split(self.to_k(x)), split(self.to_v(x))
        heads = ((q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v).transpose(1, 2)
        heads = heads.view(batch, length, self.width)
        return self.to_out(heads)
"""


def test_what_fits_with_one_token_is_said_to_stop_with_more_and_a_view_to_be_a_reshape(tmp_path):
    (stop,) = check_text(VIEWED, tmp_path)["SelfAttention"].mistakes
    assert stop.id == "B26" and stop.evidence.startswith("With more than one token its shapes do not fit")
    assert [line.strip() for line in stop.put] == ["heads = heads.reshape(batch, length, self.width)"]
    assert ".contiguous()" in stop.fix


OF_ONE_WIDTH = """
class PositionWiseFeedForward(nn.Module):
    def __init__(self, embed_dim, output_dim):
        super().__init__()
        self.l1, self.l2 = nn.Linear(embed_dim, output_dim), nn.Linear(output_dim, embed_dim)

    def forward(self, x):
        hidden = self.l1(x)
        hidden = torch.max(torch.zeros(LIKE.shape, device=x.device), hidden)
        return self.l2(hidden)
"""


@pytest.mark.parametrize("like, ids", [("x", ["B26"]), ("hidden", [])])
def test_a_network_that_fits_one_width_alone_is_named(like, ids, tmp_path):
    network = check_text(OF_ONE_WIDTH.replace("LIKE", like), tmp_path)["PositionWiseFeedForward"]
    assert network.severe == ids, network
    assert all("torch.max(" in m.shown for m in network.mistakes)


def test_what_embeds_vectors_as_long_as_the_vocabulary_is_not_said_to_stop_with_any_ids(tmp_path):
    text = """
class OneHotModel(nn.Module):
    def __init__(self, vocab_size, d_model, nhead, num_layers):
        super().__init__()
        self.embed = nn.Linear(vocab_size, d_model, bias=False)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 4 * d_model, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))
        return self.head(self.encoder(self.embed(x), mask=mask, is_causal=True))
"""
    with time_to_look(1):
        assert check_text(text, tmp_path)["OneHotModel"].ids == []
