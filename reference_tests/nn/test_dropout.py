"""Dropout against torch.nn.Dropout."""

import pytest
import torch

from reference_tests.proof import prove
from scratch_transformer import nn

test_definition, test_precision, test_errors = prove("Dropout")


def test_a_bad_probability_is_refused_in_the_layers_name():
    with pytest.raises(ValueError, match=r"^Dropout: p, the dropout probability, has to be .* but got 1\.5$"):
        nn.Dropout(1.5)


def test_every_call_drops_other_elements(device):
    dropout, x = nn.Dropout(0.5), torch.ones(1000, device=device)
    assert not torch.equal(dropout(x), dropout(x))


def test_switching_to_evaluation_and_back(device):
    dropout, x = nn.Dropout(0.5), torch.ones(1000, device=device)
    assert torch.equal(dropout.eval()(x), x)
    assert not torch.equal(dropout.train()(x), x)
