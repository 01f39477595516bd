"""A28: heads that share projections, or see a share of the features alone; and multi-query attention, a design."""

import pytest
from torch import nn

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.made import Made, variant
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.build import asked

pytestmark = pytest.mark.long

FORMS = {
    "v": "heads share the projection of the values, and not that of the keys",
    "k": "heads share the projection of the keys, and not that of the values",
    "qkv": "all heads are one and the same, with one set of weights",
}
DESIGN = "heads share those of keys and values: multi-query attention, a design"
SMALL = "each head has a small matrix, which sees the head's own share of the features alone"


class OneHead(Made):
    """Its heads have one and the same projection of some roles, as a layout of one head makes it."""

    roles = ""

    def load(self, state):
        own = {n: v.unflatten(0, (3, -1))[:1] for n, v in state.items() if n[2] in self.roles}
        return super().load({**state, **{n: v.repeat_interleave(3, 0).flatten(0, 1) for n, v in own.items()}})


@pytest.mark.parametrize("roles", ["", "v", "k", "qkv", "kv"])
@pytest.mark.parametrize("kind", ["MultiheadAttention", "SelfAttention", "CrossAttention"])
def test_heads_that_share_projections(roles, kind):
    def build(**settings):
        return KINDS[kind].build(settings, RIGHT)

    candidate = type("Of", (OneHead,), {"roles": roles})(kind, build, d_model=12, num_heads=3)
    diagnosis = diagnose(candidate)
    named = {f.form: f.severity for f in diagnosis.findings if f.mistake.id == "A28"}
    assert named == ({DESIGN: "note"} if roles == "kv" else {FORMS[roles]: "mistake"} if roles else {})
    assert (diagnosis.verdict == "mistake") == (roles in FORMS)


# ---- As learners write it ----

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_k, self.w_v = nn.Linear(d_model, KEYS * self.d_k), nn.Linear(d_model, VALUES * self.d_k)

    def split(self, x):
        return x.view(len(x), x.shape[1], -1, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.split(self.w_q(query)), self.split(self.w_k(key)), self.split(self.w_v(value))
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).reshape(query.shape))
"""
LISTED = """
class Head(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d_model, d_k), nn.Linear(d_model, d_k), nn.Linear(d_model, d_k)

    def forward(self, x, mask=None):
        scores = self.q(x) @ self.k(x).mT / self.q(x).shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(-1) @ self.v(x)


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.heads = nn.ModuleList(HEADS)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        return self.out(torch.cat([head(x, mask) for head in self.heads], -1))
"""
PACKED = """
        self.qkv = nn.Linear(d_model, 3 * d_k)

    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, -1)).unbind(-2)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(-1) @ v

"""
CROSS = """
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.d_k = num_heads, d_model // num_heads
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, memory, mask=None):
        q, kv = OF_HEADS
        k, v = kv.transpose(1, 2).chunk(2, -1)
        scores = q.transpose(1, 2) @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
APART = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.d_k = d_model // num_heads
        self.q = nn.ModuleList(nn.Linear(self.d_k, self.d_k) for _ in range(num_heads))
        self.k = nn.ModuleList(nn.Linear(self.d_k, self.d_k) for _ in range(num_heads))
        self.v = nn.ModuleList(nn.Linear(self.d_k, self.d_k) for _ in range(num_heads))
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        heads = []
        for own, q, k, v in zip(x.split(self.d_k, -1), self.q, self.k, self.v):
            scores = q(own) @ k(own).mT / self.d_k**0.5
            if mask is not None:
                scores = scores.masked_fill(mask == 0, -1e9)
            heads.append(scores.softmax(-1) @ v(own))
        return self.out(torch.cat(heads, -1))
