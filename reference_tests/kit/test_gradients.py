"""B27: where the output is right and its gradient is not; and norms that are made but never used (B15)."""

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.made import found, variant
from scratch_transformer.kit.canonical import blocks
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.recipe import RIGHT

pytestmark = pytest.mark.long

SIZES = {"d_model": 12, "num_heads": 3, "d_ff": 17}


class Norm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def mean(self, x):
        return x.mean(-1, keepdim=True)

    def forward(self, x):
        variance = x.var(-1, keepdim=True, unbiased=False)
        return (x - self.mean(x)) / (variance + 1e-5).sqrt() * self.weight + self.bias


class Constant(Norm):
    def mean(self, x):
        return super().mean(x).detach()


class Cut(Norm):
    def forward(self, x):
        return super().forward(x.data)


class WithoutGrad(Norm):
    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)


class Rounded(Norm):
    def mean(self, x):
        return super().mean(x).round(decimals=9)


class InPlace(Norm):
    def forward(self, x):
        x -= x.mean(-1, keepdim=True)
        return super().forward(x)


@pytest.mark.parametrize(
    "cls, said",
    [
        (Norm, ""),
        (InPlace, ""),
        (Rounded, "gradient with respect to x is off by"),
        (Constant, "gradient with respect to x is off by"),
        (Cut, "depends on x, but"),
        (WithoutGrad, "depends on x, self.weight, self.bias, but"),
    ],
)
def test_a_right_output_with_a_wrong_gradient(cls, said):
    findings = {f.mistake.id: f for f in found("LayerNorm", cls, d_model=12).findings if f.mistake.id == "B27"}
    assert bool(said) == bool(findings)
    assert not said or said in findings["B27"].evidence


def test_a_gradient_that_is_zero_is_one():
    """Of the keys' bias: no output depends on it."""
    assert "B27" not in found("EncoderLayer", Layer, **SIZES).ids


