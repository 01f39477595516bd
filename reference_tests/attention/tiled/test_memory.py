"""No T × S scores at any time: all that torch allocates during a call is looked at, and grows as the lengths do."""

import itertools

import pytest
import torch

from reference_tests.attention.tiled.others import naive, tiled
from scratch_transformer.attention.tiled import workers

H, D = 2, 8


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """Everything happens in the thread that is looked at, with buffers that are none to begin with."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(workers._local, "scratches", {})
    yield
    torch.set_num_threads(usual)


def bytes_of(attention, length, backward, **options):
    """What tensors took during a call at the worst moment, without its inputs; and the largest of them."""
    x = torch.randn(1, H, length, D, requires_grad=backward)
    mask = torch.randn(1, H, 1, length) if options.pop("mask", False) else None

    def call():
        out = attention(x, x, x, mask, **options)
        if backward:
            out.sum().backward()

    with torch.profiler.profile(profile_memory=True) as profile:
        call()
    changes = [
        event.extra_fields.alloc_size
        for event in flat(profile.profiler.kineto_results.experimental_event_tree())
        if event.tag == torch._C._profiler._EventType.Allocation
    ]
    return max(itertools.accumulate(changes)), max(changes)


def flat(events):
    """All events of a tree, in their order."""
    found, waiting = [], list(events)
    while waiting:
        event = waiting.pop()
        found.append(event)
        waiting.extend(event.children)
    return sorted(found, key=lambda event: event.start_time_ns)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"dropout_p": 0.1}, {"mask": True}], ids=str)
def test_memory_is_linear(options, backward):
    lengths = 1024, 2048, 4096
    peaks = []
    for length in lengths:
        workers._local.scratches = {}
        most, largest = bytes_of(tiled, length, backward, **options)
        assert largest <= 1 << 22, "more than a tile at once"
        assert largest < H * length * length * 4
        peaks.append(most)
    tensor = 2048 * H * D * 4  # of the rows that the longest has more
    assert peaks[2] - peaks[1] <= 20 * tensor
    assert peaks[2] - peaks[1] <= 2.5 * max(peaks[1] - peaks[0], tensor)


def test_the_measure_sees_the_scores():
    """Of the naive algorithm, which has them all."""
    most, largest = bytes_of(naive, 1024, False)
    assert largest == H * 1024 * 1024 * 4
    assert most >= largest
