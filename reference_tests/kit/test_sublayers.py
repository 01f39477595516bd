"""One sublayer of a layer is made otherwise than the others: what is around it is named, and where."""

import pytest

from reference_tests.kit.learners.checked import LESS, check_text, time_to_look
from scratch_transformer.kit.judge.variants import Variants
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

LAYERS = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        FIRST
        SECOND
        return x


class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers))

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x
"""
ATTENDS = "self.attn(x, x, x, key_padding_mask=mask)[0]"
PRE, POST = "x = x + self.ffn(self.norm2(x))", "x = self.norm2(x + self.ffn(x))"
FIRST_POST = f"x = self.norm1(x + {ATTENDS})"
OWN_OUTPUT = "y = self.ffn(x); x = self.norm2(y + y)"
ROWS = [
    (f"x = self.norm1(x); x = x + {ATTENDS}", PRE, "B2", "norm(x) + f(norm(x)), in the first sublayer alone"),
    (f"x = self.norm1({ATTENDS})", POST, "B13", "norm(f(x)), in the first sublayer alone"),
    (FIRST_POST, "x = x + self.norm2(self.ffn(x))", "B3", "in the second sublayer alone"),
    (FIRST_POST, "x = x + self.ffn(x)", "B14", "in the second sublayer alone"),
    (FIRST_POST, OWN_OUTPUT, "B23", "the sublayer's output is added to itself, in the second sublayer alone"),
    (
        FIRST_POST,
        "x = self.norm2(x + x + self.ffn(x))",
        "B23",
        "the input is added twice, in the second sublayer alone",
    ),
]


def test_a_difference_is_harmless_and_found_in_the_stack(tmp_path):
    """The last matrix of every sublayer may have the other sign."""
    text = LAYERS.replace("FIRST", f"x = self.norm1(x - {ATTENDS})").replace("SECOND", POST.replace("+", "-"))
    results = check_text(text, tmp_path)
    assert {result.verdict for result in results.values()} == {"harmless deviation"}
    assert [named.form for named in results["EncoderLayer"].mistakes] == ["the sublayer's output is subtracted"]


@pytest.mark.parametrize("first, second, id, form", ROWS, ids=[row[2] + row[3][:12] for row in ROWS])
def test_what_is_wrong_around_one_sublayer_is_named_and_found_in_the_stack(first, second, id, form, tmp_path):
    results = check_text(LAYERS.replace("FIRST", first).replace("SECOND", second), tmp_path)
    layer, stack = results["EncoderLayer"], results["Encoder"]
    assert [(named.id, named.form) for named in layer.mistakes if named.severity == "mistake"] == [(id, form)]
    assert (layer.verdict, stack.verdict, stack.inherited) == ("mistake", "mistake", [id])


def test_both_right_orders_in_one_layer_are_no_mistake(tmp_path):
    results = check_text(LAYERS.replace("FIRST", FIRST_POST).replace("SECOND", PRE), tmp_path)
    assert {result.verdict for result in results.values()} == {"harmless deviation"}
    named = {named.id: named.form for named in results["EncoderLayer"].mistakes}
    assert named == {"B1": "another order than in the rest of its layer, in the first sublayer alone"}


def test_of_two_sublayers_each_may_be_wrong_in_its_own_way(tmp_path):
    text = LAYERS.replace("FIRST", f"x = x + {ATTENDS}").replace("SECOND", "x = x + self.norm2(self.ffn(x))")
    results = check_text(text, tmp_path)
    layer, stack = results["EncoderLayer"], results["Encoder"]
    named = [(found.id, found.form) for found in layer.mistakes if found.severity == "mistake"]
    assert named == [("B3", "in the second sublayer alone"), ("B14", "in the first sublayer alone")]
    assert (stack.verdict, sorted(stack.inherited)) == ("mistake", ["B14", "B3"])


@pytest.mark.parametrize("second", ["x = self.norm2(x * self.ffn(x))", "x = self.norm1(x + self.ffn(x)) + x * 0.1"])
def test_what_has_no_name_is_not_called_right(second, tmp_path):
    with time_to_look(LESS):
        result = check_text(LAYERS.replace("FIRST", FIRST_POST).replace("SECOND", second), tmp_path)["EncoderLayer"]
    assert result.verdict not in FINE


LAST_NORM = """
class Norm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        return self.scale * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.shift


