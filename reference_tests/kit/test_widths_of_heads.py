"""A head that is told its width by any name, and is built as wide as its model, tells √d_k from √d_model (A1)."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

HEAD = """
class Head(nn.Module):
    def __init__(self, SIZES):
        super().__init__()
        self.sizes, self.dropout = (SIZES), nn.Dropout(0.1)
        self.q, self.k, self.v = (nn.Linear(SIZES) for _ in range(3))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT * SCALE**-0.5
        return self.dropout(scores.softmax(-1)) @ self.v(x)
"""
PACKED = """
class Head(nn.Module):
    def __init__(self, SIZES):
        super().__init__()
        self.sizes = SIZES
        self.qkv = nn.Linear(self.sizes[0], 3 * self.sizes[1], bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return (q @ k.mT * SCALE**-0.5).softmax(-1) @ v
"""
WITH_AN_OUTPUT = """
class Head(nn.Module):
    def __init__(self, SIZES, drop=0.0):
        super().__init__()
        self.sizes = SIZES
        self.q, self.k, self.v = (nn.Parameter(torch.randn(SIZES)) for _ in range(3))
        self.out = nn.Linear(self.sizes[1], self.sizes[0])

    def forward(self, x):
        return self.out(((x @ self.q) @ (x @ self.k).mT * SCALE**-0.5).softmax(-1) @ (x @ self.v))
"""


@pytest.mark.parametrize("text, sizes", [
    (HEAD, "d_model, dim_out"), (HEAD, "embed_dim, width"), (HEAD, "d_model, proj_dim"), (HEAD, "in_dim, out_dim"),
    (HEAD, "d_model, d"), (PACKED, "dim, dim_out"), (WITH_AN_OUTPUT, "emb_size, attn_dim"),
])  # fmt: skip
def test_a_head_is_built_narrower_than_its_model_whatever_its_width_is_called(text, sizes, tmp_path):
    results = {}
    for scale in ("self.sizes[1]", "self.sizes[0]", "x.shape[-1]"):
        results[scale] = check_text(text.replace("SIZES", sizes).replace("SCALE", scale), tmp_path)["Head"]
    right, *wrong = results.values()
    assert right.verdict in FINE and "A1" not in right.ids, right
    assert all("A1" in one.ids and one.verdict == "mistake" for one in wrong), wrong
    assert "divides the scores of a head of 5 features by √12" in str(wrong), wrong


def test_a_number_that_makes_nothing_narrower_is_no_width(tmp_path):
    one = HEAD.replace("def __init__(self, SIZES)", "def __init__(self, dim, places, width=None)")
    one = one.replace("SIZES", "dim, dim").replace("SCALE", "self.sizes[0]")
    result = check_text(one, tmp_path)["Head"]
    assert result.verdict in FINE and "A1" not in result.ids, result


SEVERAL = """
class Attention(nn.Module):
    def __init__(self, dim, width, heads):
        super().__init__()
        assert width % heads == 0
        self.h, self.d = heads, width // heads
        self.q, self.k, self.v = (nn.Linear(dim, width) for _ in range(3))
        self.out = nn.Linear(width, dim)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (f(x).view(B, T, self.h, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = (q @ k.mT / math.sqrt(self.d)).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(B, T, -1))
"""
IN_ONE = SEVERAL.replace(
    "self.q, self.k, self.v = (nn.Linear(dim, width) for _ in range(3))", "self.qkv = nn.Linear(dim, 3 * width)"
)
IN_ONE = IN_ONE.replace("(f(x).view(B", "(y.view(B").replace(
    "for f in (self.q, self.k, self.v)", "for y in self.qkv(x).chunk(3, -1)"
)


ADDED = SEVERAL.replace("return self.out(", "return self.norm(x + self.out(").replace("(B, T, -1))", "(B, T, -1)))")
ADDED = ADDED.replace("self.out = ", "self.norm, self.out = nn.LayerNorm(dim), ")


MATRICES = """
class Attention(nn.Module):
    def __init__(self, d_in, d_out, heads):
        super().__init__()
        self.h, self.d, self.d_out = heads, d_out // heads, d_out
        self.q, self.k, self.v = (nn.Parameter(torch.randn(d_in, d_out)) for _ in range(3))
        self.out = nn.Linear(d_out, d_out)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (torch.einsum("btc,cd->btd", x, w) for w in (self.q, self.k, self.v))
        q, k, v = (y.view(B, T, self.h, self.d).transpose(1, 2) for y in (q, k, v))
        weights = (q @ k.mT / math.sqrt(self.d)).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(B, T, self.d_out))
"""
"""Of tokens of another width, d_in, its matrices have as many numbers as if it made others of them."""


@pytest.mark.parametrize("text", [
    MATRICES,
    SEVERAL, IN_ONE, ADDED, SEVERAL.replace("nn.Linear(width, dim)", "nn.Linear(width, width)"),
    SEVERAL.replace("dim, width, heads", "dim, heads").replace("width", "dim"),
    SEVERAL.replace("assert width % heads == 0", "assert width % heads == 0 and width == dim"),
    ADDED.replace("nn.Linear(width, dim)", "nn.Linear(width, width)"),
])  # fmt: skip
def test_heads_that_are_cut_from_another_width_raise_no_alarm(text, tmp_path):
    result = check_text(text, tmp_path)["Attention"]
    assert result.verdict in FINE and not {"A1", "B26"} & {*result.ids}, result


AS_TOKENS = "fits only where width is as wide as its tokens"


@pytest.mark.parametrize("text, old, new, id, said", [
    (SEVERAL, "math.sqrt(self.d)", "math.sqrt(C // self.h)", "A1", "heads of 2 features by √4 too"),
    (IN_ONE, "math.sqrt(self.d)", "math.sqrt(C // self.h)", "A1", "heads of 2 features by √4 too"),
    (SEVERAL, "heads, width // heads", "heads, dim // heads", "B26", AS_TOKENS),
    (SEVERAL, "reshape(B, T, -1)", "reshape(B, T, C)", "B26", AS_TOKENS),
])  # fmt: skip
def test_what_shows_with_another_width_alone_is_named(text, old, new, id, said, tmp_path):
    assert old in text
    result = check_text(text.replace(old, new), tmp_path)["Attention"]
    assert [one.id for one in result.mistakes if one.severity == "mistake"] == [id], result
    assert said in " ".join(str(result).split())


APART = """
class Attention(nn.Module):
    def __init__(self, heads, dim, dim_keys, dim_values):
        super().__init__()
        self.dim_keys = dim_keys
        self.query, self.key = (nn.Parameter(torch.randn(heads, dim, dim_keys)) for _ in range(2))
        self.value = nn.Parameter(torch.randn(heads, dim, dim_values))
        self.out = nn.Parameter(torch.randn(heads * dim_values, dim))

    def forward(self, queries, keys, values):
        q, k, v = queries[:, None] @ self.query, keys[:, None] @ self.key, values[:, None] @ self.value
        weights = (q @ k.mT / math.sqrt(SCALE)).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2) @ self.out
