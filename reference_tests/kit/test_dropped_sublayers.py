"""Dropout of each sublayer's output: one that is dropped does not hide another that is not (B6)."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.blocks import KEPT as NEVER_DROPPED
from scratch_transformer.kit.mistakes.blocks import NOT_DROPPED
from scratch_transformer.kit.mistakes.paths import ON_RESIDUAL

pytestmark = pytest.mark.long

LAYER = """
class Heads(nn.Module):
    def __init__(self, width, heads, p=0.1):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.drop = nn.Dropout(p)

    def forward(self, x, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return OF_HEADS

class Network(nn.Module):
    def __init__(self, width, d_ff, p=0.1):
        super().__init__()
        self.wide, self.narrow, self.drop = nn.Linear(width, d_ff), nn.Linear(d_ff, width), nn.Dropout(p)

    def forward(self, x):
        return self.drop(self.narrow(torch.relu(self.wide(x))))

class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ffTOLD):
        super().__init__()
        self.attention, self.network = Heads(d_model, num_headsGIVEN), Network(d_model, d_ffGIVEN)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.network(x))
"""
DROPPED = "self.drop(self.o((self.drop(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2)))"
KEPT = "self.o((self.drop(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2))"


@pytest.mark.parametrize("told, given", [("", ""), (", dropout=0.1", ", dropout")])
@pytest.mark.parametrize("of_heads, forms", [(DROPPED, []), (KEPT, [NOT_DROPPED.format("self-attention")])])
def test_the_dropout_of_one_sublayer_does_not_hide_that_of_another(told, given, of_heads, forms, tmp_path):
    text = LAYER.replace("OF_HEADS", of_heads).replace("TOLD", told).replace("GIVEN", given)
    found = check_text(text, tmp_path)["EncoderLayer"]
    shown = [named for named in found.mistakes if named.id == "B6"]
    assert [named.form for named in shown] == forms
    assert all("self.attention(x, mask)" in named.shown for named in shown)


MIXED_UP = LAYER.replace("OF_HEADS", DROPPED)
MIXED_UP = MIXED_UP.replace("x = self.norm1(", "y = self.norm1(").replace("self.network(x)", "self.network(y)")


@pytest.mark.parametrize("told, given", [("", ""), (", dropout=0.1", ", dropout")])
def test_what_only_another_sublayer_sees_is_not_judged(told, given, tmp_path):
    found = check_text(MIXED_UP.replace("TOLD", told).replace("GIVEN", given), tmp_path)["EncoderLayer"]
    assert found.ids == ["B23"]


SIBLINGS = """
class DecoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, dropout):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_heads, dropout=dropout, batch_first=True)
        self.ffwd = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model), nn.Dropout(dropout)
        )
        self.ln1, self.ln2, self.drop = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x):
        y = self.ln1(x)
        ahead = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        attended, _ = self.attn(
            query=y, key=y, value=y, attn_mask=ahead, need_weights=False,
        )
        x = x + attended
        return x + self.ffwd(self.ln2(x))


class Grouped(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, dropout):
        super().__init__()
        self.h, self.kv, self.d, self.p = n_heads, n_kv_heads, d_model // n_heads, dropout
        self.q, self.o = nn.Linear(d_model, d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.k, self.v = (nn.Linear(d_model, n_kv_heads * self.d, bias=False) for _ in "kv")

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, self.d)).transpose(1, 2) for f in (self.q, self.k, self.v))
        k, v = (t.repeat_interleave(self.h // self.kv, dim=1) for t in (k, v))
        p = self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p)
        return self.o(y.transpose(1, 2).flatten(2))


class GroupedBlock(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, dropout):
        super().__init__()
        self.attn_norm, self.ffwd_norm = nn.RMSNorm(d_model), nn.RMSNorm(d_model)
        self.attn, self.drop = Grouped(d_model, n_heads, n_kv_heads, dropout), nn.Dropout(dropout)
        self.up, self.down = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)

    def forward(self, x):
        kept = x
        attended = self.attn(self.attn_norm(x))
        x = kept + attended
        kept = x
        x = self.ffwd_norm(x)
        x = self.drop(self.down(F.gelu(self.up(x))))
        return kept + x
