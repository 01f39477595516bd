"""Ways to write right code, in which parts, states, scales and sections come from outside: each is recognised."""

import importlib

import pytest

from reference_tests.kit.learners.checked import IMPORTS, LESS, check_text, reported, time_to_look, written
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.call.inert import NoDropout
from scratch_transformer.kit.resolve.library.library import Library

pytestmark = pytest.mark.long

RIGHT = ("matches the builtin", "matches the paper, not the builtin", "harmless deviation")

SCRIPTED = """
@torch.jit.script
def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


class FeedForward(torch.jit.ScriptModule):
    def __init__(self, input_dimension, hidden_dim):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(input_dimension, hidden_dim), nn.Linear(hidden_dim, input_dimension)

    @torch.jit.script_method
    def forward(self, x):
        return self.w_2(gelu(self.w_1(x)))
"""
SCALE_FROM_OUTSIDE = """
def scaled_dot_product_attention(Q, K, V, temperature, dropout, mask=None):
    attn = Q.bmm(K.transpose(1, 2))
    if mask is not None:
        attn = attn.masked_fill(mask == 0, -1e9)
    return dropout(F.softmax(attn / temperature, dim=-1)).bmm(V)
"""
SCALE_IF_GIVEN = """
def scaled_dot_product_attention(query, key, value, mask=None, scale=None):
    scores = query @ key.mT
    if scale:
        scores = scores * scale
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return F.softmax(scores, dim=-1) @ value
"""
HELD = """
class Residual(nn.Module):
    def __init__(self, sublayer, dimension):
        super().__init__()
        self.sublayer, self.norm = sublayer, nn.LayerNorm(dimension)

    def forward(self, x, *args, **kwargs):
        return self.norm(x + self.sublayer(x, *args, **kwargs))
"""
SECTIONS = """
class MultiheadAttention(nn.Module):
    def __init__(self, embed_dim, args):
        super().__init__()
        self.h, self.d_k = args["n_head"], args["d_k"]
        self.q, self.k, self.v = (nn.Linear(embed_dim, self.h * self.d_k) for _ in range(3))
        self.out = nn.Linear(self.h * self.d_k, embed_dim)

    def forward(self, x, mask=None):
        q, k, v = (net(x).unflatten(-1, (self.h, self.d_k)).transpose(1, 2) for net in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, embed_dim, encoder_args):
        super().__init__()
        self.attention = MultiheadAttention(embed_dim, encoder_args["self_attention"])
        self.ffn = nn.Sequential(nn.Linear(embed_dim, embed_dim), nn.ReLU(), nn.Linear(embed_dim, embed_dim))
        self.norm1, self.norm2 = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)
        self.dropout = nn.Dropout(encoder_args["dropout"])

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        return self.norm2(x + self.dropout(self.ffn(x)))
"""
OF_STATE = """
class DecoderBlock(nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout, i):
        super().__init__()
        self.i = i
        self.attention1 = nn.MultiheadAttention(num_hiddens, num_heads, dropout, batch_first=True)
        self.attention2 = nn.MultiheadAttention(num_hiddens, num_heads, dropout, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(num_hiddens, ffn_num_hiddens), nn.ReLU(),
                                 nn.Linear(ffn_num_hiddens, num_hiddens))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(num_hiddens) for _ in range(3))

    def forward(self, X, state):
        enc_outputs, enc_valid_lens = state[0], state[1]
        kept = X if state[2][self.i] is None else torch.cat((state[2][self.i], X), 1)
        state[2][self.i] = kept
        future = torch.ones(X.shape[1], X.shape[1]).triu(1).bool() if self.training else None
        X = self.norm1(X + self.attention1(X, kept, kept, attn_mask=future)[0])
        hidden = None
        if enc_valid_lens is not None:
            hidden = torch.arange(enc_outputs.shape[1]) >= enc_valid_lens[:, None]
        X = self.norm2(X + self.attention2(X, enc_outputs, enc_outputs, hidden)[0])
        return self.norm3(X + self.ffn(X)), state
"""
WITH_POSITIONS = """
class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        position, exponent = torch.arange(max_len)[:, None], torch.arange(0, d_model, 2) / d_model
        table = torch.zeros(max_len, d_model)
        table[:, 0::2], table[:, 1::2] = (position / 10000**exponent).sin(), (position / 10000**exponent).cos()
        self.register_buffer("pos", table)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True) for _ in range(num_layers)
        )

    def forward(self, x, mask=None):
        x = x + self.pos[: x.shape[1]]
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=mask)
        return x
"""
ONE_LENGTH = """
class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
        self.register_buffer("mask", torch.ones(context_length, context_length).triu(1).bool())

    def forward(self, x):
        scores = self.W_query(x) @ self.W_key(x).transpose(1, 2)
        scores.masked_fill(self.mask, -torch.inf)
        return (scores / x.shape[-1] ** 0.5).softmax(-1) @ self.W_value(x)
"""
GIVEN_AN_ATTENTION = """
class EncoderLayer(nn.Module):
    def __init__(self, attention, d_model, d_ff=None):
        super().__init__()
        d_ff = d_ff or 4 * d_model
        self.attention = attention
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, attn_mask=None):
        new_x, weights = self.attention(x, x, x, attn_mask=attn_mask)
        y = x = self.norm1(x + new_x)
        return self.norm2(x + self.fc2(F.relu(self.fc1(y)))), weights


class DecoderLayer(nn.Module):
    def __init__(self, self_attention, cross_attention, d_model, d_ff):
        super().__init__()
        self.self_attention, self.cross_attention = self_attention, cross_attention
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, enc_out, x_mask=None, cross_mask=None):
        x = self.norm1(x + self.self_attention(x, x, x, attn_mask=x_mask)[0])
        y = x = self.norm2(x + self.cross_attention(x, enc_out, enc_out, attn_mask=cross_mask)[0])
        return self.norm3(x + self.fc2(F.relu(self.fc1(y))))
"""