class StackOfEncoders(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)
        self.layers, self.norm = nn.ModuleList(copy.deepcopy(layer) for _ in range(num_layers)), Norm(d_model)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=mask)
        return self.norm(x)
"""
CALLED_AGAIN = """
class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.num_layers = num_layers
        self.layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)

    def forward(self, x, mask=None):
        for _ in range(self.num_layers):
            x = self.layer(x, src_key_padding_mask=mask)
        return x
"""


def test_the_norm_after_the_last_layer_alone_is_wrong(tmp_path):
    result = check_text(LAST_NORM, tmp_path)["StackOfEncoders"]
    assert (result.verdict, result.inherited, result.divergence) == ("mistake", ["LN1", "LN2"], "")
    wrong = LAST_NORM.replace("return self.norm(x)", "return self.norm(x) + 0.1 * x")
    assert check_text(wrong, tmp_path)["StackOfEncoders"].divergence


def test_the_norm_after_the_last_layer_alone_is_right(tmp_path):
    norms = "self.norm1, self.norm2 = "
    of_layers = LAYERS.replace(
        f"{norms}nn.LayerNorm(d_model), nn.LayerNorm(d_model)", f"{norms}Norm(d_model), Norm(d_model)"
    )
    of_layers = of_layers.replace("FIRST", f"y = self.norm1(x); x = x + {ATTENDS.replace('x', 'y')}").replace(
        "SECOND", PRE
    )
    last = "        self.norm = nn.LayerNorm(d_model)\n\n    def forward(self, x, mask=None):\n        for"
    of_layers = of_layers.replace("\n    def forward(self, x, mask=None):\n        for", last)
    of_layers = of_layers.replace("layer(x, mask)\n        return x", "layer(x, mask)\n        return self.norm(x)")
    text = LAST_NORM.partition("class StackOfEncoders")[0] + of_layers
    result = check_text(text, tmp_path)["Encoder"]
    assert (result.verdict, result.inherited, result.limits) == ("mistake", ["LN1", "LN2"], [])


TRANSLATES = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, h, d_ff):
        super().__init__()
        self.att = nn.MultiheadAttention(d_model, h, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.n1, self.n2 = Norm(d_model), Norm(d_model)

    def forward(self, x, mask):
        y = self.n1(x)
        x = x + self.att(y, y, y, key_padding_mask=mask)[0]
        return x + self.ff(self.n2(x))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, h, d_ff):
        super().__init__()
        self.att = nn.MultiheadAttention(d_model, h, batch_first=True)
        self.cross = nn.MultiheadAttention(d_model, h, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.n1, self.n2, self.n3 = Norm(d_model), Norm(d_model), Norm(d_model)

    def forward(self, x, memory, tgt_mask, mask):
        y = self.n1(x)
        x = x + self.att(y, y, y, attn_mask=tgt_mask)[0]
        x = x + self.cross(self.n2(x), memory, memory, key_padding_mask=mask)[0]
        return x + self.ff(self.n3(x))


class Transformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, h, d_ff, N, max_len):
        super().__init__()
        self.src, self.tgt = nn.Embedding(src_vocab, d_model), nn.Embedding(tgt_vocab, d_model)
        self.pos = nn.Embedding(max_len, d_model)
        self.enc = nn.ModuleList([EncoderLayer(d_model, h, d_ff) for _ in range(N)])
        self.dec = nn.ModuleList([DecoderLayer(d_model, h, d_ff) for _ in range(N)])
        self.enc_norm, self.dec_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, tgt_vocab)

    def forward(self, src, tgt, src_pad_mask):
        x = self.src(src) + self.pos(torch.arange(src.size(1)))
        for layer in self.enc:
            x = layer(x, src_pad_mask)
        memory = self.enc_norm(x)
        y = self.tgt(tgt) + self.pos(torch.arange(tgt.size(1)))
        hides = torch.ones(tgt.size(1), tgt.size(1)).triu(1).bool()
        for layer in self.dec:
            y = layer(y, memory, hides, src_pad_mask)
        return self.out(self.dec_norm(y))
"""


