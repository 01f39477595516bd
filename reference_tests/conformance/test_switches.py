"""Torch's global switches during a comparison, and after it."""

import warnings

import pytest
import torch

from scratch_transformer.conformance.switches import exact


def state():
    return (
        torch.backends.mha.get_fastpath_enabled(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.get_num_threads(),
        torch.get_default_dtype(),
    )


@pytest.fixture
def opposite():
    """Everything set as a comparison must not have it."""
    before = state()

    def switch(fast_path, matmul, cudnn, threads, dtype):
        torch.backends.mha.set_fastpath_enabled(fast_path)
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)

    switch(True, True, True, 2, torch.float64)
    yield state()
    switch(*before)


def test_set_inside_and_restored_after(opposite):
    with exact():
        assert state() == (False, False, False, 1, torch.float32)
    assert state() == opposite


def test_restored_after_an_exception(opposite):
    with pytest.raises(KeyError), exact():
        raise KeyError
    assert state() == opposite


def test_the_callers_random_numbers_are_not_consumed():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with exact():
        torch.manual_seed(7)
        torch.rand(5)
    assert torch.equal(torch.rand(3), expected)


def test_torchs_remarks_about_nested_tensors_are_not_shown_others_are():
    with exact():
        torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(6, 3), 1)  # warns: an error in these tests
        with pytest.warns(UserWarning, match="another"):
            warnings.warn("another matter", UserWarning, stacklevel=1)
