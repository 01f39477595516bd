"""Softmax, ReLU and GELU against torch.nn's."""

import pytest
import torch

from reference_tests.agreement import assert_agree
from reference_tests.proof import prove
from scratch_transformer import nn

test_definition, test_precision, test_errors = prove("Softmax", "ReLU", "GELU")


@pytest.mark.parametrize("shape", [(), (3,), (3, 4), (3, 4, 5), (2, 3, 4, 5)], ids=str)
def test_softmax_without_dim_guesses_as_torch_does_and_warns(shape):
    x = torch.randn(shape, dtype=torch.float64)
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert_agree(nn.Softmax(), torch.nn.Softmax(), x)
