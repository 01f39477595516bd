"""The comparison by the doctrine: one case of a component, ours against the builtin.

In float64 the definition: outputs, the state afterwards, and the gradients of all inputs and parameters agree to 1e-12.
In float32, bfloat16 and float16 the precision: our error against the float64 result is at most twice the builtin's own
error (three times for gradients) plus a rounding floor.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from scratch_transformer.conformance.component import Case, Component
from scratch_transformer.conformance.measures import error_ratio, largest, relative_error
from scratch_transformer.conformance.run import run

DEFINITION = 1e-12
"""Largest relative error in float64: ‖ours - builtin‖∞ / ‖builtin‖∞, for every tensor by itself.

A tensor that is (nearly) zero by mathematics, such as the gradient of a key's bias, consists of rounding errors. So the
denominator is never less than 1/1000 of the largest tensor that the call produced.
"""

OUTPUT_LIMIT, GRADIENT_LIMIT = 2.0, 3.0
"""Largest ratio of our error to the builtin's own error in low precision."""

DRAWS = (3, 9, 27)
"""How many draws of parameters and inputs a ratio is the median of: more where fewer exceed the limit.

One draw is a lottery: with a ReLU the ratio exceeds 3 in one draw of ten, for ours and for the builtin alike. What is
less precise stays so in 27 draws; what had bad luck does not.
"""


class BuiltinUnsupported(NotImplementedError):
    """The builtin cannot run in this dtype on this device, so there is nothing to compare with."""


@dataclass(frozen=True)
class Equality:
    """How two implementations agree in one case, in float64: the largest relative errors."""

    output_error: float
    gradient_error: float
    is_bitwise: bool
    limit: float = DEFINITION

    @property
    def passed(self) -> bool:
        return max(self.output_error, self.gradient_error) <= self.limit

    def __str__(self) -> str:
        errors = f"relative error {self.output_error:.1e}, of gradients {self.gradient_error:.1e}"
        return f"{errors}; allowed is {self.limit:.0e}"


@dataclass(frozen=True)
class Precision:
    """Ratios of our error to the builtin's in one case, in low precision, tensor by tensor.

    Each is the median over several draws: where a rounding error flips a ReLU in one implementation and not in the
    other, the gradients of that draw say nothing about precision.
    """

    output_ratios: tuple[float, ...]
    gradient_ratios: tuple[float, ...]
    draws: int

    @property
    def passed(self) -> bool:
        return self.output_ratio <= OUTPUT_LIMIT and self.gradient_ratio <= GRADIENT_LIMIT

    @property
    def output_ratio(self) -> float:
        """The worst of the outputs."""
        return max(self.output_ratios, default=1.0)

    @property
    def gradient_ratio(self) -> float:
        """The worst of the gradients."""
        return max(self.gradient_ratios, default=1.0)

    def __str__(self) -> str:
        return (
            f"{self.output_ratio:.2f} × the builtin's own error, allowed is {OUTPUT_LIMIT:g}; "
            f"of gradients {self.gradient_ratio:.2f} ×, allowed is {GRADIENT_LIMIT:g}"
        )


def compare_definition(component: Component, case: Case, seed: int = 0, device: str = "cpu") -> Equality:
    """Run ours and the builtin with the same parameters and inputs in float64."""
    ours, builtin = (
        run(component, factory, case, torch.float64, seed, device) for factory in (component.ours, component.builtin)
    )
    return equality(ours.outputs, builtin.outputs, ours.gradients, builtin.gradients)


def equality(
    outputs: dict[str, Tensor],
    expected_outputs: dict[str, Tensor],
    gradients: dict[str, Tensor],
    expected_gradients: dict[str, Tensor],
    limit: float = DEFINITION,
) -> Equality:
    """The worst errors of tensors that are matched by name."""
    pairs = [*_pairs(outputs, expected_outputs), *_pairs(gradients, expected_gradients)]
    return Equality(
        output_error=_worst_error(outputs, expected_outputs),
        gradient_error=_worst_error(gradients, expected_gradients),
        is_bitwise=all(relative_error(a, b) == 0 for a, b in pairs),
        limit=limit,
    )


def compare_precision(
    component: Component,
    case: Case,
    dtype: torch.dtype,
    seed: int = 0,
    device: str = "cpu",
    draws: tuple[int, ...] = DRAWS,
) -> Precision:
    """Run ours and the builtin in `dtype`, and the builtin in float64 on the same, already rounded, values.

    Raises:
        BuiltinUnsupported: the builtin cannot run in `dtype` on `device`.
    """
    every: list[tuple[tuple[float, ...], tuple[float, ...]]] = []
    for count in draws:
        every += [_precision_of_draw(component, case, dtype, seed + i, device) for i in range(len(every), count)]
        outputs, gradients = (_medians(ratios) for ratios in zip(*every, strict=True))
        precision = Precision(outputs, gradients, count)
        if precision.passed:
            break
    return precision


def _medians(ratios: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """Over the draws, tensor by tensor."""
    return tuple(map(statistics.median, zip(*ratios, strict=True)))


def _precision_of_draw(
    component: Component, case: Case, dtype: torch.dtype, seed: int, device: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    golden = run(component, component.builtin, case, torch.float64, seed, device, rounded_to=dtype)
    try:
        builtin = run(component, component.builtin, case, dtype, seed, device)
    except RuntimeError as error:
        raise BuiltinUnsupported(f"builtin unsupported in {dtype} on {device}: {error}") from error
    ours = run(component, component.ours, case, dtype, seed, device)
    return (
        _ratios(ours.outputs, builtin.outputs, golden.outputs, OUTPUT_LIMIT),
        _ratios(ours.gradients, builtin.gradients, golden.gradients, GRADIENT_LIMIT),
    )


def _ratios(
    ours: dict[str, Tensor], builtin: dict[str, Tensor], golden: dict[str, Tensor], limit: float
) -> tuple[float, ...]:
    pairs = zip(_pairs(ours, builtin), _pairs(ours, golden), strict=True)
    return tuple(error_ratio(a, b, gold, limit) for (a, b), (_, gold) in pairs)


def _worst_error(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    scale = max((largest(x[x.isfinite()].double().abs()) for x in expected.values()), default=0.0)
    return max((relative_error(a, b, scale / 1000) for a, b in _pairs(actual, expected)), default=0.0)


def _pairs(ours: dict[str, Tensor], expected: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    if list(ours) != list(expected):
        raise AssertionError(f"ours produced {list(ours)}, but the other {list(expected)}")
    return [(ours[name], expected[name]) for name in ours]
