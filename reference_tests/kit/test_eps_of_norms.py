"""What is said of a norm's ε alone, and of what contains it, is one thing: none of an RMSNorm, unless it is large."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.normalization import OF_A_SIZE

pytestmark = pytest.mark.long

LAYER = """
class Norm(nn.Module):
    def __init__(self, d_model, eps=EPS):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d_model)), eps
        SHIFT

    def forward(self, x):
        BODY


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, num_heads, dropout=dropout, batch_first=True)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = Norm(d_model), Norm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        hidden = None if mask is None else ~mask
        x = self.norm1(x + self.dropout(self.attn(x, x, x, key_padding_mask=hidden)[0]))
        return self.norm2(x + self.dropout(self.down(self.dropout(torch.relu(self.up(x))))))
"""
RMS = ("RMSNorm", "pass", "return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)")
USUAL = ("LayerNorm", "self.bias = nn.Parameter(torch.zeros(d_model))",
         "return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)")  # fmt: skip


@pytest.mark.parametrize("norm, eps, severity", [
    (RMS, "1e-6", "note"), (RMS, "1e-5", None), (RMS, "0.1", "mistake"),
    (USUAL, "1e-6", "harmless"), (USUAL, "0.1", "mistake"),
])  # fmt: skip
def test_a_norm_alone_and_a_layer_of_it_are_told_the_same(norm, eps, severity, tmp_path):
    name, shift, body = norm
    text = LAYER.replace("EPS", eps).replace("SHIFT", shift).replace("BODY", body).replace("Norm(", f"{name}(")
    found = check_text(text, tmp_path)
    alone, layer = found[name], found["EncoderLayer"]
    assert [m.severity for m in alone.mistakes if m.id == "LN3"] == [*filter(None, [severity])]
    told = "LN3" in layer.inherited, "LN3" in [m.id for m in layer.mistakes if m.severity == "note"]
    assert told == (severity in ("mistake", "harmless"), severity == "note")
    assert not any(m.id == "LN3" and m.severity != "note" for m in layer.mistakes)  # it is told of the norm


CLAMPED = """
class Norm(nn.Module):
    def __init__(self, width, eps=EPS):
        super().__init__()
        self.gain, self.offset, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        mean, spread = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        spread = spread.clamp(min=self.eps)
        return self.gain * (x - mean) / torch.sqrt(DIVISOR) + self.offset
"""


@pytest.mark.parametrize("eps", ["1e-5", "1e-10"])
@pytest.mark.parametrize("divisor, said", [("spread + self.eps", "added to that"), ("spread", "none is added")])
def test_a_variance_that_is_clamped_at_its_eps_costs_nothing(eps, divisor, said, tmp_path):
    norm = check_text(CLAMPED.replace("EPS", eps).replace("DIVISOR", divisor), tmp_path)["Norm"]
    assert (norm.verdict, norm.ids) == ("harmless deviation", ["LN3"])
    (named,) = norm.mistakes
    assert said in named.form and "clamp" in named.shown


ALONE = """
class Norm(nn.Module):
    def __init__(self, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.gain, self.offset = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        mean, spread = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return self.gain * (x - mean) / torch.sqrt(spread + self.eps) + self.offset


class AddAndNorm(nn.Module):
    def __init__(self, features, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.norm = Norm(TOLD)

    def forward(self, x, sublayer):
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, num_heads, dropout=dropout, batch_first=True)
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))
        self.first, self.second = AddAndNorm(d_model, dropout), AddAndNorm(d_model, dropout)

    def forward(self, x):
        return self.second(self.first(x, lambda y: self.attn(y, y, y)[0]), self.net)
"""


@pytest.mark.parametrize("told, ids", [("features", ["LN3"]), ("", []), ("eps=1e-5", [])])
def test_a_size_that_becomes_the_eps_is_told_of_what_makes_the_norm(told, ids, tmp_path):
    found = check_text(ALONE.replace("TOLD", told), tmp_path)
    own, layer = found["AddAndNorm"], found["EncoderLayer"]
    assert [one.id for one in own.mistakes if one.severity == "mistake"] == ids, own
    assert [one.form for one in own.mistakes if one.id == "LN3"] == [OF_A_SIZE] * len(ids)
    assert ("LN3" in layer.inherited, layer.unexplained, own.unexplained) == (bool(ids), False, False), layer
    if ids:
        assert own.mistakes[0].shown.strip() == "self.norm = Norm(features)"
