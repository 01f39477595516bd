"""The two measures of distance, on numbers that can be checked by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scratch_transformer.conformance.measures import error_ratio, largest, relative_error

INF, NAN = float("inf"), float("nan")
values = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6)


def tensor(*numbers, dtype=torch.float64):
    return torch.tensor(numbers, dtype=dtype)


# ---- relative_error ----


def test_relative_error_by_hand():
    assert relative_error(tensor(1.0, 2.5), tensor(1.0, 2.0)) == 0.25
    assert relative_error(tensor(1.0, -4.0), tensor(1.0, -4.0)) == 0


@given(values, st.floats(0.1, 10))
def test_relative_error_does_not_depend_on_the_unit(numbers, unit):
    expected = tensor(*numbers, 1.0)
    actual = expected + 0.25
    scaled = relative_error(actual * unit, expected * unit)
    assert scaled == pytest.approx(relative_error(actual, expected), rel=1e-9)


@given(values)
def test_relative_error_is_zero_only_for_equal_values(numbers):
    expected = tensor(*numbers)
    assert relative_error(expected.clone(), expected) == 0
    assert relative_error(expected + 1e-3, expected) > 0


def test_where_zero_is_expected_the_error_is_absolute():
    assert relative_error(tensor(3e-9), tensor(0.0)) == 3e-9


def test_a_least_scale_forgives_rounding_of_what_should_be_zero():
    actual, expected = tensor(2e-17), tensor(1e-17)
    assert relative_error(actual, expected) == 1
    assert relative_error(actual, expected, least_scale=1.0) == pytest.approx(1e-17)


@pytest.mark.parametrize(
    "actual, expected",
    [
        (tensor(1.0), tensor(1.0, 1.0)),
        (tensor([1.0]), tensor(1.0)),
        (tensor(1.0, dtype=torch.float32), tensor(1.0)),
        (tensor(1.0, NAN), tensor(1.0, 2.0)),
        (tensor(1.0, 2.0), tensor(1.0, NAN)),
        (tensor(INF), tensor(-INF)),
        (tensor(INF), tensor(NAN)),
        (tensor(1e308), tensor(INF)),
    ],
    ids=["size", "shape", "dtype", "ours is NaN", "theirs is NaN", "sign of infinity", "infinity for NaN", "finite"],
)
def test_what_cannot_be_close_is_infinitely_far(actual, expected):
    assert relative_error(actual, expected) == INF


def test_equal_infinities_and_nans_are_equal():
    special = tensor(INF, -INF, NAN)
    assert relative_error(special.clone(), special) == 0
    assert relative_error(tensor(INF, 1.5), tensor(INF, 1.0)) == 0.5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool], ids=str)
def test_every_dtype_and_nothing(dtype):
    assert relative_error(torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype)) == 0
    assert relative_error(torch.ones(0, dtype=dtype), torch.ones(0, dtype=dtype)) == 0
    assert relative_error(torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)) == 1


# ---- error_ratio ----


def ratio(ours, builtin, golden, limit=2.0, dtype=torch.float32):
    return error_ratio(tensor(*ours, dtype=dtype), tensor(*builtin, dtype=dtype), tensor(*golden), limit)


def test_the_same_error_is_a_ratio_of_one():
    assert ratio([1.5], [0.5], [1.0]) == 1
    assert ratio([1.0], [1.0], [1.0]) == 1


@given(
    st.floats(0, 0.5), st.floats(0, 0.5), st.sampled_from([2.0, 3.0]), st.sampled_from([torch.float32, torch.float16])
)
def test_the_limit_is_crossed_where_the_doctrine_says(ours, builtin, limit, dtype):
    """ratio ≤ limit ⟺ our error ≤ limit · builtin's error + floor."""
    ours, builtin = (tensor(1 + x, dtype=dtype) for x in (ours, builtin))
    golden = tensor(1.0)
    floor = torch.finfo(dtype).eps
    our_error, builtin_error = ((x.double() - golden).abs().item() for x in (ours, builtin))
    allowed = limit * builtin_error + floor
    if not math.isclose(our_error, allowed, rel_tol=1e-9):
        assert (error_ratio(ours, builtin, golden, limit) <= limit) == (our_error <= allowed)


def test_being_better_than_the_builtin_is_less_than_one():
    assert ratio([1.0], [1.5], [1.0]) < 1e-5
    assert ratio([1.5], [1.0], [1.0]) > 1e5


def test_one_unit_in_the_last_place_is_always_allowed():
    eps = torch.finfo(torch.float16).eps
    assert ratio([1 + eps], [1.0], [1.0], dtype=torch.float16) <= 2
    assert ratio([1 + 4 * eps], [1.0], [1.0], dtype=torch.float16) > 2
    assert ratio([1e-7], [0.0], [0.0], dtype=torch.float16) == pytest.approx(1, abs=1e-3)  # 0.3 is the least scale


@pytest.mark.parametrize(
    "ours, builtin, golden, expected",
    [
        ([NAN, 1.0], [2.0, 1.0], [2.0, 1.0], INF),
        ([INF, 1.0], [2.0, 1.0], [2.0, 1.0], INF),
        ([-INF, 1.0], [INF, 1.0], [INF, 1.0], INF),
        ([3.0, 1.0], [INF, 1.0], [INF, 1.0], INF),
        ([INF, 1.0], [NAN, 1.0], [NAN, 1.0], INF),
        ([INF, 1.0], [INF, 1.0], [INF, 1.0], 1.0),
        ([NAN, 1.0], [NAN, 1.0], [NAN, 1.0], 1.0),
        ([INF, 1.0], [INF, 1.0], [7e4, 1.0], 1.0),
        ([7e4, 1.0], [INF, 1.0], [7e4, 1.0], 1.0),
        ([NAN, NAN], [NAN, NAN], [1.0, NAN], 1.0),
    ],
    ids=[
        "NaN alone",
        "overflow alone",
        "sign of infinity",
        "finite for infinity",
        "infinity for NaN",
        "all infinite",
        "all NaN",
        "both overflow",
        "only the builtin overflows",
        "nothing left to compare",
    ],
)
def test_infinities_and_nans(ours, builtin, golden, expected):
    assert ratio(ours, builtin, golden) == expected


def test_other_shapes_dtypes_and_integers():
    golden = tensor(1.0)
    assert error_ratio(tensor(1.0, 1.0), tensor(1.0), golden, 2) == INF
    assert error_ratio(tensor(1.0), tensor(1.0, dtype=torch.float32), golden, 2) == INF
    assert error_ratio(torch.tensor([3]), torch.tensor([3]), torch.tensor([3]), 2) == 1
    assert error_ratio(torch.tensor([3]), torch.tensor([4]), torch.tensor([3]), 2) == INF
    assert error_ratio(tensor(), tensor(), tensor(), 2) == 1


def test_largest():
    assert largest(tensor(1.0, 3.0, 2.0)) == 3
    assert largest(tensor()) == 0
