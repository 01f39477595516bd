"""What a sublayer's output is added to, and whether it is used at all; what the core takes and sums."""

import textwrap

import pytest
import torch

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.made import Around, found
from scratch_transformer.kit.canonical import blocks
from scratch_transformer.kit.canonical.attention import Attention
from scratch_transformer.kit.judge.session import is_no_proof
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes.paths import OF_CROSS
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.resolve.call.plan import Plan
from scratch_transformer.kit.resolve.candidate import Resolved

pytestmark = pytest.mark.long

SIZES = {"d_model": 12, "num_heads": 3}


def layer(cls, signature, body):
    """A layer's class with a forward of its own."""
    made = {}
    exec(f"def forward(self, {signature}):\n{textwrap.indent(textwrap.dedent(body), '    ')}", made)

    def build(self, d_model, num_heads, d_ff):
        cls.__init__(self, {"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff}, RIGHT)

    return type("Layer", (cls,), {"__init__": build, "forward": made["forward"]})


def mistakes(diagnosis):
    return [(f.mistake.id, f.form, f.part) for f in diagnosis.findings if f.severity == "mistake"]


POST = """
a = self.self_attn(x, x, x, mask)
y = self.norm1({first})
f = self.feed_forward({given})
return self.norm2({second})
"""
PRE = """
h = self.norm1(x)
a = self.self_attn(h, h, h, mask)
y = {first}
g = self.norm2(y)
f = self.feed_forward({given})
return {second}
"""
RIGHT_SUMS = {POST: {"first": "x + a", "second": "y + f", "given": "y"},
              PRE: {"first": "x + a", "second": "y + f", "given": "g"}}  # fmt: skip
THROWN = "a sublayer's output is thrown away"
TO_ITSELF = f"{THROWN}, and its input is added to itself"
AGAIN = f"{THROWN}, and that of the sublayer before is added again"
BARE = "the output of the sublayer before is added, without its residual and norm"
NETWORK = "the feed-forward network is given the"
ROWS = [
    (POST, {}, []),
    (PRE, {}, []),
    (POST, {"first": "x"}, [("B30", THROWN, "norm1")]),
    (POST, {"first": "x + x"}, [("B30", TO_ITSELF, "norm1")]),
    (POST, {"second": "y + y"}, [("B30", TO_ITSELF, "norm2")]),
    (POST, {"first": "x + x", "second": "y + y"}, [("B30", TO_ITSELF, "")]),
    (POST, {"second": "y + a"}, [("B30", AGAIN, "")]),
    (PRE, {"first": "x"}, [("B30", THROWN, "norm1")]),
    (PRE, {"first": "x + h"}, [("B30", TO_ITSELF, "norm1")]),
    (PRE, {"second": "y + g"}, [("B30", TO_ITSELF, "norm2")]),
    (POST, {"second": "a + f"}, [("B23", BARE, "")]),
    (PRE, {"second": "a + f"}, [("B23", BARE, "")]),
    (POST, {"second": "x + y + f"}, [("B23", "the block's first input is added too", "")]),
    (PRE, {"second": "x + y + f"}, [("B23", "the block's first input is added too", "")]),
    (POST, {"given": "x"}, [("B23", f"{NETWORK} block's first input", "")]),
    (POST, {"given": "a"}, [("B23", f"{NETWORK} output of the attention, without residual and norm", "")]),
    (POST, {"first": "a - x", "second": "f - y"}, [("B23", "the input is subtracted", "")]),
    (POST, {"first": "x - a", "second": "y - f"}, []),
    (PRE, {"second": "y - f"}, []),
]


@pytest.mark.parametrize("body, other, named", ROWS, ids=[f"{'h = ' in row[0]} {row[1]}" for row in ROWS])
def test_sums_of_an_encoders_layer(body, other, named):
    cls = layer(blocks.EncoderLayer, "x, mask=None", body.format(**{**RIGHT_SUMS[body], **other}))
    diagnosis = found("EncoderLayer", cls, **SIZES, d_ff=17)
    assert mistakes(diagnosis) == named
    is_difference = any(" - " in term for term in other.values()) and not named
    assert [f.form for f in diagnosis.findings if f.severity == "harmless"] == (
        ["the sublayer's output is subtracted"] * is_difference
    )


DECODER = """
a = self.self_attn(x, x, x, mask)
y = self.norm1({first})
c = self.cross_attn(y, memory, memory, memory_mask)
z = self.norm2({second})
return self.norm3(z + self.feed_forward({given}))
"""
OF_DECODER = [
    ({}, []),
    ({"first": "x"}, [("B30", THROWN, "norm1")]),
    ({"second": "y"}, [("B30", THROWN, "norm2")]),
    ({"second": "y + y"}, [("B30", TO_ITSELF, "norm2")]),
    ({"second": "y + a"}, [("B30", AGAIN, "norm2")]),
    ({"second": "a + c"}, [("B23", BARE, "norm2")]),
    ({"second": "x + c"}, [("B23", OF_CROSS, "")]),
    ({"given": "c"}, [("B23", f"{NETWORK} output of the attention, without residual and norm", "")]),
]


@pytest.mark.parametrize("other, named", OF_DECODER, ids=[str(row[0]) for row in OF_DECODER])
def test_sums_of_a_decoders_layer(other, named):
    body = DECODER.format(**{"first": "x + a", "second": "y + c", "given": "z", **other})
    cls = layer(blocks.DecoderLayer, "x, memory, mask=None, memory_mask=None", body)
    assert mistakes(found("DecoderLayer", cls, **SIZES, d_ff=17)) == named


@pytest.mark.parametrize("sum_, named", [("x + norm(x + f(x))", "the input is added again after the norm"),
                                         ("norm(f(x) - x)", "the input is subtracted"),
                                         ("norm(x + x)", TO_ITSELF)])  # fmt: skip
def test_sums_of_a_residual_connection(sum_, named):
    def forward(self, x, sublayer):
        return eval(sum_, {"x": x, "norm": self.norm, "f": sublayer})

    cls = type("Residual", (blocks.Residual,), {"__init__": _build, "forward": forward})
    assert [form for id, form, _ in mistakes(found("ResidualConnection", cls, d_model=12))] == [named]


def _build(self, d_model):
    blocks.Residual.__init__(self, d_model, RIGHT)


# ---- The core ----


def core(scored, weighed):
    def attention(query, key, value, mask=None):
        of = {"q": query, "k": key, "v": value}
        scores = query @ of[scored].mT / query.shape[-1] ** 0.5
        scores = scores if mask is None else scores.masked_fill(~mask, -1e9)
        return scores.softmax(-1) @ of[weighed]

    return attention


class Projected(Attention):
    """Multi-head attention around a core."""

    def __init__(self, d_model, num_heads, attention):
        super().__init__({"d_model": d_model, "num_heads": num_heads}, RIGHT)
        self.attention = attention

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for w, x in ((self.w_q, query), (self.w_k, key), (self.w_v, value))
        )
        return self.w_o(self.attention(q, k, v, mask).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    "scored, weighed, form",
    [
        ("k", "v", None),
        ("v", "v", "the scores are products of queries and values"),
        ("k", "k", "the weights are multiplied with the keys"),
        ("v", "k", "keys and values are swapped after they were projected"),
    ],
)
def test_which_of_keys_and_values_the_core_takes(scored, weighed, form):
    named = [("A21", form, "")] if form else []
    attention = core(scored, weighed)
    assert mistakes(found("ScaledDotProductAttention", lambda: Around(attention))) == named
    assert mistakes(found("MultiheadAttention", Projected, **SIZES, attention=attention)) == named


def test_the_scores_of_queries_with_themselves_are_none_of_these():
    def attention(query, key, value, mask=None):
        return torch.softmax(query @ query.mT, -1) @ value

    diagnosis = found("ScaledDotProductAttention", lambda: Around(attention))
    assert diagnosis.verdict not in ("matches the builtin", "harmless deviation")


TOGETHER = ("bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd")


@pytest.mark.parametrize(
    "scores, output, form",
    [
        (*TOGETHER, None),
        (TOGETHER[0], "bhqk,bhvd->bhqd", "weights and values are summed each on its own"),
        ("bhqd,bhke->bhqk", TOGETHER[1], "queries and keys are summed each on its own"),
        ("bhqd,bhke->bhqk", "bhqk,bhvd->bhqd", "weights and values are summed each on its own"),
    ],
)
def test_two_letters_for_one_axis(scores, output, form):
    """Nor are heads that are all alike, or queries without a gradient, said besides."""

    def attention(query, key, value, mask=None):
        of_keys = torch.einsum(scores, query, key) / query.shape[-1] ** 0.5
        of_keys = of_keys if mask is None else of_keys.masked_fill(~mask, -1e9)
        return torch.einsum(output, of_keys.softmax(-1), value)

    named = [("A38", form, "")] if form else []
    assert mistakes(found("ScaledDotProductAttention", lambda: Around(attention))) == named
    assert mistakes(found("MultiheadAttention", Projected, **SIZES, attention=attention)) == named


@pytest.mark.parametrize("order, heads, is_alone", [
    ("batch first", 3, False), ("batch first", 1, True), ("sequence first", 3, True),
])  # fmt: skip
def test_what_may_attend_to_one_token_as_it_is_called_is_not_said_to_give_its_value_alone(order, heads, is_alone):
    def attention(query, key, value, mask=None):
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        return (weights[..., None] * value[..., None, :]).sum(-2)

    kind = KINDS["ScaledDotProductAttention"]
    plan = Plan({"query": "query", "key": "key", "value": "value"}, {}, {}, order)
    candidate = Resolved(kind, attention, kind.complete({"num_heads": heads}), plan)
    assert is_no_proof(candidate, RIGHT.with_({"summed": "own value"})) == is_alone
    assert not is_no_proof(candidate, RIGHT)


NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        y = self.up(x)
        y *= y > 0
        y = self.down(y)
        x += 0.5
        return y
"""


def test_what_changes_its_input_is_the_line_that_does(tmp_path):
    found = check_text(NETWORK, tmp_path)["FeedForward"]
    (named,) = found.mistakes
    assert (named.id, named.code[2].strip(), named.put) == ("A12", "x += 0.5", ["        x = x + 0.5"])  # not its own
    right = check_text(NETWORK.replace("        x += 0.5\n", ""), tmp_path)["FeedForward"]
    assert right.verdict == "matches the builtin" and not right.ids
