"""Attention with two ways, torch's fused one and its own: the one that a flag leaves out is judged as well."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

ATTENTION = """
CONSTANT
class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0, "dim must be a multiple of heads"
        self.h = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        SET

    def forward(self, x, mask=NoneTAKEN):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        if ASKED:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=GIVEN)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            if mask is not None:
                scores = FILLED
            y = scores.softmax(-1) @ v
        return self.o(y.transpose(1, 2).flatten(2))
"""
FILLED, ADDED = "scores.masked_fill(mask == 0, -math.inf)", "scores + mask"
AS_NUMBERS, AS_BOOLEANS = ("None if mask is None else mask.float()", "None if mask is None else mask.bool()")
WAYS = {
    "kept": {"SET": "self.fast = True", "ASKED": "self.fast"},
    "not kept": {"SET": "self.slow = False", "ASKED": "not self.slow"},
    "of forward": {"TAKEN": ", need_weights=False", "ASKED": "not need_weights"},
    "of the file": {"CONSTANT": "FAST = True", "ASKED": "FAST"},
    "one of two": {"SET": "self.fast = False", "ASKED": "self.fast and x.shape[1] > 0"},
}
NOTHING = {"CONSTANT": "", "SET": "pass", "TAKEN": ""}


def attention(way, given, filled, text=ATTENTION):
    for name, put in {**NOTHING, **WAYS[way], "GIVEN": given, "FILLED": filled}.items():
        text = text.replace(name, put)
    return text


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("given, filled, ids", [
    (AS_NUMBERS, FILLED, ["A16"]), ("mask", ADDED, []), (AS_BOOLEANS, FILLED, []), ("mask", FILLED, []),
])  # fmt: skip
def test_a_mask_is_taken_by_both_ways(way, given, filled, ids, tmp_path):
    result = check_text(attention(way, given, filled), tmp_path)["Attention"]
    assert result.severe == ids, result
    fused = next(n for n, line in enumerate((tmp_path / "learner.py").read_text().split("\n"), 1) if "F.scaled" in line)
    assert all(one.line == fused for one in result.mistakes if one.id in ids), result


SELF_MADE = """
class Causal(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0, "dim must be a multiple of heads"
        self.h, self.fused = heads, FUSED
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def fast(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, vFLAG)

    def slow(self, q, k, v):
        scores = q @ k.mTSCALED
        future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
        return scores.masked_fill(future, -math.inf).softmax(-1) @ v

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = self.fast(q, k, v) if self.fused else self.slow(q, k, v)
        return self.o(y.transpose(1, 2).flatten(2))
"""
OF_CAUSAL = [
    (", is_causal=True", " / math.sqrt(q.shape[-1])", "True", {}),
    (", is_causal=True", "", "True", {"A1": "not scaled, with self.fused = False"}),
    ("", " / math.sqrt(q.shape[-1])", "False", {"A25": "with self.fused = True"}),
]


@pytest.mark.parametrize("flag, scaled, fused, forms", OF_CAUSAL)
def test_what_else_one_way_forgets(flag, scaled, fused, forms, tmp_path):
    text = SELF_MADE.replace("FLAG", flag).replace("SCALED", scaled).replace("FUSED", fused)
    result = check_text(text, tmp_path)["Causal"]
    assert {one.id: one.form for one in result.mistakes if one.severity == "mistake"} == forms, result


def test_a_flag_that_asks_for_other_numbers_is_none_of_this(tmp_path):
    """What hides the future by a flag, and does not without, is judged as it is built."""
    text = SELF_MADE.replace("FLAG", ", is_causal=True").replace("SCALED", " / math.sqrt(q.shape[-1])")
    text = text.replace(".masked_fill(future, -math.inf)", "").replace("self.fused", "self.causal")
    assert check_text(text.replace("FUSED", "True"), tmp_path)["Causal"].severe == []
