"""Numbers by default, first weights and precisions that are meant as they are: no mistake, and a wrong twin is one."""

import importlib

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve.build import construct
from scratch_transformer.kit.resolve.call import batching, calling
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.trials import misfits

POSITIONS = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model=512, n=10000):
        super().__init__()
        self.d_model, self.n = d_model, n

    def forward(self, length):
        codes = torch.zeros(length, self.d_model)
        for k in range(length):
            for i in range(self.d_model // 2):
                codes[k, 2 * i] = math.sin(k / self.n ** (2 * i / self.d_model))
                codes[k, 2 * i + 1] = math.cos(k / self.n ** (2 * i / self.d_model))
        return codes
"""


@pytest.mark.parametrize("n, ids", [("10000", []), ("1000", ["P2"])])
def test_n_is_no_number_of_layers_of_what_has_none(n, ids, tmp_path):
    result = check_text(POSITIONS.replace("10000", n), tmp_path)["PositionalEncoding"]
    assert result.severe == ids


HEADS = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model=512, d_ff=2048, d_h=8):
        super().__init__()
        self.d_h, self.d_k = d_h, d_model // d_h
        self.qkv = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(3 * d_h)])
        self.linear, self.change = nn.Linear(d_model, d_model), nn.Linear(d_model, d_ff)
"""


def test_what_the_width_is_divided_by_is_a_number_of_heads_whatever_it_is_called(tmp_path, monkeypatch):
    (tmp_path / "layers.py").write_text(IMPORTS + HEADS)
    monkeypatch.syspath_prepend(tmp_path)
    cls = importlib.import_module("layers").EncoderLayer
    attempt = next(construct.attempts(cls, KINDS["EncoderLayer"].defaults, {}, lambda name: [], {}))
    assert attempt.args["d_h"] == attempt.used["num_heads"] == KINDS["EncoderLayer"].defaults["num_heads"]
    assert not misfits._is_known(cls, KINDS["EncoderLayer"])  # 8 of them need not divide the width


NORM = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.randn(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + self.eps) + self.bias


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.apply(self.init_weights)

    def init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
"""
OF_NORMS = "        elif isinstance(module, LayerNorm):\n            nn.init.ones_(module.weight)\n"


@pytest.mark.parametrize("more, ids", [(OF_NORMS, []), ("", ["LN13"])])
def test_a_scale_that_the_model_fills_later_starts_there(more, ids, tmp_path):
    assert check_text(NORM + more, tmp_path)["LayerNorm"].ids == ids


def test_what_runs_in_low_precision_does_not_stop_with_more_sentences():
    """It is asked with several in the same precision as with one."""
    kind, layer = KINDS["SelfAttention"], nn.Linear(12, 12).double()
    plan = next(calling.plans(lambda x: x, kind.inputs, {}, [batching.IN_A_BATCH]))
    candidate = Resolved(kind, layer, kind.defaults, plan)
    candidate.function = lambda x: layer(x.bfloat16())
    assert candidate.several(x=torch.ones(2, 5, 12, dtype=torch.float64)) is None
    assert candidate.several(x=torch.ones(2, 5, 11, dtype=torch.float64)) is not None


ANNOTATED = """
class ResidualConnection(nn.Module):
    def __init__(self, d_model, dropout: bool = 0.0):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return self.norm(x + SUMMAND)
"""


@pytest.mark.parametrize("summand, ids", [("self.dropout(sublayer(x))", []), ("sublayer(x)", ["B6"])])
def test_what_is_a_fraction_by_default_is_no_flag(summand, ids, tmp_path):
    result = check_text(ANNOTATED.replace("SUMMAND", summand), tmp_path)["ResidualConnection"]
    assert [mistake.id for mistake in result.mistakes] == ids


CONFIGURED = """
from dataclasses import dataclass


@dataclass
class Config:
    d_vocab: int = 50257
    n_ctx: int = 1024
    d_model: int = 768
    d_head: int = 64
    d_mlp: int = 3072
    n_layers: int = 12


SIZES = {"d_vocab": 50257, "n_ctx": 1024, "d_model": 768, "d_head": 64, "d_mlp": 3072, "n_layers": 12}


class Block(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        d, self.h = config.d_model, config.d_model // config.d_head
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.network = nn.Sequential(nn.Linear(d, config.d_mlp), nn.GELU(), nn.Linear(config.d_mlp, d))

    def attend(self, x):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=SCALE)
        return self.out(attended.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.network(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, config GIVEN):
        super().__init__()
        self.words = nn.Embedding(config.d_vocab, config.d_model)
        self.positions = nn.Embedding(config.n_ctx, config.d_model)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm, self.head = nn.LayerNorm(config.d_model), nn.Linear(config.d_model, config.d_vocab)

    def forward(self, tokens):
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
"""
AS_DICTIONARY = [("config: Config", "config"), *((f"config.{name}", f'config["{name}"]') for name in (
    "d_model", "d_head", "d_mlp", "d_vocab", "n_ctx", "n_layers"))]  # fmt: skip


@pytest.mark.parametrize("given, changes, scale, verdict", [
    (": Config = Config()", [], None, "matches the builtin"),
    ("=Config()", [], None, "matches the builtin"),
    ("=SIZES", AS_DICTIONARY, None, "matches the builtin"),
    (": Config = Config()", [], 1.0, "mistake"),
])  # fmt: skip
@pytest.mark.long
def test_a_config_by_default_is_one_of_our_sizes(given, changes, scale, verdict, tmp_path):
    text = CONFIGURED.replace(" GIVEN", given).replace("SCALE", str(scale))
    for old, new in changes:
        text = text.replace(old, new)
    assert check_text(text, tmp_path)["Transformer"].verdict == verdict


def test_a_scale_that_starts_at_zero_is_no_shift(tmp_path):
    text = """
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        return self.weight * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
"""
    assert check_text(text, tmp_path)["RMSNorm"].ids == ["LN13"]


IN_A_ROW = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.a, self.c = nn.Parameter(torch.FIRST(1, 1, d_model)), nn.Parameter(torch.zeros(1, 1, d_model))
        self.eps = eps

    def forward(self, x):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return self.a * (x - mean) / torch.sqrt(variance + self.eps) + PLUS
"""


@pytest.mark.parametrize("first, plus, ids", [
    ("ones", "self.c", []), ("randn", "self.c", ["LN13"]), ("ones", "torch.zeros_like(self.c)", ["LN6"])])  # fmt: skip
def test_a_scale_may_have_axes_of_length_one(first, plus, ids, tmp_path):
    """Its numbers are filled in: one that is forgotten shows."""
    result = check_text(IN_A_ROW.replace("FIRST", first).replace("PLUS", plus), tmp_path)["LayerNorm"]
    assert result.ids == ids and result.verdict != "unknown mismatch"
    assert not any("was not checked" in note for note in result.notes)


@pytest.mark.parametrize("scaled, first, fix", [
    ("self.scale", "zeros", "nn.Parameter(torch.ones(d_model)) for the scale."),
    ("(1 + self.scale)", "ones", "nn.Parameter(torch.zeros(d_model)) for the scale."),
])  # fmt: skip
def test_the_fix_of_a_first_value_is_of_what_a_norm_has(scaled, first, fix, tmp_path):
    """RMSNorm has no shift, and a scale that is stored as one less starts at 0."""
    text = f"""
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.scale, self.eps = nn.Parameter(torch.{first}(d_model)), eps

    def forward(self, x):
        return {scaled} * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
"""
    (named,) = check_text(text, tmp_path)["RMSNorm"].mistakes
    assert (named.id, named.fix) == ("LN13", fix)


LEFT_OUT = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff=None):
        super().__init__()
        width = MADE
        self.up, self.down = nn.Linear(d_model, width), nn.Linear(width, d_model)

    def times_four(SELFd_model):
        return 4 * d_model

    def forward(self, x):
        return self.down(self.up(x).relu())
"""


@pytest.mark.parametrize(
    "made, own, name",
    [
        ("d_ff or self.times_four(d_model)", "self, ", None),
        ("d_ff or self.times_four(d_model)", "", "self.times_four"),
        ("d_ff or 4 * dmodel", "self, ", "dmodel"),
        ("d_ff + 0", "self, ", None),
    ],
)
def test_a_number_that_need_not_be_told_is_left_out_once(made, own, name, tmp_path):
    """What computes with None is to be told it, perhaps; a name that nothing defines is wrong in any case."""
    result = check_text(LEFT_OUT.replace("MADE", made).replace("SELF", own), tmp_path)["FeedForward"]
    found = [(one.id, one.form) for one in result.mistakes if one.severity == "mistake"]
    assert found == ([("B26", name)] if name else []), result
    assert all("where d_ff is left out" in one.evidence for one in result.mistakes if one.id == "B26")
