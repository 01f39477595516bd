"""Three mistakes and more in one attention, each of which hides the others."""

import pytest

from reference_tests.kit.learners.checked import MORE, check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        assert d_model % n_heads == 0
        self.d_k = d_model // n_heads
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model) for _ in range(3))
        OUT

    def forward(self, q, k, v, mask=None):
        B, T, D = q.shape
        q, k, v = (w(x).view(B, -1, self.h, self.d_k).transpose(1, 2)
                   for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v)))
        scores = q @ k.transpose(-2, -1) SCALED
        if mask is not None:
            scores = scores.masked_fill(mask == 0, FILLED)
        out = torch.softmax(scores, dim=AXIS) @ v
        return PROJECTED(MERGED.reshape(B, T, D))
"""
RIGHT = {
    "OUT": "self.w_o = nn.Linear(d_model, d_model)", "SCALED": "/ math.sqrt(self.d_k)", "FILLED": 'float("-inf")',
    "AXIS": "-1", "PROJECTED": "self.w_o", "MERGED": "out.transpose(1, 2)",
}  # fmt: skip
BARE = {"OUT": "", "PROJECTED": ""}
UNSCALED, POSITIVE, OF_QUERIES = {"SCALED": ""}, {"FILLED": "1e9"}, {"AXIS": "-2"}
NOT_BACK = {"MERGED": "out"}


@pytest.mark.parametrize(
    "changes, ids",
    [
        ({}, set()),
        (UNSCALED | OF_QUERIES | POSITIVE, {"A1", "A2", "A4"}),
        (UNSCALED | OF_QUERIES | POSITIVE | BARE, {"A1", "A2", "A4"}),
        (UNSCALED | OF_QUERIES | POSITIVE | NOT_BACK, {"A1", "A2", "A4", "A23"}),
        (UNSCALED | OF_QUERIES | NOT_BACK, {"A1", "A2", "A23"}),
    ],
    ids=["right", "three", "three, and no projection", "four", "three of them without masks"],
)
def test_each_is_named(changes, ids, tmp_path):
    text = ATTENTION
    for place, code in {**RIGHT, **changes}.items():
        text = text.replace(place, code)
    with time_to_look(MORE):
        result = check_text(text, tmp_path)["MultiHeadAttention"]
    assert {one.id for one in result.mistakes if one.severity == "mistake"} == ids, result
    assert (result.verdict in FINE) == (not ids)
    assert any("no output projection" in limit for limit in result.limits) == (changes.get("OUT") == "")


TURNED = """
def rotary_table(length, dim):
    i = torch.arange(dim // 2)
    angles = torch.outer(torch.arange(length), 10000.0 ** (-2 * EXPONENT / dim))
    return torch.cos(angles), torch.sin(angles)


def rotate(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((FIRST, SECOND), dim=-1).flatten(-2)


class CausalAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.h, self.d_k = n_heads, d_model // n_heads
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.q(x), self.k(x), self.v(x)
        BEFORE
        q, k, v = (y.view(B, T, self.h, self.d_k).transpose(1, 2) for y in (q, k, v))
        AFTER
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        hidden = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), 1)
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
        return self.out((weights @ v).transpose(1, 2).reshape(B, T, D))
