"""One norm before a sublayer and after its sum (B15); a norm that divides by 0 (LN3)."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.blocks import BEFORE_AND_AFTER
from scratch_transformer.kit.mistakes.normalization import NO_EPS, ZERO_BY_ZERO
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

LAYER = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, nhead, d_ff):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        h = FIRST
        x = self.norm1(x + self.self_attn(h, h, h)[0])
        h = SECOND
        return self.norm2(x + self.ff(h))
"""


@pytest.mark.parametrize(
    "first, second, words",
    [
        ("x", "x", []),
        ("self.norm1(x)", "self.norm2(x)", [BEFORE_AND_AFTER]),
        ("self.norm1(x)", "x", [f"{BEFORE_AND_AFTER}, in the first sublayer alone"]),
    ],
)
def test_a_norm_is_before_a_sublayer_or_after_it(first, second, words, tmp_path):
    result = check_text(LAYER.replace("FIRST", first).replace("SECOND", second), tmp_path)["EncoderLayer"]
    found = [(one.id, one.form) for one in result.mistakes if one.severity == "mistake"]
    assert found == [("B15", form) for form in words], result
    assert (result.verdict in FINE) == (not words)


NORM = """
class LayerNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return self.gamma * (x - mean) / DIVISOR + self.beta
"""


@pytest.mark.parametrize(
    "divisor, verdict, severe",
    [
        ("torch.sqrt(var + 1e-5)", "matches the builtin", []),
        ("torch.sqrt(var)", "mistake", [("LN3", NO_EPS)]),
        ("torch.sqrt(var + 1e-30)", "harmless deviation", []),
        ("torch.sqrt(var + 1e-12)", "harmless deviation", []),
    ],
)
def test_a_norm_is_not_to_divide_by_zero(divisor, verdict, severe, tmp_path):
    result = check_text(NORM.replace("DIVISOR", divisor), tmp_path)["LayerNorm"]
    assert result.verdict == verdict, result
    assert [(one.id, one.form) for one in result.mistakes if one.severity == "mistake"] == severe


RMS_NORM = """
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return self.gain * FORMULA
"""


@pytest.mark.parametrize(
    "formula, severe",
    [
        ("x / x.square().mean(-1, keepdim=True).sqrt()", [("LN3", ZERO_BY_ZERO)]),
        ("x / x.square().mean((1, 2), keepdim=True).sqrt()", [("LN3", ZERO_BY_ZERO), ("LN7", "")]),
        ("F.normalize(x, dim=-1) * x.size(-1) ** 0.5", []),  # which divides by no less than 1e-12
    ],
)
def test_an_rmsnorm_is_not_to_divide_by_zero(formula, severe, tmp_path):
    result = check_text(RMS_NORM.replace("FORMULA", formula), tmp_path)["RMSNorm"]
    named = [one for one in result.mistakes if one.severity == "mistake"]
    assert [(one.id, one.form if one.id == "LN3" else "") for one in named] == severe, result
    assert all("+ eps" in one.fix and "equal" not in one.form for one in named if one.id == "LN3")
