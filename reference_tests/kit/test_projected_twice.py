"""Queries, keys and values that are projected before an attention that projects them again: harmless, and said."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.trials.adjust import UNPROJECTED

pytestmark = pytest.mark.long

BY_TORCH = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(d_model, d_model) for _ in range(3))
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x):
        return self.attention(self.query(x), self.key(x), self.value(x))[0]
"""
LAYER = """
class MultiHead(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        assert d_model % heads == 0
        self.heads, self.width = heads, d_model // heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, v, k, q, mask=None):
        q, k, v = (
            one.view(one.shape[0], -1, self.heads, self.width).transpose(1, 2)
            for one in (self.w_q(q), self.w_k(k), self.w_v(v))
        )
        scores = q @ k.transpose(-2, -1) / self.width**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        x = scores.softmax(-1) @ v
        return self.w_o(x.transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.W_q_masked, self.W_k_masked = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.W_v_masked = nn.Linear(d_model, d_model)
        self.masked, self.cross = MultiHead(d_model, heads), MultiHead(d_model, heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory):
        seen = torch.tril(torch.ones(x.shape[1], x.shape[1], device=x.device))
        q, k, v = self.W_q_masked(x), self.W_k_masked(x), self.W_v_masked(x)
        own = self.masked(v, k, q, seen)
        x = self.norm1(x + own)
        x = self.norm2(x + self.cross(memory, memory, x))
        return self.norm3(x + self.network(x))
"""


@pytest.mark.parametrize(
    ("text", "name", "named"),
    [
        (BY_TORCH, "SelfAttention", []),
        (LAYER, "DecoderLayer", []),
        (LAYER.replace("tril(", "triu("), "DecoderLayer", ["A5"]),
    ],
    ids=["torch's", "a layer", "a layer whose mask is wrong"],
)
def test_the_first_projections_are_made_to_change_nothing(text, name, named, tmp_path):
    result = check_text(text, tmp_path)[name]
    assert not result.unexplained and result.verdict == ("mistake" if named else "harmless deviation"), result
    assert result.severe == named
    (said,) = [one for one in result.mistakes if one.id == "A39"]
    line = (IMPORTS + text).splitlines()[said.line - 1].strip()
    assert said.severity == "harmless" and line.startswith(("q, k", "own =", "return"))


def test_projections_of_an_attention_that_has_none_are_its_own(tmp_path):
    alone = LAYER.partition("class DecoderLayer")[0]
    result = check_text(alone, tmp_path)["MultiHead"]
    assert result.verdict == "matches the builtin" and not [one for one in result.mistakes if one.id == "A39"]


ATTENDS_ITSELF = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, 1, batch_first=True)
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, tgt_mask=None):
        x = self.norm1(x + self.self_attn(x, x, x, attn_mask=tgt_mask, need_weights=False)[0])
        q, k, v = self.q(x), self.k(memory), self.v(memory)
        seen = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1]), -1) @ v
        return self.norm3((x := self.norm2(x + self.o(seen))) + self.network(x))
"""


def test_projections_beside_another_attention_are_those_of_a_second_one(tmp_path):
    result = check_text(ATTENDS_ITSELF, tmp_path)["DecoderLayer"]
    assert result.verdict == "matches the builtin" and not [one for one in result.mistakes if one.id == "A39"], result


TURNED = """
class RopeAttention(nn.Module):
    def __init__(self, d_model, n_heads, max_len=64):
        super().__init__()
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.attention = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.register_buffer("R", self.matrices(max_len, d_model))

    @staticmethod
    def matrices(max_len, d):
        R = torch.zeros(max_len, d, d)
        for m in range(max_len):
            for i in range(d // 2):
                angle = m * 10000.0 ** (-2 * (i - 1) / d)
                R[m, 2 * i, 2 * i] = R[m, 2 * i + 1, 2 * i + 1] = math.cos(angle)
                R[m, 2 * i, 2 * i + 1], R[m, 2 * i + 1, 2 * i] = -math.sin(angle), math.sin(angle)
        return R

    def forward(self, x):
        R = self.R[: x.shape[1]]
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        turned_q = torch.einsum("btd,tde->bte", q, R)
        turned_k = torch.einsum("btd,tde->bte", k, R)
        turned_v = torch.einsum("btd,tde->bte", v, R)
        mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device), 1)
        return self.attention(turned_q, turned_k, VALUES, attn_mask=mask, need_weights=False)[0]
"""


@pytest.mark.parametrize(("values", "ids"), [("turned_v", {"R2", "R3", "R7", "R8"}), ("v", {"R2", "R7", "R8"})])
def test_what_is_turned_and_then_projected_again_is_a_mistake(values, ids, tmp_path):
    """The attention's own projections change nothing then; every mistake of the rotation shows besides."""
    result = check_text(TURNED.replace("VALUES", values), tmp_path)["RopeAttention"]
    assert result.verdict == "mistake" and not result.unexplained, result
    assert {one.id for one in result.mistakes if one.id.startswith("R")} == ids
    (said,) = [one for one in result.mistakes if one.id == "A39"]
    assert said.severity == "mistake" and "the attention's own change nothing" in said.evidence
    assert "self.w_q(x)" in said.shown


def test_of_attention_that_projects_nothing_that_is_said(tmp_path):
    bare = LAYER.replace("(self.w_q(q), self.w_k(k), self.w_v(v))", "(q, k, v)").replace(
        "self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))",
        "self.w_o = nn.Linear(d_model, d_model)",
    )
    for text, said in ((bare, [UNPROJECTED]), (LAYER, [])):
        result = check_text(text, tmp_path)["MultiHead"]
        assert result.verdict in FINE and [limit for limit in result.limits if "projections" in limit] == said, result
