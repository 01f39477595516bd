"""Softmax, ReLU, GELU and SiLU against torch.nn's."""

import pytest
import torch

from reference_tests.agreement import assert_agree
from reference_tests.proof import prove
from scratch_transformer import nn

test_definition, test_precision, test_errors = prove("Softmax", "ReLU", "GELU", "SiLU")


@pytest.mark.parametrize("shape", [(), (3,), (3, 4), (3, 4, 5), (2, 3, 4, 5)], ids=str)
def test_softmax_without_dim_guesses_as_torch_does_and_warns(shape):
    x = torch.randn(shape, dtype=torch.float64)
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert_agree(nn.Softmax(), torch.nn.Softmax(), x)


def test_the_warning_is_torchs():
    warnings = []
    for library in (nn, torch.nn):
        with pytest.warns(UserWarning, match="Implicit dimension choice") as caught:
            library.Softmax()(torch.randn(3))
        warnings.append([str(warning.message) for warning in caught])
    assert warnings[0] == warnings[1]


def test_the_warning_points_at_the_caller():
    with pytest.warns(UserWarning, match="Implicit dimension choice") as caught:
        nn.Softmax()(torch.randn(3))
    assert caught[0].filename == __file__


def test_softmax_saved_before_it_had_a_dim():
    state = nn.Softmax(1).__getstate__()
    del state["dim"]
    for library in (nn, torch.nn):
        softmax = library.Softmax.__new__(library.Softmax)
        softmax.__setstate__(state.copy())
        assert softmax.dim is None
        softmax.__setstate__({**state, "dim": 1})
        assert softmax.dim == 1


@pytest.mark.parametrize("inplace", [False, True])
def test_repr_says_that_relu_overwrites_its_input(inplace):
    assert repr(nn.ReLU(inplace)) == repr(torch.nn.ReLU(inplace))
