"""Linear against torch.nn.Linear."""

import pytest
import torch

from reference_tests.agreement import assert_equal
from reference_tests.proof import prove
from scratch_transformer import functional, nn

test_definition, test_precision, test_errors = prove("Linear")


@pytest.mark.parametrize("in_features", [0, 1, 2])
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_few_features_begin_as_torchs(in_features):
    """The bias is drawn from U(-1/√in, 1/√in), and is zero where nothing comes in."""
    states = []
    for library in (nn, torch.nn):
        torch.manual_seed(0)
        states.append(list(library.Linear(in_features, 4).state_dict().values()))
    assert_equal(*states)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_coo], ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.filterwarnings("ignore:Sparse C")
def test_sparse_weights(layout, has_bias):
    """Those that torch's linear takes."""
    x, bias = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(4, dtype=torch.float64) if has_bias else None
    weight = torch.randn(4, 3, dtype=torch.float64) * (torch.rand(4, 3) < 0.5)
    expected = torch.nn.functional.linear(x, weight, bias)
    assert_equal(functional.linear(x, weight.to_sparse(layout=layout), bias), expected)


def test_a_weight_of_one_dimension():
    """One feature, without a dimension for it; torch takes no bias then."""
    x, weight = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    assert_equal(functional.linear(x, weight), torch.nn.functional.linear(x, weight))
    assert_equal(functional.linear(weight, weight), torch.nn.functional.linear(weight, weight))
    for linear in (functional.linear, torch.nn.functional.linear):
        with pytest.raises(RuntimeError, match="must be a matrix"):
            linear(x, weight, torch.randn(1, dtype=torch.float64))


def test_scalars_are_refused_in_torchs_words():
    for linear in (functional.linear, torch.nn.functional.linear):
        with pytest.raises(RuntimeError, match=r"both arguments to linear need to be at least 1D, but .*0D and .*2D"):
            linear(torch.tensor(2.0), torch.randn(4, 3))