def test_the_last_norms_of_both_sides_alone_are_right(tmp_path):
    text = LAST_NORM.partition("class StackOfEncoders")[0] + TRANSLATES
    result = check_text(text, tmp_path)["Transformer"]
    assert (result.verdict, result.inherited, result.limits) == ("mistake", ["LN1", "LN2"], [])


@pytest.mark.parametrize("called, ids", [("x = self.layer(x", ["B9"]), ("x = x + self.layer(x", None)])
def test_one_layer_that_is_called_again_and_again(called, ids, tmp_path):
    result = check_text(CALLED_AGAIN.replace("x = self.layer(x", called), tmp_path)["Encoder"]
    assert result.severe == (ids or [])
    assert (result.verdict == "mistake") == bool(ids) and result.verdict not in FINE


NORM_OF_CROSS = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.self_norm = nn.LayerNorm(d_model)
        self.enc_attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.enc_attn_norm = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.ffn_norm = nn.LayerNorm(d_model)
        MORE

    def forward(self, x, memory, memory_mask=None):
        later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        y = self.self_norm(x)
        x = x + self.self_attn(y, y, y, attn_mask=later)[0]
        m = GIVEN
        x = x + self.enc_attn(self.enc_attn_norm(x), m, m, key_padding_mask=memory_mask)[0]
        return x + self.ffn(self.ffn_norm(x))
"""


@pytest.mark.parametrize(
    "more, given, verdict, form",
    [
        ("pass", "memory", "matches the builtin", []),
        ("self.norm_of_memory = nn.LayerNorm(d_model)", "self.norm_of_memory(memory)", "harmless deviation",
         ["by a norm of its own"]),
        ("pass", "self.enc_attn_norm(memory)", "harmless deviation", ["by the norm of the queries"]),
        ("pass", "self.ffn_norm(memory)", "unknown mismatch", []),
    ],
    ids=["none", "own", "queries'", "another's"],
)  # fmt: skip
def test_the_encoders_output_is_normalized_in_the_decoders_layer_or_not(more, given, verdict, form, tmp_path):
    result = check_text(NORM_OF_CROSS.replace("MORE", more).replace("GIVEN", given), tmp_path)["DecoderLayer"]
    assert result.verdict == verdict
    assert [named.form for named in result.mistakes if named.id == "B31"] == form


AROUND_A_NETWORK = """
class Network(nn.Module):
    def __init__(self, size, units=64):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(size, units), nn.Linear(units, units), nn.Linear(units, size)

    def forward(self, x):
        return self.third(self.second(self.first(x).relu()).relu())


class _Layer(nn.Module):
    def __init__(self, dim, num_head):
        super().__init__()
        self.attn, self.network = nn.MultiheadAttention(dim, num_head), Network(dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, src):
        x = self.norm1({}self.attn(src, src, src)[0])
        return self.norm2(x + self.network(x))
"""


@pytest.mark.parametrize("summand, ids", [("", ["B13"]), ("src + ", [])])
def test_beside_a_network_that_nothing_explains_a_lost_residual_is_named(summand, ids, tmp_path):
    """As an encoder's layer: what speaks of nothing of today is not taken for Llama's first."""
    result = check_text(AROUND_A_NETWORK.format(summand), tmp_path)["_Layer"]
    assert (result.kind, result.ids, result.replaced) == ("EncoderLayer", ids, ["Network"])


NORMED = """
class NormedResidualLayer(nn.Module):
    def __init__(self, size, intermediate_size, dropout):
        super().__init__()
        self.mlp1, self.mlp2 = nn.Linear(size, intermediate_size), nn.Linear(intermediate_size, size)
        self.layer_norm, self.dropout = nn.LayerNorm(size), nn.Dropout(dropout)

    def forward(self, x):
        return {}
