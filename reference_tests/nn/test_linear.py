"""Linear against torch.nn.Linear."""

import pytest
import torch

from reference_tests.agreement import assert_equal
from reference_tests.proof import prove
from scratch_transformer import nn

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