"""


@pytest.mark.parametrize("scale, ids", [("self.dim_keys", []), ("queries.size(-1) / 3 * 4", ["A1"])])
def test_values_of_a_width_of_their_own_change_no_scale(scale, ids, tmp_path):
    result = check_text(APART.replace("SCALE", scale), tmp_path)["Attention"]
    assert result.severe == ids, result


TOLD = """
class Attention(nn.Module):
    def __init__(self, D=512, head_dim=64):
        super().__init__()
        self.head_dim = head_dim
        assert D % self.head_dim == 0
        self.heads = D // self.head_dim
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        B, S, D = x.shape
        q, k, v = (f(x).view(B, S, self.heads, -1).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        weights = F.softmax(torch.einsum("bhid,bhjd->bhij", q, k) / SCALE, dim=-1)
        return self.wo((weights @ v).transpose(1, 2).reshape(B, S, D))
"""


@pytest.mark.parametrize("scale, ids", [("self.head_dim**0.5", []), ("D**0.5", ["A1"])])
def test_a_width_of_heads_by_which_the_models_is_divided_is_no_number_of_heads(scale, ids, tmp_path):
    with time_to_look(1):
        result = check_text(TOLD.replace("SCALE", scale), tmp_path)["Attention"]
    assert result.severe == ids and result.verdict in (FINE if not ids else ["mistake"]), result


NEARLY = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d_k = num_heads, d_model // num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        B, T, C = q.shape
        q, k, v = (f(x).view(B, -1, self.h, self.d_k).transpose(1, 2)
                   for f, x in ((self.wq, q), (self.wk, k), (self.wv, v)))
        scores = q @ k.mT / (math.sqrt(self.d_k) + SMALL)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))
"""


@pytest.mark.parametrize("small, ids", [("1e-8", []), ("1e-6", []), ("1e-2", ["A1"])])
def test_a_small_number_beside_the_root_is_no_other_scale(small, ids, tmp_path):
    with time_to_look(1):
        result = check_text(NEARLY.replace("SMALL", small), tmp_path)["Attention"]
    assert result.severe == ids and result.verdict in (FINE if not ids else ["mistake"]), result