"""


@pytest.mark.parametrize("output, ids", [
    ("self.layer_norm(self.dropout(self.mlp2(self.mlp1(x).relu())) + x)", set()),
    ("self.layer_norm(self.dropout(self.mlp2(self.mlp1(x))) + x)", {"B16"}),
])  # fmt: skip
def test_a_network_with_its_norm_is_no_norm(output, ids, tmp_path):
    result = check_text(NORMED.format(output), tmp_path)["NormedResidualLayer"]
    assert result.kind == "FeedForward"
    assert {one.id for one in result.mistakes if one.severity == "mistake"} == ids
    assert result.verdict == ("mistake" if ids else "matches the builtin")


ONE = """
class Sublayer(nn.Module):
    def __init__(self, d_model, function, is_attention, dropout=0.1):
        super().__init__()
        self.function, self.is_attention = function, is_attention
        self.norm, self.dropout = nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, mask=None):
        y = self.function(x, x, x, mask) if self.is_attention else self.function(x)
        return SUM
"""


@pytest.mark.parametrize("sum_, ids", [
    ("self.norm(x + self.dropout(y))", []),
    ("x + self.dropout(self.norm(y))", ["B3"]),
])  # fmt: skip
def test_one_sublayer_around_a_function_is_a_residual_connection(sum_, ids, tmp_path):
    result = check_text(ONE.replace("SUM", sum_), tmp_path)["Sublayer"]
    assert (result.kind, [m.id for m in result.mistakes]) == ("ResidualConnection", ids)


def test_a_sublayer_without_weights_is_not_one_that_is_thrown_away():
    variants = Variants(KINDS["EncoderLayer"], KINDS["EncoderLayer"].complete({}))
    missing = frozenset(f"self_attn.w_{role}.weight" for role in "qkvo")
    thrown = RIGHT.with_({"parts": (("norm1", (("norm_order", "thrown away"),)),)})
    assert not variants.lacks(thrown, frozenset()) and not variants.lacks(RIGHT, missing)
    assert variants.lacks(thrown, missing)


AROUND = """
class Residual(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm, self.dropout = LayerNorm(size), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))

class DecoderLayer(nn.Module):
    def __init__(self, size, self_attn, src_attn, feed_forward, dropout):
        super().__init__()
        self.size, self.self_attn, self.src_attn, self.feed_forward = size, self_attn, src_attn, feed_forward
        self.sublayers = nn.ModuleList(Residual(size, dropout) for _ in range(3))

    def forward(self, x, memory, src_mask, tgt_mask):
        x = self.sublayers[0](x, lambda FIRST: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayers[1](x, lambda SECOND: self.src_attn(x, memory, memory, src_mask))
        return self.sublayers[2](x, self.feed_forward)
"""
OWN_NORM = """
class LayerNorm(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.a_2, self.b_2, self.eps = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size)), eps

    def forward(self, x):
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.b_2
"""


@pytest.mark.parametrize("first, second", [("y", "y"), ("x", "y"), ("x", "x")])
def test_lambdas_that_do_not_use_what_is_normalized(first, second, tmp_path):
    text = OWN_NORM + AROUND.replace("FIRST", first).replace("SECOND", second)
    layer = check_text(text, tmp_path)["DecoderLayer"]
    lines = [mistake.line for mistake in layer.mistakes if mistake.id == "B14"]
    wrong = [number for number, name in ((31, first), (32, second)) if name == "y"]
    assert (layer.unexplained, lines) == (False, wrong[:1]), layer
    assert {"LN1", "LN2"} <= {*layer.ids, *layer.inherited}


def test_two_such_lambdas_are_one_mistake_of_the_layer_and_of_its_stack(tmp_path):
    stack = """
class Decoder(nn.Module):
    def __init__(self, layer, n):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(copy.deepcopy(layer) for _ in range(n)), LayerNorm(layer.size)

    def forward(self, x, memory, src_mask, tgt_mask):
        for layer in self.layers:
            x = layer(x, memory, src_mask, tgt_mask)
        return self.norm(x)
