"""The task: strings of digits, and the same backwards."""

from random import Random

import pytest
import torch

from scratch_transformer.conformance.training import FULL
from scratch_transformer.conformance.training.reversal import (
    DIGITS,
    END,
    PAD,
    START,
    VOCABULARY,
    batch,
    draw,
    exact_matches,
)


def test_a_batch_is_digits_and_the_same_backwards():
    src, tgt = batch([(1, 2, 3), (4,)])
    assert src.tolist() == [[1, 2, 3], [4, PAD, PAD]]
    assert tgt.tolist() == [[START, 3, 2, 1, END], [START, 4, END, PAD, PAD]]
    assert src.dtype == tgt.dtype == torch.int64


def test_digits_and_marks_are_the_vocabulary():
    assert sorted([*range(DIGITS), PAD, START, END]) == list(range(VOCABULARY))


def test_strings_have_all_lengths_and_all_digits():
    strings = draw(300, (2, 4), Random(0))
    assert len(strings) == 300
    assert {len(string) for string in strings} == {2, 3, 4}
    assert {digit for string in strings for digit in string} == set(range(DIGITS))


def test_the_same_seed_draws_the_same_strings():
    assert draw(20, (3, 6), Random(5)) == draw(20, (3, 6), Random(5)) != draw(20, (3, 6), Random(6))


def test_the_first_strings_are_these_on_every_machine():
    assert draw(3, FULL.lengths, Random(0)) == [(6, 0, 4, 8, 7, 6), (7, 5, 9, 3, 8), (4, 2, 1, 9)]


def test_what_is_held_out_is_not_drawn():
    held_out = draw(50, (1, 2), Random(1))
    assert not set(held_out) & set(draw(500, (1, 2), Random(2), without=frozenset(held_out)))


@pytest.mark.parametrize("lengths", [(0, 3), (4, 3)])
def test_impossible_lengths_are_refused(lengths):
    with pytest.raises(ValueError, match=r"1 <= shortest <= longest, but are \("):
        draw(1, lengths, Random(0))


def test_nothing_left_to_draw_is_refused():
    every = [(digit,) for digit in range(DIGITS)]
    with pytest.raises(ValueError, match=r"without has 10 strings: none of the lengths=\(1, 1\) is left"):
        draw(1, (1, 1), Random(0), without=every)
    assert draw(1, (1, 1), Random(0), without=every[:-1]) == every[-1:]


def test_exact_matches_count_up_to_the_end_mark():
    _, tgt = batch([(1, 2), (3, 4, 5), (6,)])
    assert exact_matches(tgt, tgt) == 1
    behind_the_end = torch.where(tgt == PAD, 7, tgt)
    assert exact_matches(behind_the_end, tgt) == 1
    one_digit_wrong, no_end = tgt.clone(), tgt.clone()
    one_digit_wrong[1, 2] = 9
    no_end[2, 2] = 6
    assert exact_matches(one_digit_wrong, tgt) == exact_matches(no_end, tgt) == pytest.approx(2 / 3)
