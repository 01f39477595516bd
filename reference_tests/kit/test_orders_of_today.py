"""Layers of today in which the norms stand elsewhere: on the sublayers' outputs, or before both sublayers at once."""

import pytest
import torch

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.made import CanonicalCandidate, variant
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.session import distance
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.report.finding import FINE

TURNS = {"norm_kind": "rms", "rotary": "halves"}
OLMO = {**TURNS, "norm_order": "norm on the output", "gated": True, "activation": "silu", "qk_norm": True}
SIDE_BY_SIDE = {"rotary": "interleaved", "activation": "gelu", "norm_order": "parallel"}


@pytest.mark.parametrize("changes", [OLMO, SIDE_BY_SIDE, {**SIDE_BY_SIDE, "norms": "shared"}])
@pytest.mark.parametrize("settings", [{}, {"wide_qk_norm": True}])
@pytest.mark.parametrize("name", ["LlamaBlock", "MaskedLlamaBlock", "LlamaModel"])
def test_the_reference_is_the_builtins_functions_put_together(name, settings, changes):
    kind = KINDS[name]
    settings = kind.complete(settings)
    recipe = RIGHT.with_({**next(iter(kind.designs.values())), **changes})
    module = kind.reference(settings, recipe)
    for probe in kind.probes(settings, 1):
        with torch.no_grad():
            expected = kind.oracle(settings, recipe, dict(module.state_dict()), probe.inputs)
        assert distance(module(**probe.inputs), expected, probe) < 1e-12


# ---- By hand: a layer and its equations ----


@pytest.mark.parametrize("norms", ["own", "shared"])
def test_two_sublayers_side_by_side_are_given_one_input(norms):
    candidate = variant("LlamaBlock", **SIDE_BY_SIDE, norms=norms)
    layer, x = candidate.module, torch.randn(2, 5, 12, dtype=torch.float64)
    second = layer.norm2 if norms == "own" else layer.norm1
    mask = torch.ones(5, 5).tril().bool()[None, None]
    first = layer.norm1(x)
    expected = x + layer.self_attn(first, first, first, mask) + layer.feed_forward(second(x))
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


WRONG = [
    ("B3", {**OLMO, "norm_kind": "norm"}),
    ("B3", {**OLMO, "norm_order": "pre", "parts": (("norm1", (("norm_order", "norm on the output"),)),)}),
    ("B14", {**SIDE_BY_SIDE, "parts": (("norm2", (("norm_order", "no norm"),)),)}),
    ("B23", {**SIDE_BY_SIDE, "residual": "twice"}),
    ("A1", {**SIDE_BY_SIDE, "norms": "shared", "scale": "none"}),
    ("B16", {**SIDE_BY_SIDE, "activation": "none"}),
]


@pytest.mark.parametrize("id, changes", WRONG, ids=[f"{id}-{index}" for index, (id, _) in enumerate(WRONG)])
@pytest.mark.long
def test_a_mistake_in_them_is_named_and_they_are_not(id, changes):
    candidate = CanonicalCandidate(KINDS["LlamaBlock"], {}, RIGHT.with_(changes))
    names = ("norm_kind", "rotary", "activation", "gated", "qk_norm")  # as its parts show
    shown = {name: getattr(candidate.recipe, name) for name in names}
    candidate.shown = shown if id != "B16" else {**shown, "activation": "gelu"}
    diagnosis = diagnose(candidate)
    assert (diagnosis.verdict, diagnosis.ids) == ("mistake", (id,))


# ---- Learners' ----

PARTS = """
class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, theta=10000.0):
    half = x.shape[-1] // 2
    places, pairs = (torch.arange(n, device=x.device).double() for n in (x.shape[-2], half))
    angles = torch.outer(places, theta ** (-pairs / half))
    a, b, c, s = x[..., :half], x[..., half:], angles.cos(), angles.sin()
    return torch.cat((a * c - b * s, b * c + a * s), -1)


class Attention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        assert dim % n_heads == 0
        self.n_heads, self.qkv, self.out = n_heads, nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.q_norm, self.k_norm = NORMS

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1, self.w2 = nn.Linear(dim, hidden_dim, bias=False), nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self, dim, n_heads, hidden_dim):
        super().__init__()
        self.attention, self.feed_forward = Attention(dim, n_heads), FeedForward(dim, hidden_dim)
        self.attention_norm, self.ffn_norm = Norm(dim), Norm(dim)

    def forward(self, x):
        RETURN
"""
AFTER = "x = x + self.attention_norm(self.attention(x))\n        return x + self.ffn_norm(self.feed_forward(x))"
BESIDE = "return x + self.attention(self.attention_norm(x)) + self.feed_forward(self.ffn_norm(x))"
ONE_NORM = "y = self.attention_norm(x)\n        return x + self.attention(y) + self.feed_forward(y)"
WIDE = "RMSNorm(dim), RMSNorm(dim)"


def block(tmp_path, forward, norm="RMSNorm", norms="nn.Identity(), nn.Identity()"):
    text = PARTS.replace("RETURN", forward).replace("NORMS", norms).replace(" Norm(", f" {norm}(")
    if "ffn_norm" not in forward:
        text = text.replace(
            f"self.attention_norm, self.ffn_norm = {norm}(dim), {norm}(dim)", f"self.attention_norm = {norm}(dim)"
        )
    return check_text(text, tmp_path)


@pytest.mark.long
def test_norms_on_the_outputs_are_a_design_with_rms_norm(tmp_path):
    results = block(tmp_path, AFTER, norms=WIDE)
    assert results["Attention"].verdict in FINE and "normalized queries and keys" in results["Attention"].design
    result = results["TransformerBlock"]
    assert result.verdict in FINE
    assert [(named.id, named.severity) for named in result.mistakes] == [("B3", "note")]
    assert (
        "pre-norm" not in result.design
        and "RMSNorm" in result.design
        and "normalized queries and keys" in result.design
    )


@pytest.mark.long
def test_and_a_mistake_with_layer_norm(tmp_path):
    result = block(tmp_path, AFTER, "nn.LayerNorm")["TransformerBlock"]
    assert (result.verdict, result.ids) == ("mistake", ["B3"])


@pytest.mark.parametrize("forward, words, norm", [
    (BESIDE, "side by side", "nn.LayerNorm"), (ONE_NORM, "side by side, behind one norm", "RMSNorm"),
])  # fmt: skip
@pytest.mark.long
def test_sublayers_side_by_side_are_a_design(forward, words, norm, tmp_path):
    result = block(tmp_path, forward, norm)["TransformerBlock"]
    assert result.verdict in FINE and words in result.design and "B15" not in result.ids


@pytest.mark.long
def test_a_second_norm_that_nothing_depends_on_is_none(tmp_path):
    forward = ONE_NORM.replace("return", "z = self.ffn_norm(x)\n        return")
    result = block(tmp_path, forward)["TransformerBlock"]
    named = [(found.id, found.form) for found in result.mistakes if found.severity == "mistake"]
    assert named == [("B15", "others are made, and never used")]