"""
BOTH = {
    name: "x = x + attended" if name == "DecoderBlock" else "x = kept + attended"
    for name in ("DecoderBlock", "GroupedBlock")
}
OF_NONE = SIBLINGS.replace("self.drop(self.down(F.gelu(self.up(x))))", "self.down(F.gelu(self.up(x)))")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (SIBLINGS, BOTH),
        (SIBLINGS.replace("+ attended", "+ self.drop(attended)"), {}),
        (OF_NONE, {"DecoderBlock": "x = x + attended"}),  # of today's, many drop nothing
    ],
)
def test_each_of_two_blocks_is_told_of_its_own_sum_that_nothing_is_dropped_of(text, lines, tmp_path):
    found = check_text(text, tmp_path)
    kinds = [found[name].kind for name in BOTH]
    assert kinds == ["DecoderOnlyLayer", "LlamaBlock"]
    named = {name: one for name in BOTH for one in found[name].mistakes if one.id == "B6"}
    assert {name: one.shown.strip() for name, one in named.items()} == lines
    assert {one.form for one in named.values()} <= {NOT_DROPPED.format("self-attention")}


LENT = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        B, T, D = q.shape
        q, k, v = (x.view(B, -1, self.h, D // self.h).transpose(1, 2) for x in (self.q(q), self.k(k), self.v(v)))
        scores = torch.sin(q @ k.transpose(-2, -1)) + 0.3
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.dropout(self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D)))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model), nn.Dropout(dropout))

    def forward(self, x):
        return self.net(x)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.ffn = FeedForward(d_model, d_ff, dropout)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, mask)
        return x + self.ffn(self.norm2(x))
"""


def test_what_the_kit_put_in_its_place_is_not_blamed_for_dropping_nothing(tmp_path):
    layer = check_text(LENT, tmp_path)["EncoderLayer"]
    assert layer.replaced == ["MultiHeadAttention"]
    assert "B6" not in layer.ids


OF_NETWORK = ", nn.Linear(d_ff, d_model), nn.Dropout(dropout))"


@pytest.mark.parametrize("old, new, is_named", [
    ("", "", True), ("d_ff, dropout):", "d_ff, attn_dropout):", False),
    ("self.ffn(self.norm2(x))", "self.drop(self.ffn(self.norm2(x)))", False),
    ("self.ffn(self.norm2(x))", "F.dropout(self.ffn(self.norm2(x)), self.p, self.training and self.p > 0)", False),
])  # fmt: skip
def test_what_stands_beside_it_is_asked_for_its_dropout(old, new, is_named, tmp_path):
    """nn.Identity() in place of nn.Dropout(0): it is asked once more with dropout."""
    text, layer = LENT.replace(OF_NETWORK, ", nn.Linear(d_ff, d_model))").split("class EncoderLayer")
    layer = layer.replace("d_ff, dropout)\n        self.norm1", "d_ff, 0)\n        self.norm1").replace(old, new)
    if "attn" in new:
        layer = layer.replace("super().__init__()", "super().__init__()\n        dropout = attn_dropout")
    made = "self.p, self.drop = dropout, nn.Dropout(dropout) if dropout > 0 else nn.Identity()"
    layer = layer.replace("        self.norm1, self", f"        {made}\n        self.norm1, self")
    found = check_text(f"{text}class EncoderLayer{layer}", tmp_path)["EncoderLayer"]
    assert found.replaced == ["MultiHeadAttention"]
    named = [one for one in found.mistakes if one.id == "B6"]
    assert [one.form for one in named] == [NEVER_DROPPED.format("the feed-forward network")] * is_named, found
    assert all("self.ffn(self.norm2(x))" in one.shown for one in named)