"""
    text = OWN_NORM + AROUND.replace("FIRST", "y").replace("SECOND", "y") + stack
    results = check_text(text, tmp_path)
    (finding,) = (mistake for mistake in results["DecoderLayer"].mistakes if mistake.id == "B14")
    assert finding.form == "in the first and the second sublayer"
    assert "B14" in results["Decoder"].inherited and not any("besides" in one for one in results["Decoder"].limits)


OF_ATTENTION = """
class AttentionSublayer(nn.Module):
    def __init__(self, size, n_heads, dropout):
        super().__init__()
        self.attention = nn.MultiheadAttention(size, n_heads, batch_first=True)
        self.dropout, self.layer_norm = nn.Dropout(dropout), nn.LayerNorm(size)

    def forward(self, x, states):
        attended = self.attention(x, states, VALUES)[0]
        return self.layer_norm(x + self.dropout(attended))
"""


@pytest.mark.parametrize("values, ids", [("states", []), ("states.flip(1)", None)])
def test_a_sublayer_that_makes_its_heads_is_attention(values, ids, tmp_path):
    with time_to_look(1 if ids == [] else LESS):
        result = check_text(OF_ATTENTION.replace("VALUES", values), tmp_path)["AttentionSublayer"]
    assert result.kind == "CrossAttention"
    assert (result.verdict in FINE) == (ids == [])


TWICE = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.norm = num_heads, nn.LayerNorm(d_model)
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        heads = [f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f, x in ((self.q, q), (self.k, k), (self.v, v))]
        summed = F.scaled_dot_product_attention(*heads, attn_mask=mask).transpose(1, 2).flatten(2)
        return self.norm(q + self.o(summed))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.network(x))
"""


def test_a_residual_inside_an_attention_and_around_it_is_named(tmp_path):
    layer = check_text(TWICE, tmp_path)["EncoderLayer"]
    assert (layer.verdict, layer.ids) == ("mistake", ["B23"]), layer


ONE_EACH = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        assert d_model % heads == 0
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, Q, K, V, mask):
        q, k, v = (
            one(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for one, x in ((self.to_q, Q), (self.to_k, K), (self.to_v, V))
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout):
        super().__init__()
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout, self.norm = nn.Dropout(dropout), nn.LayerNorm(d_model)

    def forward(self, X):
        return self.norm(X + self.dropout(self.second(F.relu(self.first(X)))))


class Block(nn.Module):
    def __init__(self, d_model, heads, dropout):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, heads)
        self.dropout, self.norm = nn.Dropout(dropout), nn.LayerNorm(d_model)

    def forward(self, Q, K, V, mask):
        return self.norm(Q + self.dropout(self.attention(Q, K, V, mask)))


class Encoder(nn.Module):
    def __init__(self, d_model, d_ff, dropout, heads):
        super().__init__()
        self.block = Block(d_model, heads, dropout)
        self.network = FeedForward(d_model, d_ff, dropout)

    def forward(self, X, mask):
        return self.network(self.block(X, X, X, mask))


class Decoder(nn.Module):
    def __init__(self, d_model, d_ff, dropout, heads):
        super().__init__()
        self.block1 = Block(d_model, heads, dropout)
        self.block2 = Block(d_model, heads, dropout)
        self.network = FeedForward(d_model, d_ff, dropout)

    def forward(self, X, Y, mask, memory_mask):
        Y = self.block1(Y, Y, Y, mask)
        return self.network(self.block2(Y, X, X, memory_mask))
"""


@pytest.mark.parametrize("removed, is_right", [("nothing", True), ("Q + ", False)])
def test_a_block_of_one_sublayer_is_an_attention_with_its_norm(removed, is_right, tmp_path):
    """Given queries, keys and values, and with no network: it is no layer, and layers are made of it."""
    results = check_text(ONE_EACH.replace(removed, ""), tmp_path)
    kinds = {"Block": "MultiheadAttention", "Encoder": "EncoderLayer", "Decoder": "DecoderLayer"}
    assert {name: results[name].kind for name in kinds} == kinds
    assert {name: one.verdict in FINE for name, one in results.items()} == {
        **dict.fromkeys(("MultiHeadAttention", "FeedForward"), True), **dict.fromkeys(kinds, is_right),
    }  # fmt: skip


OF_THREE = """
class Config:
    n_embd, n_heads, dim, d_ff = 12, 3, 12, 17


