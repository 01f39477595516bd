import numpy as np
import pytest

from scratch_transformer.numpy_oracle import ORACLES

LINEAR = {"in_features": 2, "out_features": 3}
PARAMETERS = {"weight": np.ones((3, 2)), "bias": np.ones(3)}
X, DY = np.ones((4, 2)), np.ones((4, 3))


def test_gradients_are_keyed_as_the_inputs_were_passed():
    by_position = ORACLES["Linear"](LINEAR, PARAMETERS, (X,), {}, DY)
    by_name = ORACLES["Linear"](LINEAR, PARAMETERS, (), {"input": X}, DY)
    assert list(by_position.input_gradients) == [0]
    assert list(by_name.input_gradients) == ["input"]
    np.testing.assert_array_equal(by_position.input_gradients[0], by_name.input_gradients["input"])


def test_without_an_upstream_gradient_there_is_only_an_output():
    result = ORACLES["Linear"](LINEAR, PARAMETERS, (X,))
    np.testing.assert_array_equal(result.output, np.full((4, 3), 3.0))
    assert (result.input_gradients, result.parameter_gradients, result.buffers) == ({}, {}, {})


def test_everything_is_computed_in_float64():
    single = {key: value.astype(np.float32) for key, value in PARAMETERS.items()}
    result = ORACLES["Linear"](LINEAR | {"dtype": "float32", "device": "cpu"}, single, (X.astype(np.float32),), {}, DY)
    assert result.output.dtype == result.input_gradients[0].dtype == np.float64
    assert all(gradient.dtype == np.float64 for gradient in result.parameter_gradients.values())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"weight": np.ones((3, 2))}, r"Linear: parameters missing \['bias'\], unknown \[\]"),
        (PARAMETERS | {"scale": np.ones(1)}, r"Linear: parameters missing \[\], unknown \['scale'\]"),
        (PARAMETERS | {"weight": np.ones((2, 3))}, r"parameter 'weight' must have shape \(3, 2\), but has \(2, 3\)"),
    ],
)
def test_parameters_must_be_the_constructors(parameters, message):
    with pytest.raises(ValueError, match=message):
        ORACLES["Linear"](LINEAR, parameters, (X,), {}, DY)


def test_an_unknown_constructor_argument_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'features'"):
        ORACLES["Linear"](LINEAR | {"features": 2}, PARAMETERS, (X,), {}, DY)


@pytest.mark.parametrize(("args", "kwargs"), [((X, X), {}), ((X,), {"input": X}), ((), {"inputs": X})])
def test_inputs_that_the_module_does_not_have_are_refused(args, kwargs):
    with pytest.raises(TypeError, match=r"Linear: inputs are \('input',\)"):
        ORACLES["Linear"](LINEAR, PARAMETERS, args, kwargs, DY)


def test_the_upstream_gradient_must_have_the_outputs_shape():
    with pytest.raises(ValueError, match=r"Linear: upstream must have the output's shape \(4, 3\), but has \(3,\)"):
        ORACLES["Linear"](LINEAR, PARAMETERS, (X,), {}, np.ones(3))
