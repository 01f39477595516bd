"""A training run in one sentence, in rows and in numbers."""

import pytest

from reference_tests.conformance.training.made_up import parity
from scratch_transformer.conformance.training.summary import document, round_steps, rows, sentence


def test_all_is_well():
    assert sentence(parity((2.0, 1.0), (2.0, 1.0 - 2.0**-40), parameter_error=4e-15)) == (
        "2 steps of training with dropout 0.05: the losses differ by at most 9e-13, the parameters at the end by "
        "4e-15; 100.0% (ours) and 100.0% (torch's) of 500 held-out strings are right."
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"losses": (2.0, 1.5)}, "the losses differ by more than 1e-09 from step 2 on, by up to 5e-01"),
        ({"losses": (float("nan"), 1)}, "the losses differ by more than 1e-09 from step 1 on, by up to inf"),
        ({"parameter_error": 2e-3}, "the parameters at the end differ by 2e-03"),
        ({"same_start": False}, "the initial parameters differ"),
        ({"key_bias": 1.0}, "a bias of a key has moved by 1e+00"),
        (
            {"accuracy": 0.5},
            "50.0% (ours) and 100.0% (torch's) of 500 held-out strings are right, and 95% were expected",
        ),
    ],
    ids=str,
)
def test_all_that_is_wrong_is_said(wrong, said):
    assert sentence(parity(**wrong)) == f"2 steps of training: {said}."
    both = sentence(parity(**{"same_start": False, "key_bias": 1.0, **wrong}))
    assert said in both and "initial" in both and "key" in both


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, [1]),
        (7, [1, 2, 3, 4, 5, 6, 7]),
        (30, [1, 5, 10, 15, 20, 25, 30]),
        (500, [1, *range(50, 501, 50)]),
        (1001, [1, 200, 400, 600, 800, 1000]),
    ],
)
def test_round_steps(count, expected):
    assert round_steps(count) == expected


def test_rows_have_the_largest_difference_so_far():
    assert rows(parity((4.0, 2.0, 1.0), (4.0, 1.0, 1.0))) == [
        (1, 4.0, 4.0, 0.0),
        (2, 2.0, 1.0, 1.0),
        (3, 1.0, 1.0, 1.0),
    ]


def test_the_document_has_every_number():
    found = document(parity((2.0, 1.5), accuracy=0.97))
    assert found["ours"]["losses"] == (2.0, 1.5)
    assert found["builtin"]["losses"] == (2.0, 1.0)
    assert found["differences"] == (0.0, 0.5)
    assert found["largest_difference"] == 0.5
    assert found["ours"]["accuracy"] == 0.97
    assert found["settings"]["dropout"] > 0
    assert found["limits"] == {"losses": 1e-9, "parameters": 1e-9, "key bias": 1e-6, "accuracy": 0.95}
    assert not found["passed"]
    assert document(parity())["passed"]
