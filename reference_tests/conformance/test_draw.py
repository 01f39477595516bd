"""Random inputs: reproducible, the same in every dtype but for rounding, and awkward on purpose."""

import pytest
import torch

from scratch_transformer import nn
from scratch_transformer.conformance import draw as sizes
from scratch_transformer.conformance.draw import Draw

LOW = [torch.float32, torch.bfloat16, torch.float16]


def test_the_same_seed_draws_the_same_and_another_seed_something_else():
    assert torch.equal(Draw(3).normal(4, 5), Draw(3).normal(4, 5))
    assert not torch.equal(Draw(3).normal(4, 5), Draw(4).normal(4, 5))


def test_one_stream_never_repeats_itself():
    draw = Draw(0)
    assert not torch.equal(draw.normal(4, 5), draw.normal(4, 5))


def test_drawing_leaves_torchs_own_stream_alone():
    before = torch.get_rng_state()
    draw = Draw(0)
    draw.normal(3), draw.ids(3), draw.some(3, 4), draw.probabilities(2, 3, dim=1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("low", LOW, ids=str)
def test_every_dtype_gets_the_same_numbers_rounded(low):
    exact, rounded = Draw(1), Draw(1, low)
    for _ in range(2):
        assert torch.equal(exact.normal(4, 5).to(low), rounded.normal(4, 5))
    assert torch.equal(exact.ids(9), rounded.ids(9))


def test_sizes_are_all_different():
    """Equal ones would let a transposition hide. A head's width may not be its number either."""
    names = ("B", "T", "S", "H", "D", "E", "KDIM", "VDIM", "FF", "VOCABULARY")
    values = [getattr(sizes, name) for name in names]
    assert len(set(values)) == len(values)
    assert min(values) > 1


def test_probabilities_sum_to_one():
    p = Draw(0).probabilities(3, 4, 5, dim=1)
    assert (p > 0).all()
    assert torch.allclose(p.sum(1), torch.ones(3, 5, dtype=torch.float64), rtol=0, atol=1e-15)


def test_ids_are_in_range_and_reach_its_ends():
    ids = Draw(0).ids(1000, below=3)
    assert sorted(ids.unique().tolist()) == [0, 1, 2]


def test_some_never_blocks_a_whole_row():
    blocked = Draw(0).some(1000, 2, share=0.9)
    assert blocked.any()
    assert not blocked.all(-1).any()


@pytest.mark.parametrize("side, first_column", [("right", [False, False, False]), ("left", [False, True, True])])
def test_padding(side, first_column):
    mask = Draw().padding(3, 4, side)
    assert mask.sum(1).tolist() == [0, 1, 2]
    assert mask[:, 0].tolist() == first_column


def test_future_and_additive():
    draw = Draw()
    assert draw.future(3).tolist() == [[False, True, True], [False, False, True], [False, False, False]]
    mask = draw.additive(draw.future(3))
    assert torch.equal(mask.isneginf(), draw.future(3))
    assert mask[2].unique().numel() == 3


@pytest.mark.parametrize(
    "module",
    [nn.Linear(2, 3), nn.LayerNorm(4), nn.BatchNorm1d(5), nn.MultiheadAttention(6, 2, add_bias_kv=True)],
    ids=lambda module: type(module).__name__,
)
def test_randomise_leaves_no_parameter_at_a_special_value(module):
    """A bias of zero hides that it is forgotten, a weight of one hides that it is not applied."""
    Draw(0).randomise(module)
    for name, value in [*module.named_parameters(), *module.named_buffers()]:
        if value.is_floating_point():
            assert not ((value == 0) | (value == 1)).any(), name
            assert value.unique().numel() == value.numel(), name


def test_what_must_be_positive_stays_positive():
    norm, loss = nn.BatchNorm1d(50), nn.CrossEntropyLoss(torch.ones(50))
    for module in (norm, loss):
        Draw(0).randomise(module)
    assert (norm.running_var > 0).all()
    assert (norm.running_mean < 0).any()
    assert (loss.weight > 0).all()
