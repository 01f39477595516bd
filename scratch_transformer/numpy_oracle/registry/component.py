"""How a component is run: constructor arguments, parameters and inputs in; output and all gradients out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Parameters, floats, require
from ..dropout import KeepMasks
from .shapes import Shapes

FACTORY_ARGUMENTS = ("device", "dtype")  # the oracle computes in float64 on the CPU, whatever they say
Gradients = tuple[dict[str, Array | None], dict[str, Array | None]]  # of inputs and of parameters, by name


class Result(NamedTuple):
    """What `run` returns."""

    output: Any  # an array, or a tuple where the module returns one
    input_gradients: dict[int | str, Array]  # of the differentiable inputs, keyed by position or by keyword as passed
    parameter_gradients: dict[str, Array]  # keyed as the state_dict, without buffers
    buffers: dict[str, Array]  # the state_dict's entries that this call changed, with their new values


class Component:
    """The oracle's counterpart of one torch.nn module.

    A subclass has torch's constructor arguments, which set `shapes` (of the parameters) and `buffer_shapes`; `inputs`,
    the names of the module's inputs in torch's order; `forward`, which takes them by name and returns the output; and
    `backward`, which takes the gradient of the output and returns those of the inputs and the parameters, by name. None
    stands for "not differentiable" or "not there".
    """

    inputs: tuple[str, ...] = ("input",)
    forward: Callable[..., Any]
    backward: Callable[[Any], Gradients]

    def __init__(self) -> None:
        self.shapes: Shapes = {}
        self.buffer_shapes: Shapes = {}
        self.state: dict[str, Array] = {}
        self.buffers: dict[str, Array] = {}
        self.cache: Any = ()
        self.training = False
        self.keep_masks: KeepMasks | None = None

    def load(self, parameters: Parameters) -> None:
        """Take the parameters and buffers.

        Raises:
            ValueError: keys are missing or unknown, or a shape is not the constructor's.
        """
        name, expected = type(self).__name__, self.shapes | self.buffer_shapes
        missing, unknown = sorted(set(expected) - set(parameters)), sorted(set(parameters) - set(expected))
        require(not missing and not unknown, f"{name}: parameters missing {missing}, unknown {unknown}")
        for key, shape in expected.items():
            found = np.shape(parameters[key])
            require(found == shape, f"{name}: parameter {key!r} must have shape {shape}, but has {found}")
            (self.state[key],) = floats(**{key: parameters[key]})


def run(
    kind: type[Component],
    constructor: Mapping[str, Any],
    parameters: Parameters,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    upstream: Any = None,
    *,
    training: bool = False,
    keep_masks: KeepMasks | None = None,
) -> Result:
    """Run the component forward and, given the gradient of its output, backward.

    Args:
        kind: the component.
        constructor: torch's constructor arguments by name; device and dtype are ignored.
        parameters: the module's state_dict as arrays.
        args, kwargs: the inputs, as arrays, as they would be passed to the module.
        upstream: the gradient of the output, or a tuple of them where the output is a tuple (None where one has no
            gradient, and one array for the first). None: only forward, and no gradients in the result.
        training: normalise by the batch's statistics, and drop what `keep_masks` says. In eval mode nothing is dropped.
        keep_masks: what survives dropout, keyed by the dotted name of the module that drops ("" for the component).

    Returns:
        output and gradients, in float64. An array passed as several inputs has its gradient in as many parts.

    Raises:
        TypeError: the constructor or `forward` does not have such an argument.
        ValueError: shapes disagree, or parameters are missing or unknown.
        KeyError: in training, a dropout with p > 0 has no keep-mask.
        NotImplementedError: an option that the oracle does not have; the message names it.
    """
    component = kind(**named_arguments(constructor))
    component.load(parameters)
    component.training = training
    component.keep_masks = (keep_masks or {}) if training else None
    passed = _inputs_by_name(component, args, kwargs or {})
    output = component.forward(**dict(passed.values()))
    if upstream is None:
        return Result(output, {}, {}, component.buffers)
    _check_upstream(kind.__name__, upstream, output)
    of_inputs, of_parameters = component.backward(upstream)
    input_gradients = {how: of_inputs.get(name) for how, (name, _) in passed.items()}
    return Result(output, _present(input_gradients), _present(of_parameters), component.buffers)


def named_arguments(constructor: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor's arguments without device and dtype."""
    return {name: value for name, value in constructor.items() if name not in FACTORY_ARGUMENTS}


def _inputs_by_name(
    component: Component, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[int | str, tuple[str, Any]]:
    """Return how each input was passed (position or keyword), with its name and value."""
    kind, names = type(component).__name__, component.inputs
    if len(args) > len(names) or not set(kwargs) <= set(names[len(args) :]):
        raise TypeError(
            f"{kind}: inputs are {names}, but {len(args)} were passed by position and {sorted(kwargs)} by name"
        )
    passed: dict[int | str, tuple[str, Any]] = {i: (names[i], value) for i, value in enumerate(args)}
    return passed | {name: (name, value) for name, value in kwargs.items()}


def _present(gradients: Mapping[Any, Array | None]) -> dict[Any, Array]:
    return {name: gradient for name, gradient in gradients.items() if gradient is not None}


def _check_upstream(name: str, upstream: Any, output: Any) -> None:
    pairs = zip(upstream, output, strict=True) if isinstance(upstream, tuple) else [(upstream, _first(output))]
    for gradient, value in pairs:
        found, expected = np.shape(gradient), np.shape(value)
        fits = gradient is None or found == expected
        require(fits, f"{name}: upstream must have the output's shape {expected}, but has {found}")


def _first(output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output
