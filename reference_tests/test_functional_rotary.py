"""Rotary turns: angles by hand, scaling as Llama 3 has it, both pairings, and what is refused."""

import math

import pytest
import torch

from reference_tests.agreement import assert_equal
from scratch_transformer import functional
from scratch_transformer.functional import RotaryScaling


def turns_by_hand(position, d, base):
    """Number by number, from the paper's θ_i = base^(-2(i - 1)/d), i from 1."""
    angles = [position * base ** (-2 * (i - 1) / d) for i in range(1, d // 2 + 1)]
    return [math.cos(angle) for angle in angles], [math.sin(angle) for angle in angles]


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@pytest.mark.parametrize("position", [0, 1, 7, 4096])
def test_turns_are_the_papers(position, base):
    turns = functional.rotary_turns(torch.tensor([position]), 6, base)
    assert (turns.shape, turns.dtype) == ((2, 1, 3), torch.float64)
    assert_equal(turns[:, 0], torch.tensor(turns_by_hand(position, 6, base), dtype=torch.float64))


def test_positions_of_any_shape_and_dtype():
    positions = torch.tensor([[3, 0], [5, 7], [1, 2]])
    turns = functional.rotary_turns(positions, 4)
    assert turns.shape == (2, 3, 2, 2)
    assert_equal(functional.rotary_turns(positions.float(), 4), turns)
    assert_equal(functional.rotary_turns(positions[1], 4), turns[:, 1])


def test_late_positions_keep_their_digits():
    """In float32 a million radians would be off by 0.03."""
    turns = functional.rotary_turns(torch.tensor([1_000_000]), 2)
    expected = torch.tensor([math.cos(1e6), math.sin(1e6)], dtype=torch.float64)
    assert_equal(turns.flatten(), expected)
    x = torch.tensor([[1.0, 0.0]])
    assert_equal(functional.rotary(x, turns)[0], expected.float(), tolerance=1e-7)


# ---- Scaling ----


def test_linear_scaling_is_smaller_positions():
    positions = torch.arange(9)
    scaled = functional.rotary_turns(positions, 8, scaling=RotaryScaling(4.0))
    assert_equal(scaled, functional.rotary_turns(positions / 4, 8))


def test_llama_3s_scaling_pair_by_pair():
    """Of Llama 3.1: factor 8, from 1 to 4 turns in 8192 tokens, heads of 128 features, base 500000."""
    d, base, length = 128, 500_000.0, 8192
    turns = functional.rotary_turns(torch.tensor([1]), d, base, RotaryScaling(8.0, 1.0, 4.0, length))
    found = torch.atan2(turns[1, 0], turns[0, 0])  # all angles are at most 1
    kinds = set()
    for i in range(d // 2):
        plain = base ** (-2 * i / d)
        wavelength = 2 * math.pi / plain
        if wavelength < length / 4:
            kinds.add("kept")
            expected = plain
        elif wavelength > length:
            kinds.add("divided")
            expected = plain / 8
        else:
            kinds.add("between")
            smooth = (length / wavelength - 1) / (4 - 1)
            expected = (1 - smooth) * plain / 8 + smooth * plain
        assert found[i].item() == pytest.approx(expected, rel=1e-12)
    assert kinds == {"kept", "between", "divided"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0,), "factor must be positive, but is 0.0"),
        ((8.0, 1.0), "belong together, but are 1.0, None and None"),
        ((8.0, None, 4.0, 8192), "belong together, but are None, 4.0 and 8192"),
        ((8.0, 4.0, 1.0, 8192), "0 < low_frequency_factor < high_frequency_factor"),
        ((8.0, 1.0, 1.0, 8192), "but they are 1.0, 1.0 and 8192"),
        ((8.0, 1.0, 4.0, 0), "0 < original_length, but they are 1.0, 4.0 and 0"),
    ],
)
def test_scaling_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^RotaryScaling: .*{message}"):
        RotaryScaling(*arguments)


# ---- Turning ----


def test_which_features_make_a_pair():
    """A quarter turn takes the first of each pair to the place of the second, and the second to minus the first."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    quarter = torch.tensor([[[0.0, 0.0]], [[1.0, 1.0]]])
    assert functional.rotary(x[None], quarter).tolist() == [[-3.0, -4.0, 1.0, 2.0]]
    assert functional.rotary(x[None], quarter, interleaved=True).tolist() == [[-2.0, 1.0, -4.0, 3.0]]


def test_one_pairing_is_the_other_with_features_in_another_order():
    x, turns = torch.randn(2, 3, 5, 8, dtype=torch.float64), functional.rotary_turns(torch.arange(5), 8)
    neighbours = x.unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2)  # 0 4 1 5 2 6 3 7
    turned = functional.rotary(neighbours, turns, interleaved=True)
    assert_equal(turned.unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2), functional.rotary(x, turns))


def test_half_precision_is_turned_in_float32_and_rounded_once():
    x, turns = torch.randn(4, 6).bfloat16(), functional.rotary_turns(torch.arange(4) + 5000, 6)
    expected = functional.rotary(x.double(), turns)
    assert (functional.rotary(x, turns).double() - expected).abs().max() <= expected.abs().max() / 256
    assert torch.equal(functional.rotary(x, turns), functional.rotary(x.float(), turns).bfloat16())


@pytest.mark.parametrize(
    ("x_shape", "turns_shape"),
    [((5, 6), (2, 5, 2)), ((5, 6), (2, 4, 3)), ((5, 6), (3, 5, 3)), ((5, 6), (2, 7, 5, 3)), ((5, 7), (2, 5, 3)),
     ((), (2, 1)), ((6,), (2,)), ((5, 6), (2, 5, 1)), ((1, 6), (2, 5, 3))],
)  # fmt: skip
def test_turns_that_do_not_fit_are_refused(x_shape, turns_shape):
    with pytest.raises(RuntimeError, match=r"^rotary: turns must be cosines and sines \(2, \*, L, d/2\)"):
        functional.rotary(torch.ones(x_shape), torch.ones(turns_shape))


@pytest.mark.parametrize(("d", "base"), [(0, 1e4), (-2, 1e4), (7, 1e4), (8, 0.0), (8, -1.0), (8, math.nan)])
def test_widths_and_bases_that_make_no_angles_are_refused(d, base):
    with pytest.raises(ValueError, match=f"^rotary_turns: {'d, the number' if base == 1e4 else 'base must be'}"):
        functional.rotary_turns(torch.arange(3), d, base)