CLASSES_BY_DEFAULT = """
class Embeddings(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.table, self.scale = nn.Embedding(vocab, d_model), math.sqrt(d_model)

    def forward(self, ids):
        return self.table(ids) * self.scale


class Output(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.proj = nn.Linear(d_model, vocab)

    def forward(self, x):
        return self.proj(x)


class Transformer(nn.Module):
    def __init__(self, src_embed=Embeddings, tgt_embed=Embeddings, output_layer=Output,
                 layer=nn.TransformerEncoderLayer, d_model=512, nhead=8, d_ff=2048, num_layers=6):
        super().__init__()
        self.src_embed, self.tgt_embed, self.output_layer = src_embed, tgt_embed, output_layer
        self.encoder = nn.ModuleList(layer(d_model, nhead, d_ff, batch_first=True) for _ in range(num_layers))
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(d_model, nhead, d_ff, batch_first=True) for _ in range(num_layers)
        )

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory, x = self.src_embed(src), self.tgt_embed(tgt)
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        for layer in self.encoder:
            memory = layer(memory, src_key_padding_mask=src_mask)
        for layer in self.decoder:
            x = layer(x, memory, causal, tgt_key_padding_mask=tgt_mask, memory_key_padding_mask=src_mask)
        return self.output_layer(x)
"""


@pytest.mark.long
def test_a_class_by_default_stands_for_an_instance_where_a_method_calls_it(tmp_path):
    result = check_text(CLASSES_BY_DEFAULT, tmp_path)["Transformer"]
    assert (result.verdict, result.problem) == ("matches the paper, not the builtin", "")
    wrong = CLASSES_BY_DEFAULT.replace("self.output_layer(x)", "self.output_layer(memory)")
    assert check_text(wrong, tmp_path)["Transformer"].verdict not in RIGHT