class Layer(blocks.EncoderLayer):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__({"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff}, RIGHT)


class WithoutPadding(Layer):
    """What it makes of padding is zero: that does not count."""

    def forward(self, x, mask=None):
        y = super().forward(x, mask)
        return y if mask is None else y * mask[:, 0].any(-2)[..., None]


def test_gradients_of_what_does_not_count_do_not_count():
    assert "B27" not in found("EncoderLayer", WithoutPadding, **SIZES).ids


class OneNorm(Layer):
    def connect(self, x, sublayer, number, **others):
        return self.norm1(x + sublayer(x))


def test_one_norm_for_all_is_a_mistake_where_others_are_made():
    (finding,) = [f for f in found("EncoderLayer", OneNorm, **SIZES).findings if f.mistake.id == "B15"]
    assert finding.severity == "mistake"
    assert diagnose(variant("EncoderLayer", norms="shared")).verdict == "harmless deviation"


def test_a_cosine_that_rises_again_after_its_end_is_harmless():
    assert diagnose(variant("CosineSchedule", cosine="goes on after the end")).verdict == "harmless deviation"
    assert diagnose(variant("CosineSchedule", cosine="as long as all steps")).verdict == "mistake"


KEPT = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.length = None

    def forward(self, x):
        if self.length != x.shape[1]:
            self.length = x.shape[1]
            self.scale = torch.tensor(x.shape[-1] ** -0.5, dtype=x.dtype)
        scores = self.q(x) @ {}.transpose(-2, -1) * self.scale
        later = torch.ones(*scores.shape[1:]).triu(1).bool()
        return scores.masked_fill(later, -math.inf).softmax(-1) @ self.v(x)
"""


@pytest.mark.parametrize("keys, ids", [("self.k(x)", set()), ("self.k(x).detach()", {"B27"})])
def test_what_is_kept_of_a_call_in_less_precision_is_forgotten(keys, ids, tmp_path):
    result = check_text(KEPT.format(keys), tmp_path)["CausalSelfAttention"]
    assert {one.id for one in result.mistakes if one.severity == "mistake"} == ids


ONE_MATRIX = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_kv, self.w_o = (nn.Linear(d_model, width) for width in (d_model, 2 * d_model, d_model))

    def forward(self, query, key, value):
        k, v = self.w_kv(key).chunk(2, -1)
        B, T, E = query.shape
        q, k, v = (x.reshape(B, T, self.n_heads, -1).transpose(1, 2) for x in (self.w_q(query), k, v))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))
"""


def test_a_gradient_that_comes_by_another_name_of_one_tensor_is_not_lost(tmp_path):
    (result,) = check_text(ONE_MATRIX, tmp_path).values()
    assert "B27" not in [found.id for found in result.mistakes], result


CORES = """
class Core(nn.Module):
    def __init__(self, share=0.1):
        super().__init__()
        self.share = share

    def forward(self, q, k, v, mask=None):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -math.inf)
        return scores.softmax(-1) @ v


class ScaledDotProductAttention(Core):
    pass


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads, self.core = n_heads, Core()
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        given = zip((self.q, self.k, self.v), (query, key, value))
        y = self.core(*(f(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for f, x in given), mask)
        return self.o(y.transpose(1, 2).flatten(2))


def attention(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -math.inf)
    return scores.softmax(-1) @ v
"""


@pytest.mark.parametrize(
    "old, new, ids",
    [
        ("hidden", "hidden", set()),
        ("scores.masked", "scores.data.masked", {"B27"}),
        ("scores.softmax(-1)", "torch.dropout(scores.softmax(-1), 0.1, True)", {"B12"}),
    ],
)
def test_what_is_done_with_a_mask_or_in_evaluation_is_seen_of_the_core_too(old, new, ids, tmp_path):
    results = check_text(CORES.replace(old, new), tmp_path)
    found = {name: {one.id for one in result.mistakes if one.severity == "mistake"} for name, result in results.items()}
    assert found == dict.fromkeys(("ScaledDotProductAttention", "MultiHeadAttention", "attention"), ids)


TOLD = """
def attention(q, k, v, mask=None, p_drop=0.1):
    return F.dropout((q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1), p_drop) @ v
"""


def test_what_a_function_is_told_to_drop_is_its_callers(tmp_path):
    assert "B12" not in check_text(TOLD, tmp_path)["attention"].ids
    assert "B12" in check_text(TOLD.replace(", p_drop=0.1", "").replace("p_drop", "0.1"), tmp_path)["attention"].ids


DECORATED = """
@torch.no_grad()
def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return scores.softmax(-1) @ v


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, 4 * d_model, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)

    @torch.inference_mode()
    def forward(self, idx):
        T = idx.size(1)
        later = torch.ones(T, T, dtype=torch.bool, device=idx.device).triu(1)
        x = self.tok(idx) + self.pos(torch.arange(T, device=idx.device))
        return self.head(self.norm(self.blocks(x, mask=later)))
"""
TRAINS = """
def step(model, x, y):
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()
"""


@pytest.mark.parametrize("more, severity", [("", "note"), (TRAINS, "mistake")])
def test_what_is_decorated_has_no_gradient(more, severity, tmp_path):
    """Of a model that nothing trains it is told: it may be there to write text."""
    results = check_text(DECORATED + more, tmp_path)
    for name, of_what, decorator in (
        ("attention", "mistake", "@torch.no_grad()"),
        ("GPT", severity, "@torch.inference_mode()"),
    ):
        (one,) = [one for one in results[name].mistakes if one.id == "B27"]
        assert one.severity == of_what
        assert one.code[2 if name == "GPT" else -3].strip() == decorator
    without = DECORATED.replace("@torch.no_grad()\n", "").replace("    @torch.inference_mode()\n", "")
    assert not any("B27" in result.ids for result in check_text(without + more, tmp_path).values())