"""
BEFORE = "self.q(x.unflatten(-1, (self.h, -1))), self.kv(memory.unflatten(-1, (self.h, -1)))"
AFTER = "self.q(x).unflatten(-1, (self.h, -1)), self.kv(memory).unflatten(-1, (self.h, -1))"


def forms(text, name, tmp_path):
    result = check_text(text, tmp_path)[name]
    return {named.form: named.severity for named in result.mistakes if named.id == "A28"}, result.verdict


@pytest.mark.parametrize(
    "keys, values, form",
    [("self.h", "1", FORMS["v"]), ("1", "self.h", FORMS["k"]), ("1", "1", DESIGN), ("self.h", "self.h", "")],
)
def test_fewer_heads_of_keys_or_values(keys, values, form, tmp_path):
    text = ATTENTION.replace("KEYS", keys).replace("VALUES", values)
    if keys == values:
        assert forms(text, "MultiHeadAttention", tmp_path)[0] == ({DESIGN: "note"} if form else {})
    else:
        assert forms(text, "MultiHeadAttention", tmp_path) == ({form: "mistake"}, "mistake")


@pytest.mark.parametrize(
    "heads, form",
    [
        ("[Head(d_model, d_model // num_heads)] * num_heads", FORMS["qkv"]),
        ("Head(d_model, d_model // num_heads) for _ in range(num_heads)", ""),
    ],
)
def test_a_list_of_one_head(heads, form, tmp_path):
    named, verdict = forms(LISTED.replace("HEADS", heads), "MultiHeadSelfAttention", tmp_path)
    assert (named, verdict == "mistake") == ({form: "mistake"} if form else {}, bool(form))


@pytest.mark.parametrize("order", ["q, k, v", "k, q, v"])
@pytest.mark.parametrize("last, ids", [("softmax(-1) @ v", []), ("softmax(-2) @ v", ["A2"])])
def test_a_list_of_heads_with_one_matrix_each(order, last, ids, tmp_path):
    made, _, rest = LISTED.replace("HEADS", "Head(d_model, d_model // num_heads) for _ in range(num_heads)").partition(
        "        self.q, self.k"
    )
    packed = PACKED.strip("\n").replace("q, k, v =", f"{order} =").replace("softmax(-1) @ v", last)
    text = f"{made}{packed}\n\n\nclass MultiHead{rest.partition('class MultiHead')[2]}"
    result = check_text(text, tmp_path)["MultiHeadSelfAttention"]
    assert [*(named.id for named in result.mistakes if named.severity == "mistake"), *result.inherited] == ids
    assert (result.verdict in FINE) == (not ids)


@pytest.mark.parametrize("width, of_heads, form", [("self.d_k", BEFORE, {"": "mistake"}), ("d_model", AFTER, {})])
def test_small_matrices_in_one(width, of_heads, form, tmp_path):
    text = CROSS.replace("WIDTH", width).replace("OF_HEADS", of_heads)
    named, verdict = forms(text, "CrossAttention", tmp_path)
    assert (named, verdict == "mistake") == (form, bool(form))


def test_a_small_matrix_for_each_head(tmp_path):
    assert forms(APART, "SelfAttention", tmp_path) == ({SMALL: "mistake"}, "mistake")


OUTSIDE = """
width, head_size = 32, 8

