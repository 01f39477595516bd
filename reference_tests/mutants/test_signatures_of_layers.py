"""What the numbers of each mistake look like: layer normalization, embedding, positions."""

import math
import warnings

import pytest
import torch

from reference_tests.mutants.catalogue import MUTANTS
from scratch_transformer import functional, model, nn
from scratch_transformer.conformance import Draw


def tokens(width, deviation):
    """(5, width) with the standard deviation σ exactly (dividing by n)."""
    x = Draw(0).normal(5, width)
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, correction=0, keepdim=True) * deviation


def ratio(id, width=64, deviation=1.0):
    """The mutant's LayerNorm over the right one: the same number everywhere."""
    x = tokens(width, deviation)
    right = nn.LayerNorm(width, dtype=torch.float64)(x)
    with MUTANTS[id].applied():
        ratios = nn.LayerNorm(width, dtype=torch.float64)(x) / right
    assert ratios.std() < 1e-9
    return ratios.mean().item()


@pytest.mark.parametrize("d, expected", [(8, 0.935414), (64, 0.992157), (512, 0.999023)])
def test_LN1_scales_by_a_constant(d, expected):
    assert ratio("LN1", d, deviation=1e3) == pytest.approx(math.sqrt((d - 1) / d))
    assert ratio("LN1", d, deviation=1e3) == pytest.approx(expected, abs=1e-6)


def test_LN1_of_one_feature_is_nan():
    with MUTANTS["LN1"].applied(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch: degrees of freedom is <= 0
        assert nn.LayerNorm(1)(torch.ones(3, 1)).isnan().all()


@pytest.mark.parametrize("deviation, expected", [(1e-3, 3.28), (1e-4, 28.8)])
def test_LN2_grows_where_the_variance_is_small(deviation, expected):
    assert ratio("LN2", deviation=deviation) == pytest.approx(math.sqrt(deviation**2 + 1e-5) / (deviation + 1e-5))
    assert ratio("LN2", deviation=deviation) == pytest.approx(expected, rel=2e-3)


def test_LN1_and_LN2_multiply():
    d, sigma = 8, 1e-3
    unbiased = sigma * math.sqrt(d / (d - 1))
    assert ratio("LN1+2", d, sigma) == pytest.approx(math.sqrt(sigma**2 + 1e-5) / (unbiased + 1e-5))


def test_LN3_shows_only_where_the_variance_is_small():
    assert ratio("LN3-1e-12", deviation=1e-3) == pytest.approx(3.317, abs=1e-3)
    assert ratio("LN3-1e-12", deviation=1.0) == pytest.approx(1.0, abs=1e-5)


def parameters(id, module):
    with MUTANTS[id].applied():
        return sum(p.numel() for p in module().parameters())


def test_LN4_and_LN6_have_other_parameters():
    assert parameters("LN4", lambda: nn.LayerNorm(64)) == 2
    assert parameters("LN6", lambda: nn.LayerNorm(64)) == 64


def test_LN5_is_nan_where_the_mean_is_large():
    x = Draw(0).normal(1000, 64).float() + 1e4
    with MUTANTS["LN5"].applied():
        share = nn.LayerNorm(64)(x).isnan().any(-1).double().mean().item()
    assert 0.3 < share < 0.5
    assert nn.LayerNorm(64)(x).isfinite().all()


def test_LN7_makes_a_token_depend_on_others():
    x = Draw(0).normal(5, 8)
    with MUTANTS["LN7"].applied():
        changed = nn.LayerNorm(8).double()(torch.cat([x[:4], 2 * x[4:]])) - nn.LayerNorm(8).double()(x)
    assert changed[0].abs().max() > 0.1


# ---- Embedding ----


def test_E2_is_smaller_by_the_root_of_the_width():
    embeddings, ids = model.InputEmbeddings(64, 11), torch.arange(11)
    with MUTANTS["E2"].applied():
        unscaled = embeddings(ids)
    assert (unscaled / embeddings(ids)).detach().mean() == pytest.approx(1 / 8)


def test_E4_gives_the_padding_a_vector():
    with MUTANTS["E4"].applied():
        assert nn.Embedding(11, 8, padding_idx=3).weight[3].norm() > 0.1
    assert nn.Embedding(11, 8, padding_idx=3).weight[3].norm() == 0


def test_E5_freezes_the_wrong_row():
    embedding = nn.Embedding(11, 8, padding_idx=3)
    with MUTANTS["E5"].applied():
        embedding(torch.tensor([0, 3])).sum().backward()
    assert embedding.weight.grad[0].norm() == 0 and embedding.weight.grad[3].norm() > 0


# ---- Positions ----


def positions(id, length=7, d_model=6):
    with MUTANTS[id].applied():
        return functional.sinusoidal_positions(length, d_model, dtype=torch.float64)


RIGHT = functional.sinusoidal_positions(7, 6, dtype=torch.float64)


def test_P1_crashes_at_an_odd_width():
    assert torch.equal(positions("P1"), RIGHT)
    with pytest.raises(RuntimeError, match="expanded size"):
        positions("P1", d_model=7)


def test_P2_has_other_frequencies():
    """Of column 2i: arcsin PE(1, 2i) is the frequency."""
    i = torch.arange(3, dtype=torch.float64)
    frequency_ratio = positions("P2-doubled")[1, 0::2].asin() / RIGHT[1, 0::2].asin()
    assert frequency_ratio.tolist() == pytest.approx((10000 ** (-2 * i / 6)).tolist())
    cosines = positions("P2-shifted")[1, 1::2].acos() / RIGHT[1, 1::2].acos()
    assert cosines.tolist() == pytest.approx([10000 ** (-1 / 6)] * 3)
    assert torch.equal(positions("P2-shifted")[:, 0::2], RIGHT[:, 0::2])


def test_P3_has_the_right_columns_in_another_order():
    assert torch.equal(positions("P3")[:, [0, 3, 1, 4, 2, 5]], RIGHT)


def test_P4_varies_over_the_batch_and_not_over_time():
    encoding = model.PositionalEncoding(6, 7, 0.0)
    with MUTANTS["P4"].applied():
        code = encoding(torch.zeros(3, 5, 6))
    assert torch.equal(code[:, 0], code[:, 4]) and not torch.equal(code[0], code[1])


def test_P5_is_not_in_the_state():
    with MUTANTS["P5"].applied():
        encoding = model.PositionalEncoding(6, 7, 0.0)
    assert "pe" not in encoding.state_dict()
    assert encoding.to(torch.float64).pe.dtype == torch.float32


def test_P6_does_not_say_what_is_too_long():
    with MUTANTS["P6"].applied(), pytest.raises(RuntimeError) as caught:
        model.PositionalEncoding(6, 7, 0.0)(torch.zeros(1, 8, 6))
    assert "seq_len" not in str(caught.value)


def test_P8_gives_two_positions_one_code():
    table = positions("P8", length=300)
    assert torch.equal(table[256], table[257]) and not torch.equal(table[255], table[256])