# ---- After the sum (B24) ----

TWO = """
class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, query, key, value):
        x = self.norm1(FIRST)
        return self.norm2(x + self.dropout(self.network(x)))
"""
A_THIRD = """

class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.norm, self.dropout = nn.LayerNorm(d_model), nn.Dropout(dropout)
        self.block = TransformerBlock(d_model, num_heads, d_ff, dropout)

    def forward(self, x, memory, mask):
        attended, _ = self.attention(x, x, x, attn_mask=mask)
        return self.block(self.norm(SUM), memory, memory)
"""
ATTENDED = "self.attention(query, key, value)[0]"


def test_dropout_of_what_passes_around_is_told_from_that_of_the_sum(tmp_path):
    for first, form in ((f"{ATTENDED} + self.dropout(query)", ON_RESIDUAL), (f"self.dropout(query + {ATTENDED})", "")):
        text = (
            TWO.replace("FIRST", first)
            .replace("query, key, value):", "query):")
            .replace("key, value)", "query, query)")
        )
        result = check_text(text.replace("TransformerBlock", "EncoderLayer"), tmp_path)["EncoderLayer"]
        (found,) = (one for one in result.mistakes if one.id == "B24")
        assert (ON_RESIDUAL in str(found)) == bool(form) and "self.dropout(query" in found.code[2]


@pytest.mark.parametrize("own", [True, False])
def test_what_a_layer_does_itself_is_said_of_it_though_a_part_does_it_too(own, tmp_path):
    """Whoever mends the part alone leaves the layer as wrong as it was."""
    summed = "self.dropout(x + attended)" if own else "x + self.dropout(attended)"
    text = TWO.replace("FIRST", f"self.dropout(query + {ATTENDED})") + A_THIRD.replace("SUM", summed)
    result = check_text(text, tmp_path)["DecoderLayer"]
    assert [one.code[2].strip() for one in result.mistakes if one.id == "B24"] == [
        f"return self.block(self.norm({summed}), memory, memory)"
    ] * own
    assert ("B24" in result.inherited) == (not own)


HOLDING = """
class Residual(nn.Module):
    def __init__(self, sublayer, d_model, dropout):
        super().__init__()
        self.sublayer, self.norm, self.dropout = sublayer, nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, mask=None):
        return RETURNED
"""


@pytest.mark.parametrize("returned, ids", [
    ("self.norm(self.dropout(x + self.sublayer(x, mask)))", ["B24"]),
    ("self.norm(x + self.sublayer(x, mask))", ["B6"]),
    ("self.norm(x + self.dropout(self.sublayer(x, mask)))", []),
])  # fmt: skip
def test_a_residual_connection_that_holds_its_sublayer_is_built_again_with_it(returned, ids, tmp_path):
    result = check_text(HOLDING.replace("RETURNED", returned), tmp_path)["Residual"]
    assert (result.kind, [id for id in result.ids if id in ("B6", "B24")]) == ("ResidualConnection", ids), result


TWICE = (
    LAYER.replace("OF_HEADS", DROPPED)
    .replace("TOLD", ", dropout=0.1")
    .replace("GIVEN", ", 0.0")
    .replace("x = self.norm1(x + self.attention(x, mask))", "x = ADDED(x + self.attention(self.norm1(x), mask))")
    .replace("return self.norm2(x + self.network(x))", "return ADDED(x + self.network(self.norm2(x)))")
    .replace("self.norm1, self.norm2 =", "self.last, self.norm1, self.norm2 = nn.Dropout(dropout),")
)


@pytest.mark.parametrize("added, ids", [("x + self.last", {"B23"}), ("self.last", {"B24"})])
def test_where_the_input_is_added_twice_one_of_the_two_passes_undisturbed(added, ids, tmp_path):
    result = check_text(TWICE.replace("ADDED", added), tmp_path)["EncoderLayer"]
    assert {"B23", "B24"} & {*result.severe} == ids, result
