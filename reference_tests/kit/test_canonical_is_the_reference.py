"""What the kit computes by recipe is, with the right recipe, what the reference computes: nobody keeps two truths."""

from dataclasses import replace

import pytest
import torch

from reference_tests.agreement import assert_equal
from scratch_transformer import functional
from scratch_transformer.kit.canonical import rotary
from scratch_transformer.kit.recipe import RIGHT


@pytest.mark.parametrize("pairing", ["interleaved", "halves"])
@pytest.mark.parametrize("base", [10_000.0, 300.0])
def test_rotary_positions(pairing, base):
    x, positions = torch.randn(2, 3, 5, 8, dtype=torch.float64), torch.tensor([0, 4, 1, 9, 100])
    found = rotary.rotated(x, positions, base, replace(RIGHT, rotary=pairing))
    turns = functional.rotary_turns(positions, 8, base)
    assert_equal(found, functional.rotary(x, turns, interleaved=pairing == "interleaved"))