@pytest.mark.parametrize(
    "text, kinds",
    [
        (SCALE_FROM_OUTSIDE, {"scaled_dot_product_attention": "ScaledDotProductAttention"}),
        (SCALE_IF_GIVEN, {"scaled_dot_product_attention": "ScaledDotProductAttention"}),
        (
            SCALE_IF_GIVEN.replace("scale=None", "scale=1.0"),
            {"scaled_dot_product_attention": "ScaledDotProductAttention"},
        ),
        (
            SCALE_IF_GIVEN.replace(" @ key.mT", ".bmm(key.transpose(1, 2))").replace(") @ value", ").bmm(value)"),
            {"scaled_dot_product_attention": "ScaledDotProductAttention"},
        ),
        (HELD, {"Residual": "ResidualConnection"}),
        (SECTIONS, {"EncoderLayer": "EncoderLayer", "MultiheadAttention": "SelfAttention"}),
        (OF_STATE, {"DecoderBlock": "DecoderLayer"}),
        (WITH_POSITIONS, {"Encoder": "TokenEncoder"}),
        (GIVEN_AN_ATTENTION, {"EncoderLayer": "EncoderLayer", "DecoderLayer": "DecoderLayer"}),
    ],
)
def test_right_code_whose_parts_come_from_outside(text, kinds, tmp_path):
    results = check_text(text, tmp_path)
    assert {name: r.kind for name, r in results.items()} == kinds
    assert {name: (r.verdict, r.problem) for name, r in results.items() if r.verdict not in RIGHT} == {}


def test_a_layer_is_wrong_whatever_attention_it_is_given(tmp_path):
    no_residual = GIVEN_AN_ATTENTION.replace("self.norm1(x + new_x)", "self.norm1(new_x)")
    text = no_residual.replace("self.norm2(x + self.cross", "self.norm2(enc_out + self.cross")
    with time_to_look(LESS):
        results = check_text(text, tmp_path)
    assert not {result.verdict for result in results.values()} & set(RIGHT)


BESIDE = """
class SelfAttention(nn.Module):
    def __init__(self, hid_dim, n_heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(hid_dim, n_heads, batch_first=True)

    def forward(self, x, mask):
        return self.inner(x, x, x, key_padding_mask=mask)[0]
"""
GIVEN_A_CLASS = """
class EncoderLayer(nn.Module):
    def __init__(self, hid_dim, n_heads, self_attention, dropout):
        super().__init__()
        self.attention, self.drop = self_attention(hid_dim, n_heads), nn.Dropout(dropout)
        self.ffn = FeedForward(hid_dim, hid_dim)
        self.norm1, self.norm2 = nn.LayerNorm(hid_dim), nn.LayerNorm(hid_dim)

    def forward(self, x, mask):
        x = self.norm1(x + self.drop(self.attention(x, mask)))
        return self.norm2(x + self.drop(self.ffn(x)))
"""


def test_scripted_code_and_classes_that_main_py_puts_together_with_those_of_files_beside(tmp_path):
    (tmp_path / "attention.py").write_text(IMPORTS + BESIDE)
    path = written(SCRIPTED + GIVEN_A_CLASS, tmp_path)
    results = {result.name: result for result in reported(path).results}
    assert {name: (r.kind, r.verdict) for name, r in results.items()} == {
        "gelu": ("GELU", "matches the builtin"),
        "FeedForward": ("FeedForward", "matches the builtin"),
        "EncoderLayer": ("EncoderLayer", "matches the builtin"),
    }
    assert not any("put in its place" in limit or "reference's" in limit for limit in results["EncoderLayer"].limits)


def test_what_works_with_one_length_alone_is_judged_with_that(tmp_path):
    result = check_text(ONE_LENGTH, tmp_path)["CausalAttention"]
    assert (result.kind, result.verdict, "A25" in result.ids) == ("CausalSelfAttention", "mistake", True)
    assert any("longest length alone" in limit for limit in result.limits)


def test_no_dropout_is_a_number_a_module_and_nothing():
    import torch

    x = torch.ones(3)
    nothing = NoDropout(0.0)
    assert not nothing and nothing(x) is x and torch.equal(torch.dropout(x, nothing, True), x)