"""
BOTH = "q, k = (rotate(y, *rotary_table(T, SIZE)) for y in (q, k))"
ALL = "q, k, v = (rotate(y, *rotary_table(T, SIZE)) for y in (q, k, v))"
FORWARD = {"FIRST": "a * cos - b * sin", "SECOND": "a * sin + b * cos"}
IN_HEADS = {**FORWARD, "BEFORE": "", "AFTER": BOTH, "SIZE": "self.d_k", "EXPONENT": "i"}
BACKWARD = {"FIRST": "a * cos + b * sin", "SECOND": "b * cos - a * sin"}
SKEWED = {"FIRST": "a * cos + b * sin", "SECOND": "a * sin + b * cos"}
AT_ONCE = {"BEFORE": ALL, "AFTER": "", "SIZE": "D"}


@pytest.mark.parametrize(
    "changes, ids",
    [
        ({}, set()),
        ({"EXPONENT": "(i - 1)", "AFTER": ALL}, {"R2", "R3"}),
        (AT_ONCE | BACKWARD, {"R3", "R7", "R8"}),
        (AT_ONCE | BACKWARD | {"EXPONENT": "(i - 1)"}, {"R2", "R3", "R7", "R8"}),
        (AT_ONCE | SKEWED | {"EXPONENT": "2 * i"}, {"R2", "R3", "R6", "R8"}),
    ],
    ids=["right", "two", "three", "four", "four others"],
)
def test_each_of_its_rotation_is_named(changes, ids, tmp_path):
    text = TURNED
    for place, code in {**IN_HEADS, **changes}.items():
        text = text.replace(place, code)
    with time_to_look(MORE):
        result = check_text(text, tmp_path)["CausalAttention"]
    named = {*(one.id for one in result.mistakes), *result.inherited}
    assert {id for id in named if id.startswith("R")} == ids, result
    assert not result.unexplained and result.verdict != "unknown mismatch"


ROTARY = """
class Rotary(nn.Module):
    def __init__(self, dim, max_len=64BY_DEFAULT):
        super().__init__()
        angles = torch.arange(FIRST, max_len + FIRST)[:, None] / BASE ** (EXPONENT / dim)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x):
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos MINUS b * sin, b * cos PLUS a * sin), -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.rotary = heads, Rotary(dim // heads)
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = self.rotary(q), self.rotary(k)
        return self.o(((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
TWOS = "torch.arange(0, dim, 2)"
PLAIN = {"BY_DEFAULT": "", "FIRST": "0", "BASE": "10000", "EXPONENT": TWOS, "MINUS": "-", "PLUS": "+"}
OTHER_WAY, ODD = {"MINUS": "+", "PLUS": "-"}, {"EXPONENT": f"({TWOS} + 1)"}
FROM_1, BESIDES = {"FIRST": "1"}, {"R7": "", "R9": "counted from 1"}
SMALL, ONE_MORE = "its base is 10, not 10,000", "2i + 1 in the exponent in place of 2i"


@pytest.mark.parametrize(
    "changes, forms",
    [
        ({"BASE": "500000"}, {}),
        ({"BASE": "10"}, {"R2": SMALL}),
        ({"BASE": "base", "BY_DEFAULT": ", base=10"}, {"R2": SMALL}),
        (ODD, {"R2": ONE_MORE}),
        ({"EXPONENT": f"({TWOS} - 1)"}, {"R2": "2i - 1 in the exponent in place of 2i"}),
        ({"EXPONENT": f"2 * {TWOS} / 8"}, {"R2": "the exponent is multiplied by 1/4"}),
        ({"EXPONENT": f"2 * 1.5 * {TWOS}"}, {"R2": "the exponent is multiplied by 3"}),
        (FROM_1 | OTHER_WAY | {"EXPONENT": f"2 * {TWOS}"}, {"R2": "the exponent is doubled", **BESIDES}),
        (FROM_1 | OTHER_WAY | ODD | {"BASE": "10"}, {"R2": f"{SMALL}; {ONE_MORE}", **BESIDES}),
    ],
)  # fmt: skip
def test_each_of_the_angles_is_named(changes, forms, tmp_path):
    text = ROTARY
    for place, code in {**PLAIN, **changes}.items():
        text = text.replace(place, code)
    results = check_text(text, tmp_path)
    rotary, attention = results["Rotary"], results["Attention"]
    named = {one.id: one.form for one in rotary.mistakes}
    assert named == {**forms, **({"R9": "counted from 1"} if "R9" in forms else {})}, rotary
    is_severe = ("BASE" in changes and changes["BASE"] != "500000") or "2 *" in changes.get("EXPONENT", "")
    assert (rotary.verdict == "mistake") == is_severe, rotary
    assert attention.verdict != "unknown mismatch" and {*forms} <= {*attention.inherited, *attention.ids}, attention
