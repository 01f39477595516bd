"""LayerNorm, RMSNorm and BatchNorm1d against torch.nn's."""

import pytest
import torch

from reference_tests.agreement import assert_agree, assert_equal
from reference_tests.proof import prove
from scratch_transformer import nn

test_definition, test_precision, test_errors = prove("LayerNorm", "RMSNorm", "BatchNorm1d")

CHANNELS = 5


@pytest.mark.parametrize("shape", [4, [4], (3, 4), [3, 4], torch.Size([3, 4])], ids=str)
@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm"])
def test_every_way_to_say_the_normalized_shape(name, shape):
    ours, builtin = (getattr(library, name)(shape, dtype=torch.float64) for library in (nn, torch.nn))
    assert ours.normalized_shape == builtin.normalized_shape
    assert_agree(ours, builtin, torch.randn(2, 3, 4, dtype=torch.float64))


@pytest.mark.parametrize("momentum", [0.1, 0.4, 1.0, 0.0, None])
def test_running_statistics_over_several_batches(momentum):
    """And then what evaluation makes of them."""
    ours, builtin = (library.BatchNorm1d(CHANNELS, momentum=momentum).double() for library in (nn, torch.nn))
    for size in (7, 2, 4):  # another number of values each: the unbiased variance shows
        x = 3 * torch.randn(size, CHANNELS, 3, dtype=torch.float64) + 2
        assert_agree(ours.train(), builtin.train(), x)
        assert_equal(ours.state_dict(), builtin.state_dict())
    assert ours.num_batches_tracked == 3
    assert_agree(ours.eval(), builtin.eval(), torch.randn(1, CHANNELS, 3, dtype=torch.float64))


def test_without_momentum_every_batch_counts_alike():
    """By hand: the running mean is the plain average of the batches' means, the variance that of the unbiased ones."""
    norm = nn.BatchNorm1d(CHANNELS, momentum=None).double()
    batches = [torch.randn(size, CHANNELS, dtype=torch.float64) for size in (3, 6, 4)]
    for batch in batches:
        norm(batch)
    assert_equal(norm.running_mean, torch.stack([batch.mean(0) for batch in batches]).mean(0))
    assert_equal(norm.running_var, torch.stack([batch.var(0, unbiased=True) for batch in batches]).mean(0))


def test_evaluation_changes_no_statistics():
    norm = nn.BatchNorm1d(CHANNELS).eval()
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    norm(torch.randn(4, CHANNELS))
    assert_equal(norm.state_dict(), before)


def test_resetting_the_running_statistics():
    ours, builtin = (library.BatchNorm1d(CHANNELS) for library in (nn, torch.nn))
    for norm in (ours, builtin):
        norm(torch.randn(4, CHANNELS))
        norm.reset_running_stats()
    assert_equal(ours.state_dict(), builtin.state_dict())


@pytest.mark.parametrize("training", [True, False])
def test_without_running_statistics(training):
    ours, builtin = (library.BatchNorm1d(CHANNELS, track_running_stats=False).double() for library in (nn, torch.nn))
    x = torch.randn(4, CHANNELS, dtype=torch.float64)
    assert_agree(ours.train(training), builtin.train(training), x)
    assert list(ours.state_dict()) == ["weight", "bias"]


@pytest.mark.parametrize("eps", [0.0, -1.0])
@pytest.mark.parametrize("training", [True, False])
def test_an_eps_that_is_not_positive(eps, training):
    x, norm = torch.randn(4, CHANNELS), nn.BatchNorm1d(CHANNELS, eps=eps).train(training)
    if eps == 0 and not training:
        assert_equal(norm(x), x)
    else:
        with pytest.raises(ValueError, match=f"eps must be positive .*but is {eps}"):
            norm(x)


def test_rms_norm_keeps_the_order_in_memory():
    """Channels last: of the result, and of the gradient."""
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64).to(memory_format=torch.channels_last).requires_grad_()
    gradients = []
    for library in (nn, torch.nn):
        y = library.RMSNorm((4, 5), dtype=torch.float64)(x)
        gradients += torch.autograd.grad(y.square().sum(), x)
        for found in (y, gradients[-1]):
            assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(*gradients)