# ---- What a function of another file builds ----

BUILDS = """
class LayerNormalization(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return self.scale * x


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.norm, self.linear = LayerNormalization(d_model), nn.Linear(d_model, d_ff)

    def forward(self, x):
        return self.linear(self.norm(x))


def build_network(d_model, d_ff):
    return FeedForward(d_model, d_ff)
"""


def test_the_classes_that_a_function_of_another_file_builds_are_looked_at_too(tmp_path, monkeypatch):
    """get_model(config) of train.py calls build_model(…) of model.py: what is wrong in a norm there is wrong here."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "built_elsewhere.py").write_text(IMPORTS + BUILDS)
    get = (
        "from built_elsewhere import build_network\n\ndef get_network(cfg):\n    return build_network(cfg.d_model, 4)\n"
    )
    (tmp_path / "that_calls_it.py").write_text(get)
    caller = importlib.import_module("that_calls_it")
    found = Library(KINDS).imported_parts(caller.get_network, [])
    assert [one.__name__ for one in found] == ["LayerNormalization", "FeedForward"]
    assert Library(KINDS).imported_parts(caller.get_network, found) == []


PART = """
class Network(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.second(torch.relu(self.linear(x)))
"""
WHOLE = """from parts_that_stop import Network


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention, self.network = nn.MultiheadAttention(d_model, num_heads), Network(d_model, d_ff)
        self.attention.batch_first = True
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.network(x))
"""


NORM = """
class Norm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.scale * centred / (x.std(-1, keepdim=True, unbiased=False) + self.eps) + self.shift
"""


@pytest.mark.parametrize("norm, ids", [("nn.LayerNorm", ["B26"]), ("Norm", ["B26", "LN2"])])
def test_what_makes_a_part_of_another_file_stop_comes_first_in_the_whole(norm, ids, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = f"parts_that_stop_{len(ids)}"
    (tmp_path / f"{module}.py").write_text(IMPORTS + PART + NORM)
    whole = WHOLE.replace("parts_that_stop import Network", f"{module} import Network, Norm")
    result = check_text(whole.replace("nn.LayerNorm", norm), tmp_path)["EncoderLayer"]
    assert (result.verdict, result.ids, result.inherited) == ("mistake", ids, [])
    assert result.mistakes[0].where.startswith(f"{module}.py:") and "self.linear" in result.mistakes[0].evidence


EMBEDDER = """
class Encoder(nn.Module):
    def __init__(self, embedding, num_heads, num_layers, d_ff, dropout):
        super().__init__()
        self.embedding, self.width = embedding, embedding.ASKED
        sizes = self.width, num_heads, d_ff, dropout
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(*sizes, batch_first=True) for _ in range(num_layers)
        )

    def forward(self, ids):
        x = first = self.embedding(ids) * math.sqrt(self.width)
        for layer in self.layers:
            x = layer(ENTERS)
        return x
"""


@pytest.mark.parametrize(
    "asked, enters, verdict, ids",
    [
        ("get_output_dim()", "x", "harmless deviation", []),
        ("get_output_dim()", "first", "mistake", ["B19"]),  # every layer gets the first input
        ("width_of_all()", "x", "could not be built", []),
    ],
)
def test_an_embedding_that_is_given_may_have_what_pytorchs_has_not(asked, enters, verdict, ids, tmp_path):
    with time_to_look(LESS if ids else 1):
        result = check_text(EMBEDDER.replace("ASKED", asked).replace("ENTERS", enters), tmp_path)["Encoder"]
    assert (result.verdict, result.severe) == (verdict, ids), result


HANDED = {
    "base_of_handed": """
class LayerNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))


class SubLayer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.norm = LayerNorm(d_model)
""",
    "parts_of_handed": """
from base_of_handed import SubLayer


class FeedForward(SubLayer):
    def forward(self, x):
        return x + self.norm(x)
""",
    "handed": """
from parts_of_handed import FeedForward