class Head(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.head_size = head_size
        self.key, self.query, self.value = (nn.Linear(width, head_size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(64, 64)))

    def forward(self, x):
        T = x.shape[1]
        scores = self.query(x) @ self.key(x).transpose(-2, -1) * SIZE**-0.5
        scores = scores.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return F.softmax(scores, dim=-1) @ self.value(x)
"""


@pytest.mark.parametrize("size", ["self.head_size", "head_size"])
def test_a_width_that_is_none_of_its_own(tmp_path, size):
    """forward reads the file's number, though the constructor is told another of the same name."""
    (head,) = check_text(OUTSIDE.replace("SIZE", size), tmp_path).values()
    named = {f.id: f.form for f in head.mistakes if f.severity == "mistake"}
    assert named == ({} if size != "head_size" else {"A1": "divided by the root of a number outside of the class"})


@pytest.mark.parametrize("handed_on, is_one", [("", True), ("**options", False)])
def test_one_head_may_be_told_what_it_does_not_read(handed_on, is_one):
    text = f"""
class Base(nn.Module):
    def __init__(self, **options):
        super().__init__()

class Head(Base):
    def __init__(self, d_model, d_k, is_masked=False, **options):
        super().__init__({handed_on})
        self.q = nn.Linear(d_model, d_k)
"""
    namespace = {"nn": nn, "__name__": __name__}
    exec(text, namespace)
    assert asked.is_one_head(namespace["Head"]) == is_one


REPEATED = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, d_k = num_heads, d_model // num_heads
        self.query, self.key, self.value = (nn.Linear(d_model, d_k) for _ in range(3))
        self.out = nn.Linear(d_model, d_model)

    def one(self, q, k, v):
        return (q @ k.transpose(-2, -1) / math.sqrt(SIZE)).softmax(-1) @ v

    def forward(self, x, y):
        q, k, v = self.query(x), self.key(y), self.value(y)
        return self.out(torch.cat([self.one(q, k, v) for _ in range(self.h)], dim=2))
"""


@pytest.mark.parametrize("size, ids", [("k.shape[-1]", ["A28"]), ("q.shape[-1] * self.h", ["A1", "A28"])])
def test_heads_that_are_one_head_over_and_over(size, ids, tmp_path):
    result = check_text(REPEATED.replace("SIZE", size), tmp_path)["MultiHeadAttention"]
    assert sorted(mistake.id for mistake in result.mistakes if mistake.severity == "mistake") == ids, result


NEVER_CUT = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads, self.fused = num_heads, hasattr(F, "scaled_dot_product_attention")
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
            scores = scores.masked_fill(torch.ones(T, T).tril() == 0, float("-inf"))
            y = torch.softmax(scores, -1) @ v
        return self.proj(y.transpose(1, 2).reshape(B, T, C))
"""


def test_heads_that_are_never_cut_and_merged_all_the_same_are_one_mistake(tmp_path):
    """What merges them is right as soon as they are cut; where their number is asked for, that is what is ignored."""
    for merge in ("heads", "features first"):
        settings = {"d_model": 12, "num_heads": 3}
        diagnosis = diagnose(variant("CausalSelfAttention", settings, split="not at all", merge=merge))
        assert [f.mistake.id for f in diagnosis.findings if f.severity == "mistake"] == ["A13"]
    result = check_text(NEVER_CUT, tmp_path)["CausalSelfAttention"]
    assert result.severe == ["B29"]


def test_a_line_that_is_never_run_is_not_shown(tmp_path):
    cut = "split(C, dim=2)\n        q, k, v = (t.view(B, T, self.num_heads, -1).transpose(1, 2) for t in (q, k, v))"
    text = NEVER_CUT.replace("split(C, dim=2)", cut).replace("v, is_causal=True)", "v, is_causal=True, scale=C**-0.5)")
    (found,) = (one for one in check_text(text, tmp_path)["CausalSelfAttention"].mistakes if one.id == "A1")
    assert "scaled_dot_product_attention" in found.code[2]


JOINED_AND_PROJECTED = """
class Head(nn.Module):
    def __init__(self, d_model, size, longest):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(d_model, size) for _ in range(3))
        self.register_buffer("lower", torch.tril(torch.ones(longest, longest)))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / math.sqrt(self.query.out_features)
        scores = scores.masked_fill(self.lower[: x.shape[1], : x.shape[1]] == 0, float("-inf"))
        return F.softmax(scores, dim=-1) @ self.value(x)


class MultiHeadAttentionProjection(nn.Module):
    def __init__(self, d_model, num_heads, longest):
        super().__init__()
        assert d_model % num_heads == 0
        self.heads = nn.ModuleList(Head(d_model, d_model // num_heads, longest) for _ in range(num_heads))
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))
"""


def test_heads_that_are_joined_and_projected_are_no_projection(tmp_path):
    """Whatever their name ends in: its heads hide the future, and so does the whole."""
    result = check_text(JOINED_AND_PROJECTED, tmp_path)["MultiHeadAttentionProjection"]
    assert result.verdict in FINE and result.kind == "CausalSelfAttention"


OF_ARRAYS = """
class Head:
    def __init__(self, size):
        self.W_q, self.W_k, self.W_v = (np.random.normal(0, 0.3, (size, size)) for _ in range(3))

    def forward(self, x, mask=None):
        q, k, v = np.dot(x, self.W_q), np.dot(x, self.W_k), np.dot(x, self.W_v)
        scores = q @ k.T / np.sqrt(q.shape[-1])
        if mask is not None:
            scores = np.where(mask == 0, -np.inf, scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v


class MultiHeadAttention:
    def __init__(self, d_model, num_heads):
        assert d_model % num_heads == 0
        self.num_heads, self.size = num_heads, d_model // num_heads
        self.heads = [Head(self.size) for _ in range(num_heads)]
        self.W_o = np.random.normal(0, 0.3, (d_model, d_model))

    def forward(self, x, mask=None):
        parts = x.reshape(len(x), self.num_heads, self.size)
        outputs = [head.forward(parts[:, i], mask) for i, head in enumerate(self.heads)]
        return np.concatenate(outputs, axis=-1) @ self.W_o
"""


def test_matrices_of_ones_own_may_be_kept_either_way_round(tmp_path):
    found = check_text("import numpy as np\n" + OF_ARRAYS, tmp_path)["MultiHeadAttention"]
    assert (found.verdict, found.severe) == ("mistake", ["A28"])


CUT_ONE_BY_ONE = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        B = query.size(0)
        q = self.w_q(query).view(B, -1, self.num_heads, self.d_k).transpose(1, 2)
        k = self.w_k(key).view(B, -1, self.num_heads, self.d_k).transpose(1, 2)
        v = self.w_v(value).view(B, -1, self.num_heads, self.d_k).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -math.inf)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, -1, self.num_heads * self.d_k))
"""


@pytest.mark.parametrize("line, which", [(9, "queries"), (10, "keys"), (11, "values")])
def test_one_of_three_whose_heads_are_split_by_view_alone(line, which, tmp_path):
    lines = CUT_ONE_BY_ONE.splitlines()
    lines[line] = lines[line].replace("-1, self.num_heads", "self.num_heads, -1").replace(".transpose(1, 2)", "")
    result = check_text("\n".join(lines), tmp_path)["MultiHeadAttention"]
    assert result.severe == ["A13"] and not result.unexplained
    (found,) = (mistake for mistake in result.mistakes if mistake.id == "A13")
    assert found.form == f"the {which} alone"
    assert lines[line].strip() in found.code[2], (found.where, found.code)
