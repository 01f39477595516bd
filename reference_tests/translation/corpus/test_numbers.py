"""Numbers in words."""

from collections import Counter
from random import Random

import pytest

from scratch_transformer.translation.config import Data
from scratch_transformer.translation.corpus import numbers
from scratch_transformer.translation.errors import InputError


def test_in_words():
    assert numbers.in_words([345], Data()) == [("three hundred and forty-five", "dreihundertfünfundvierzig")]
    assert numbers.in_words([71], Data(source="fr", target="es")) == [("soixante et onze", "setenta y uno")]


def test_the_kept_are_drawn_evenly_and_all_small_ones_are_there():
    drawn = numbers.draw(10**6, 6000, 200, Random(0))
    assert len(drawn) == 6200
    times = Counter(drawn)
    assert {n for n, count in times.items() if count > 1} == set(range(1000)) - set(drawn[:200])
    assert [times[n] for n in (0, 1, 9, 10, 999)] == [500, 50, 50, 3, 3]
    assert not set(drawn[:200]) & set(drawn[200:])
    assert set(range(1000)) <= set(drawn)
    assert 400_000 < sum(drawn[:200]) / 200 < 600_000
    assert sum(1000 <= n < 10_000 for n in drawn[200:]) > 50  # evenly it would be 18


@pytest.mark.parametrize(("below", "pairs", "kept"), [(10, 100, 2), (999, 5, 9), (1000, 1000, 100), (50, 40, 10)])
def test_as_many_as_there_are(below, pairs, kept):
    drawn = numbers.draw(below, pairs, kept, Random(1))
    assert len(set(drawn)) == len(drawn) == min(below, pairs + kept)
    assert set(drawn) <= set(range(below))


def test_an_unknown_language_is_named_with_a_close_one():
    with pytest.raises(InputError, match="data.target is 'dee', which num2words lacks; is it de?"):
        numbers.in_words([1], Data(target="dee"))


def test_a_number_without_words(monkeypatch):
    def num2words(number, lang):
        raise TypeError(f"{number} is too much\nfor {lang}")

    monkeypatch.setattr("num2words.num2words", num2words)
    with pytest.raises(InputError, match=r"num2words has no words for 7 in 'en': TypeError") as caught:
        numbers.in_words([7], Data())
    assert "\n" not in str(caught.value)


def test_round_numbers_are_more_frequent_than_among_all():
    drawn = numbers.draw(1_000_000, 20_000, 1500, Random(0))[1500:]
    share = sum(number % 1000 == 0 for number in drawn) / len(drawn)
    assert 0.01 < share < 0.1