class EncoderLayer(nn.Module):
    def __init__(self, feed_forward):
        super().__init__()
        self.feed_forward = feed_forward


class Sized(nn.Module):
    def __init__(self, d_model):
        super().__init__()
""",
}


def test_what_is_handed_to_a_layer_and_what_its_parts_inherit_is_looked_at_too(tmp_path, monkeypatch):
    """The layer names none of its parts, and their norm is made by a base that they have in a third file."""
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in HANDED.items():
        (tmp_path / f"{name}.py").write_text(IMPORTS + text)
    whole = importlib.import_module("handed")
    library = Library(KINDS)
    library.add(whole.FeedForward, ("FeedForward",))
    assert [one.__name__ for one in library.imported_parts(whole.EncoderLayer, [])] == ["LayerNorm", "FeedForward"]
    assert library.imported_parts(whole.Sized, []) == []


STACK = """
class Decoder(nn.Module):
    def __init__(self, layer, N):
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(N))

    def forward(self, x, memory):
        for layer in self.layers:
            x = layer(x, memory)
        return x
"""


def test_the_mask_that_a_given_layer_may_make_is_not_missed(tmp_path):
    result = check_text(STACK, tmp_path)["Decoder"]
    assert (result.verdict in RIGHT, result.replaced) == (True, ["DecoderLayer"]), result
    (said,) = (named for named in result.mistakes if named.id == "A25")
    assert (said.severity, "its own" in said.form) == ("note", False)


COUNTED = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, h, hides_future=False):
        super().__init__()
        self.h, self.hides_future = h, hides_future
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, Q, K, V, pad):
        maps = zip((self.q, self.k, self.v), (Q, K, V))
        q, k, v = (one(x).view(*x.shape[:2], self.h, -1).transpose(1, 2) for one, x in maps)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        for row, count in enumerate(pad):
            scores[row, :, :, -count:] = -math.inf
        if self.hides_future:
            scores = scores + torch.full_like(scores, -math.inf).triu(1)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, d_ff, h):
        super().__init__()
        self.own, self.cross = MultiHeadAttention(d_model, h, hides_future=True), MultiHeadAttention(d_model, h)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, pad):
        x = self.norms[0](x + self.own(x, x, x, pad))
        x = self.norms[1](x + self.cross(x, memory, memory, pad))
        return self.norms[2](x + self.network(x))
"""


def test_what_a_lent_attention_is_not_told_is_not_ignored(tmp_path):
    """What pad means, a count for each sentence, nothing tells; so the reference attends without a mask."""
    result = check_text(COUNTED, tmp_path)["DecoderLayer"]
    assert (result.verdict in RIGHT, result.replaced) == (True, ["MultiHeadAttention"]), result


TABLES = """
class Encoder(nn.Module):
    def __init__(self, word_emb: nn.Embedding, num_heads: int, d_ff: int, num_layers: int,
                 positional_emb: nn.Embedding = None, max_len: int = None):
        super().__init__()
        if not isinstance(word_emb, nn.Embedding):
            raise TypeError("word_emb is no nn.Embedding")
        if positional_emb is None and max_len is None:
            raise ValueError("neither positional_emb nor max_len")
        width = word_emb.embedding_dim
        self.word_emb = word_emb
        self.positional_emb = nn.Embedding(max_len, width) if positional_emb is None else positional_emb
        self.longest = self.positional_emb.num_embeddings
        layer = nn.TransformerEncoderLayer(width, num_heads, d_ff, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.layers(self.word_emb(ids) + self.positional_emb(places{more}))
"""


@pytest.mark.parametrize("more, is_right", [("", True), (" * 0", False)])
def test_what_is_annotated_to_be_torchs_table_is_one(more, is_right, tmp_path):
    """Though what is read of it, embedding_dim, has the name of a setting."""
    (result,) = check_text(TABLES.replace("{more}", more), tmp_path).values()
    assert (result.verdict in FINE, result.kind) == (is_right, "TokenEncoder"), result
