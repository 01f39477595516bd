import numpy as np
import pytest

from scratch_transformer.numpy_oracle.arrays import floats, parameter, prefixed, scope, sum_to


def test_everything_becomes_float64():
    half, integer, nothing = floats(half=np.ones(2, dtype=np.float16), integer=np.arange(3), nothing=None)
    assert half.dtype == integer.dtype == np.float64
    assert nothing is None


@pytest.mark.parametrize("value", [np.ones(2, dtype=complex), np.array(["a"]), np.array([True])])
def test_what_is_not_a_real_number_is_refused_by_name(value):
    with pytest.raises(TypeError, match="x must hold real numbers"):
        floats(x=value)


def test_a_missing_parameter_is_named_with_those_that_exist():
    with pytest.raises(KeyError, match=r"'bias' is missing; given are \['weight'\]"):
        parameter({"weight": np.ones(1)}, "bias")


def test_scope_takes_one_submodule_and_prefixed_undoes_it():
    named = {"a.weight": 1, "a.b.weight": 2, "ab.weight": 3, "weight": 4}
    inner = scope(named, "a")
    assert inner == {"weight": 1, "b.weight": 2}
    assert prefixed("a", inner) == {"a.weight": 1, "a.b.weight": 2}


def test_an_entry_with_the_submodules_own_name_has_the_empty_key():
    assert scope({"a": 1, "a.b": 2}, "a") == {"": 1, "b": 2}


def test_prefixed_drops_what_is_none():
    assert prefixed("a", {"weight": 1, "bias": None}) == {"a.weight": 1}


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 4), (4,), (3, 1), (1, 3, 4), (2, 1, 1), ()])
def test_sum_to_undoes_broadcasting(shape):
    gradient = np.random.default_rng(0).normal(size=(2, 3, 4))
    summed = sum_to(gradient, shape)
    copies = np.broadcast_to(np.arange(np.prod(shape, dtype=int)).reshape(shape), gradient.shape)
    expected = [gradient[copies == i].sum() for i in range(summed.size)]  # one by one: the elements that i went to
    assert summed.shape == shape
    np.testing.assert_allclose(summed.ravel(), expected, rtol=1e-13)
