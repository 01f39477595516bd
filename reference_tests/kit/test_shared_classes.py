"""One class for several uses: projections of any sort, attention of either, and what is not what its name says."""

import importlib

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.names.roles import role_of

PROJECTING = """
class Project(nn.Module):
    def __init__(self, d_model, num_heads, letters="qkv"):
        super().__init__()
        self.letters, self.num_heads = letters, num_heads
        self.qkv_linear = nn.Linear(d_model, d_model * len(letters))

    def forward(self, x):
        parts = self.qkv_linear(x).chunk(len(self.letters), dim=-1)
        return [part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts]


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, crosses=False):
        super().__init__()
        assert d_model % num_heads == 0
        self.crosses = crosses
        if crosses:
            self.q_layer, self.kv_layer = Project(d_model, num_heads, "q"), Project(d_model, num_heads, "kv")
        else:
            self.qkv_layer = Project(d_model, num_heads)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, memory=None, mask=None):
        q, k, v = (*self.q_layer(x), *self.kv_layer(memory)) if self.crosses else self.qkv_layer(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.own, self.other = MultiHeadAttention(d_model, num_heads), MultiHeadAttention(d_model, num_heads, True)
        self.network = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, mask, memory_mask):
        x = self.norm1(x + self.own(x, mask=mask))
        x = self.norm2(x + self.other(x, memory, memory_mask))
        return LAST
"""


def test_a_class_that_projects_anything_is_told_apart_by_where_it_is():
    paths = ("q_layer.qkv_linear.weight", "kv_layer.qkv_linear.bias", "attn.qkv_layer.qkv_linear.weight")
    assert [role_of(path) for path in paths] == ["q", "kv", "qkv"]


@pytest.mark.parametrize(
    "last, id", [("self.norm3(x + self.network(x))", ""), ("x + self.norm3(self.network(x))", "B3")]
)
@pytest.mark.long
def test_a_layer_whose_attentions_are_projected_by_one_class(last, id, tmp_path):
    result = check_text(PROJECTING.replace("LAST", last), tmp_path)["DecoderLayer"]
    assert result.severe == [id] * bool(id)
    assert (result.verdict in FINE) == (not id), result


HEADS = """
class SelfAttention(nn.Module):
    def __init__(self, d_in, d_UNSAID, d_v):
        super().__init__()
        self.width = d_UNSAID
        self.q, self.k = nn.Parameter(torch.randn(d_in, d_UNSAID)), nn.Parameter(torch.randn(d_in, d_UNSAID))
        self.v = nn.Parameter(torch.randn(d_in, d_v))

    def forward(self, x, mask=None):
        scores = (x @ self.q) @ (x @ self.k).transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(mask.bool(), -torch.inf)
        return (scores / SCALE).softmax(-1) @ (x @ self.v)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_UNSAID, d_v, n_heads, attn_type):
        super().__init__()
        if attn_type == "self":
            self.heads = nn.ModuleList([SelfAttention(d_in, d_UNSAID, d_v) for _ in range(n_heads)])
        else:
            raise ValueError("attn_type should be 'self'.")

    def forward(self, x, mask=None):
        return torch.cat([head(x, mask) for head in self.heads], dim=-1)
"""


@pytest.mark.parametrize("unsaid, scale, ids", [
    ("kq", "self.width**0.5", [[], []]),
    ("other", "self.width**0.5", [[], []]),  # no width of a head by its name: the values alone are made narrower
    ("kq", "x.shape[-1]**0.5", [["A1"], ["A1"]]),
])  # fmt: skip
@pytest.mark.long
def test_queries_may_be_told_another_width_than_values(unsaid, scale, ids, tmp_path):
    results = check_text(HEADS.replace("UNSAID", unsaid).replace("SCALE", scale), tmp_path)
    named = {
        name: sorted({m.id for m in one.mistakes if m.severity == "mistake"} | {*one.inherited} & {"A1"})
        for name, one in results.items()
    }
    assert named == dict(zip(("SelfAttention", "MultiHeadAttention"), ids, strict=True)), results
    assert all((one.verdict in FINE) == (not named[name]) for name, one in results.items() if unsaid == "kq")


NAMED = {
    "sums": """
class SelfAttentionOutput(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.dense, self.norm = nn.Linear(d_model, d_model), nn.LayerNorm(d_model)

    def forward(self, hidden_states, input_tensor):
        return self.norm(self.dense(hidden_states) + input_tensor)
""",
    "made_of_sums": """
from sums import SelfAttentionOutput


class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.output = SelfAttentionOutput(d_model)
""",
}


def test_a_part_of_another_file_that_attends_to_nothing_is_no_attention(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in NAMED.items():
        (tmp_path / f"{name}.py").write_text(IMPORTS + text)
    whole = importlib.import_module("made_of_sums")
    assert Library(KINDS).imported_parts(whole.Layer, []) == []