class Attention(nn.Module):
    def __init__(self, args, is_causal=False):
        super().__init__()
        self.heads, self.is_causal = args.n_heads, is_causal
        self.q, self.k, self.v, self.out = (nn.Linear(args.n_embd, args.dim) for _ in range(4))

    def forward(self, q, k, v):
        B, T, _ = q.shape
        split = lambda x: x.view(B, LENGTH, self.heads, x.shape[-1] // self.heads).transpose(1, 2)
        q, k, v = split(self.q(q)), split(self.k(k)), split(self.v(v))
        x = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.out(x.transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, args: Config):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(args.n_embd) for _ in range(3))
        self.masked_attention, self.attention = Attention(args, is_causal=True), Attention(args)
        self.ffn = nn.Sequential(nn.Linear(args.dim, args.d_ff), nn.ReLU(), nn.Linear(args.d_ff, args.dim))

    def forward(self, x, enc_out):
        x = self.norm1(x)
        x = x + self.masked_attention(x, x, x)
        x = self.norm2(x)
        h = x + self.attention(x, enc_out, enc_out)
        return h + self.ffn(self.norm3(h))


class Decoder(nn.Module):
    def __init__(self, args: Config):
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer(args) for _ in range(2)])
        self.norm = nn.LayerNorm(args.n_embd)

    def forward(self, x, enc_out):
        for layer in self.layers:
            x = layer(x, enc_out)
        return self.norm(x)
"""


@pytest.mark.parametrize("length, others", [("-1", []), ("T", ["A35"])])
def test_two_of_three_sublayers_may_have_their_norm_on_the_residual_path(length, others, tmp_path):
    """Even where nothing can be compared but a source and a target of one length; dim beside n_embd is as wide."""
    results = check_text(OF_THREE.replace("LENGTH", length), tmp_path)
    layer, stack = results["DecoderLayer"], results["Decoder"]
    found = {named.id: named.form for named in layer.mistakes if named.severity == "mistake" and named.id != "B6"}
    assert found == {"B2": "norm(x) + f(norm(x)), in the first and the second sublayer"}
    assert {*others} <= {*layer.inherited}
    assert stack.verdict == "mistake" and {"B2", *others} <= {*stack.inherited}, stack


OWN_NORM_IN_IT = """
class Norm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a, self.b, self.eps = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features)), eps

    def forward(self, x):
        return self.a * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.b

"""


ATTENDS_BY_ITSELF = """
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if self.is_causal:
            scores = scores + torch.full((40, 40), -math.inf).triu(1)[:T, :T]
        return nn.functional.dropout(self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), 0.1, self.training)
"""


def test_norms_with_mistakes_on_the_residual_path_of_two_of_three_sublayers(tmp_path):
    """With A35 as well. Behind a norm no feature is as it was: what is dropped before is not looked for there."""
    text = OF_THREE.replace("LENGTH", "T").replace("nn.LayerNorm", "Norm").replace("args.dim)", "args.dim, bias=False)")
    attends, _, rest = text.partition("        x = F.scaled_dot_product_attention")
    text = attends + ATTENDS_BY_ITSELF + "\n\nclass DecoderLayer" + rest.partition("class DecoderLayer")[2]
    text = text.replace("self.ffn(self.norm3(h))", "F.dropout(self.ffn(self.norm3(h)), 0.1, self.training)")
    results = check_text(OWN_NORM_IN_IT + text, tmp_path)
    layer, stack = results["DecoderLayer"], results["Decoder"]
    named = {named.id: named.form for named in layer.mistakes if named.severity == "mistake"}
    assert named == {"B2": "norm(x) + f(norm(x)), in the first and the second sublayer"}, layer
    assert {"LN1", "LN2", "A35"} <= {*layer.ids, *layer.inherited} and {"B2", "LN1", "LN2"} <= {*stack.inherited}
