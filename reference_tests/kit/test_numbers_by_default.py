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
    assert [mistake.id for mistake in result.mistakes if mistake.severity == "mistake"] == ids


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
