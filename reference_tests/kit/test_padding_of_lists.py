"""Masks of padding that are made of lengths, or of sentences in a list."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from reference_tests.kit.learners.checked import reported
from scratch_transformer.kit import check
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve import guess


def of_lengths_mask_in_a_list(lengths):
    mask = torch.zeros(len(lengths), max(lengths), dtype=torch.bool)
    for row, length in enumerate(lengths):
        mask[row, :length] = True
    return mask


def of_lengths_mask(lens, max_len=None):
    longest = max_len or lens.max().item()
    return (torch.arange(longest)[None, :] >= lens[:, None])[:, None, None, :]


def of_lengths_mask_square(lengths, max_len):
    real = torch.arange(max_len)[None, :] < lengths[:, None]
    return real[:, :, None] & real[:, None, :]


def of_lengths_mask_of_rows(lengths, max_len):
    return (torch.arange(max_len)[None, :] < lengths[:, None]).unsqueeze(-1)


def of_lists_padded_inside(sequences, pad_id=0):
    longest = max(len(one) for one in sequences)
    return torch.tensor([one + [pad_id] * (longest - len(one)) for one in sequences]) == pad_id


def of_lists_counted(tokens: list[list[int]]):
    longest = max(map(len, tokens))
    return torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one in tokens])


def of_lists_that_are_padded(batch: list[list[int]], pad: int):
    return (torch.tensor(batch) != pad)[:, None, None, :]


def of_tensors(batch, pad_idx):
    return (pad_sequence([one.flatten() for one in batch], True, pad_idx) != pad_idx)[:, None, None, :]


def of_lists_on_rows(sequences, pad_id=0):
    longest = max(len(one) for one in sequences)
    return (torch.tensor([one + [pad_id] * (longest - len(one)) for one in sequences]) != pad_id)[:, None, :, None]


def of_lists_with_another_id(sequences):
    longest = max(len(one) for one in sequences)
    return torch.tensor([one + [0] * (longest - len(one)) for one in sequences]) != 1


LENGTHS = [of_lengths_mask_in_a_list, of_lengths_mask]
LISTS = [of_lists_padded_inside, of_lists_counted, of_lists_that_are_padded, of_tensors]


@pytest.mark.parametrize("function", [*LENGTHS, *LISTS], ids=lambda function: function.__name__)
def test_it_is_right(function):
    result = check(function, "PaddingMask")
    assert (result.verdict, result.ids) == ("matches the builtin", []), result


def test_rows_of_padding_may_be_blocked_too():
    result = check(of_lengths_mask_square, "PaddingMask")
    assert (result.verdict, result.ids) == ("harmless deviation", ["A11"]), result


@pytest.mark.parametrize(
    ("function", "id"), [(of_lengths_mask_of_rows, "A7"), (of_lists_on_rows, "A7"), (of_lists_with_another_id, "T5")]
)
def test_its_mistake_is_named(function, id):
    assert check(function, "PaddingMask").ids == [id]


def length_to_mask(lengths, max_len=None):
    return torch.arange(max_len or int(lengths.max()))[None, :] < lengths[:, None]


def sequence_mask(X, valid_len, value=0):
    X[torch.arange(X.size(1))[None, :] >= valid_len[:, None]] = value
    return X


def test_what_is_given_lengths_alone_makes_a_mask():
    assert guess.kinds_of("length_to_mask", length_to_mask, KINDS) == ("PaddingMask",)
    assert guess.kinds_of("sequence_mask", sequence_mask, KINDS) == ()


ONE_MORE = """
import torch


def lengths_to_mask(lengths):
    return torch.arange(int(lengths.max()))[None, :] <= lengths[:, None]
"""


@pytest.mark.long
def test_what_nothing_explains_is_no_mistake_of_its_name(tmp_path):
    (tmp_path / "masks.py").write_text(ONE_MORE)
    report = reported(tmp_path / "masks.py")
    why = "it computes something else than what is called PaddingMask here"
    assert not report.results and f"lengths_to_mask ({why})" in report.ignored
