"""Rotary positions as a module."""

import torch

from reference_tests.agreement import assert_equal
from reference_tests.proof import prove
from scratch_transformer import functional, nn

test_definition, test_precision, test_errors = prove("RotaryEmbedding")


def test_it_has_no_state():
    rotary = nn.RotaryEmbedding(8)
    assert list(rotary.state_dict()) == list(rotary.parameters()) == list(rotary.buffers()) == []


def test_a_model_in_half_precision_keeps_its_angles():
    """Frequencies that were a buffer would be rounded by `.to(bfloat16)`: 1000 radians would be off by 4."""
    rotary, positions = nn.RotaryEmbedding(8), torch.tensor([1000])
    before = rotary.turns(positions)
    assert torch.equal(rotary.to(torch.bfloat16).turns(positions), before)


def test_turns_are_made_once_for_all_layers():
    rotary, x = nn.RotaryEmbedding(8, base=100.0), torch.randn(2, 3, 5, 8)
    for positions in (torch.arange(5), torch.tensor([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])):
        assert_equal(functional.rotary(x, rotary.turns(positions, x.dtype)), rotary(x, positions), tolerance=1e-6)


def test_the_dtype_of_turns():
    rotary, positions = nn.RotaryEmbedding(8), torch.arange(5)
    assert rotary.turns(positions).dtype == torch.float64
    for given, made in (
        (torch.float64, torch.float64), (torch.float32, torch.float32), (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
    ):  # fmt: skip
        assert rotary.turns(positions, given).dtype == made
