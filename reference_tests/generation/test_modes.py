"""How many threads compute while little is computed."""

import pytest
import torch

from scratch_transformer.generation import modes


@pytest.fixture
def two_threads():
    usual = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(usual)


def test_few_multiplications_are_for_one_thread(two_threads):
    with modes.one_thread(modes.ALONE):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_many_are_for_as_many_threads_as_there_are(two_threads):
    with modes.one_thread(modes.ALONE + 1):
        assert torch.get_num_threads() == 2


def test_afterwards_there_are_as_many_as_before_whatever_happens(two_threads):
    with pytest.raises(ValueError, match="of the step"), modes.one_thread(1):
        raise ValueError("of the step")
    assert torch.get_num_threads() == 2
