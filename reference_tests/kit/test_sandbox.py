"""What keeps a learner's code from harming: the limit of time."""

import contextlib
import time

import pytest
import torch

from scratch_transformer.kit.discover.sandbox import TimeUp, time_limit
from scratch_transformer.kit.resolve.call.precision import double


def endless():
    while True:
        with contextlib.suppress(Exception):
            pass


def test_what_runs_too_long_is_stopped():
    begin = time.process_time()
    with pytest.raises(TimeUp, match="after 0.05 s of computing"), time_limit(0.05):
        endless()
    assert 0.02 < time.process_time() - begin < 1


def test_torchs_switches_are_switched_back_wherever_time_is_up():
    """Half of this loop's time is spent where a switch is turned: there nothing is stopped."""
    for _ in range(50):
        with contextlib.suppress(TimeUp), time_limit(0.002):
            while True:
                with torch.no_grad(), double(drops=False):
                    sum(range(3000))
        assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
        assert torch._C._len_torch_function_stack() == 0


class Slow:
    """Turns something back, which takes a while."""

    def __init__(self):
        self.is_left = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        self.is_left = True


def test_what_is_being_left_is_left_first():
    slow = Slow()
    with contextlib.suppress(TimeUp), time_limit(0.02):
        with slow:
            pass
        endless()
    assert slow.is_left
