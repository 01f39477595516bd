"""Components made of others: what is known of the parts comes first, and what a check does to a part is undone."""

import time

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import check_here
from reference_tests.kit.learners.corpus import mistaken
from reference_tests.kit.made import Made
from scratch_transformer.kit.judge.session import Session, in_precision
from scratch_transformer.kit.kinds import KINDS

pytestmark = pytest.mark.long

TUTORIAL = mistaken(
    "LN1 LN2 LN3", "seq2seq", "LayerNormalization",
    "x.var(dim=-1, keepdim=True, unbiased=False)", "x.std(dim=-1, keepdim=True)",
    "/ torch.sqrt(var + self.eps)", "/ (var + self.eps)",
    "eps: float = 1e-5", "eps: float = 1e-6",
)  # fmt: skip
WHOLES = {
    "ResidualConnection": "ResidualConnection", "EncoderBlock": "EncoderLayer", "Encoder": "Encoder",
    "DecoderBlock": "DecoderLayer", "Decoder": "Decoder", "Transformer": "Transformer",
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the computing of all threads counts
    try:
        started = time.process_time()
        checked = check_here(TUTORIAL.write(tmp_path_factory.mktemp("learner")))
        checked["seconds"] = time.process_time() - started
    finally:
        torch.set_num_threads(threads)
    return checked


@pytest.mark.long
def test_a_norms_mistakes_and_its_default_eps_are_named_on_the_norm(results):
    assert results["LayerNormalization"].ids == ["LN1", "LN2", "LN3"]
    assert results["LayerNormalization"].alternatives == []


@pytest.mark.parametrize("name, kind", WHOLES.items())
@pytest.mark.long
def test_wholes_inherit_them(results, name, kind):
    result = results[name]
    assert result.kind == kind
    assert {"LN1", "LN2", "LN3"} <= set(result.inherited)
    assert result.ids == []
    assert result.alternatives == []


@pytest.mark.long
def test_a_file_takes_seconds(results):
    """Of computing: in half a minute a reader is gone."""
    assert results["seconds"] < 30


class Table(nn.Module):
    """Positions in a buffer."""

    def __init__(self, d_model: int, max_len: int = 50) -> None:
        super().__init__()
        at = torch.arange(max_len, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.keep(torch.stack((at.sin(), at.cos()), -1).flatten(1))

    def keep(self, table):
        self.register_buffer("pe", table)

    def forward(self, x):
        return x + self.pe[: x.shape[1]]


class Frozen(Table):
    """Positions in a parameter that is not learned."""

    def keep(self, table):
        self.pe = nn.Parameter(table, requires_grad=False)


@pytest.mark.parametrize("made_by", [Table, Frozen])
def test_a_table_is_not_rounded_by_a_check_in_other_precision(made_by):
    """It would be in every model that is then built of it, and in what is checked after it."""
    made = Made("PositionalEncoding", made_by, d_model=KINDS["PositionalEncoding"].defaults["d_model"])
    before = made.module.pe.clone()
    with in_precision(Session(made), made.module, torch.bfloat16):
        assert made.module.pe.dtype == torch.bfloat16
    assert torch.equal(made.module.pe, before)


OTHER_DEFAULT = mistaken("LN3", "seq2seq", "LayerNormalization", "eps: float = 1e-5", "eps: float = 1e-6")


def test_another_default_alone_is_harmless(tmp_path):
    result = check_here(OTHER_DEFAULT.write(tmp_path), {"LayerNormalization"})["LayerNormalization"]
    assert result.verdict == "harmless deviation"
    assert result.ids == ["LN3"]
    assert "1e-06 unless told otherwise" in result.mistakes[0].evidence


WRONG_NORM = mistaken("LN2", "arrays", "layer_norm", "np.sqrt(var + eps)", "(np.sqrt(var) + eps)")


def test_a_function_inherits_from_the_functions_that_it_calls(tmp_path):
    results = check_here(WRONG_NORM.write(tmp_path), {"layer_norm", "block"})
    assert results["layer_norm"].ids == ["LN2"]
    assert results["block"].inherited == ["LN2"]
    assert "LN2" not in results["block"].ids
