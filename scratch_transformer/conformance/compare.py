"""The comparison by the doctrine: one case of a component, ours against the builtin.

In float64 the definition: outputs, the state afterwards, and the gradients of all inputs and parameters agree to 1e-12.
In float32, bfloat16 and float16 the precision: our error against the float64 result is at most twice the builtin's own
error (three times for gradients) plus a rounding floor.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.conformance.component import Call, Case, Component
from scratch_transformer.conformance.draw import Draw

DEFINITION = 1e-12
"""Largest relative error in float64: ‖ours - builtin‖∞ / ‖builtin‖∞, for every tensor by itself.

A tensor that is (nearly) zero by mathematics, such as the gradient of a key's bias, consists of rounding errors. So the
denominator is never less than 1/1000 of the largest tensor that the call produced.
"""

OUTPUT_LIMIT, GRADIENT_LIMIT = 2.0, 3.0
"""Largest ratio of our error to the builtin's own error in low precision."""


@dataclass(frozen=True)
class Outcome:
    """What a call produced: its outputs with the state it left behind, and its gradients, by name."""

    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]


@dataclass(frozen=True)
class Equality:
    """How ours and the builtin agree in one case, in float64."""

    output_error: float
    gradient_error: float
    is_bitwise: bool

    @property
    def passed(self) -> bool:
        return max(self.output_error, self.gradient_error) <= DEFINITION


@dataclass(frozen=True)
class Precision:
    """Ratios of our error to the builtin's in one case, in low precision, tensor by tensor.

    Each is the median over several draws: where a rounding error flips a ReLU in one implementation and not in the
    other, the gradients of that draw say nothing about precision.
    """

    output_ratios: tuple[float, ...]
    gradient_ratios: tuple[float, ...]

    @property
    def passed(self) -> bool:
        return max(self.output_ratios) <= OUTPUT_LIMIT and max(self.gradient_ratios, default=0) <= GRADIENT_LIMIT


def compare_definition(component: Component, case: Case, seed: int = 0, device: str = "cpu") -> Equality:
    """Run ours and the builtin with the same parameters and inputs in float64."""
    ours, builtin = (run(component, factory, case, torch.float64, seed, device) for factory in _factories(component))
    pairs = [*_pairs(ours.outputs, builtin.outputs), *_pairs(ours.gradients, builtin.gradients)]
    return Equality(
        output_error=_worst_error(ours.outputs, builtin.outputs),
        gradient_error=_worst_error(ours.gradients, builtin.gradients),
        is_bitwise=all(relative_error(a, b) == 0 for a, b in pairs),
    )


def compare_precision(
    component: Component, case: Case, dtype: torch.dtype, seed: int = 0, device: str = "cpu", draws: int = 3
) -> Precision:
    """Run ours and the builtin in `dtype`, and the builtin in float64 on the same, already rounded, values."""
    every = [_precision_of_draw(component, case, dtype, seed + i, device) for i in range(draws)]
    medians = [tuple(map(statistics.median, zip(*ratios, strict=True))) for ratios in zip(*every, strict=True)]
    return Precision(*medians)


def _precision_of_draw(
    component: Component, case: Case, dtype: torch.dtype, seed: int, device: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    ours, builtin = (run(component, factory, case, dtype, seed, device) for factory in _factories(component))
    golden = run(component, component.builtin, case, torch.float64, seed, device, rounded_to=dtype)

    def ratios(kind: str, limit: float) -> tuple[float, ...]:
        triples = zip(*(list(getattr(outcome, kind).values()) for outcome in (ours, builtin, golden)), strict=True)
        return tuple(error_ratio(a, b, gold, limit) for a, b, gold in triples)

    return ratios("outputs", OUTPUT_LIMIT), ratios("gradients", GRADIENT_LIMIT)


def relative_error(actual: Tensor, expected: Tensor, least_scale: float = 0.0) -> float:
    """‖actual - expected‖∞ / max(‖expected‖∞, least_scale). Infinite unless shape, dtype, infinities and NaNs agree."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    finite = expected.isfinite()
    if not (
        actual.isfinite().equal(finite) and torch.equal(actual[~finite].nan_to_num(0), expected[~finite].nan_to_num(0))
    ):
        return float("inf")
    if not finite.any():
        return 0.0
    actual, expected = actual[finite].double(), expected[finite].double()
    scale = max(expected.abs().max().item(), least_scale)
    difference = (actual - expected).abs().max().item()
    return difference / scale if scale > 0 else difference


def error_ratio(ours: Tensor, builtin: Tensor, golden: Tensor, limit: float) -> float:
    """(our error + f) / (builtin's error + f), errors as ‖·- golden‖∞.

    With f = floor / (limit - 1) the ratio is at most `limit` exactly when our error ≤ limit · builtin's error + floor.
    The floor is the bound of 2 max |g + 0.3 - 0.3 - g|, g the golden result: one unit in the last place of |g| or 0.3.
    """
    if ours.shape != builtin.shape or ours.dtype != builtin.dtype:
        return float("inf")
    if not ours.is_floating_point() or ours.numel() == 0:
        return 1.0 if torch.equal(ours, builtin) else float("inf")
    finite = golden.isfinite()
    if not finite.all():
        if relative_error(ours.isfinite().double(), builtin.isfinite().double()):
            return float("inf")
        ours, builtin, golden = (x.masked_fill(~finite, 0) for x in (ours, builtin, golden))
    floor = torch.finfo(ours.dtype).eps * max(golden.abs().max().item(), 0.3)
    f = floor / (limit - 1)
    our_error, builtin_error = ((x.double() - golden).abs().max().item() for x in (ours, builtin))
    return (our_error + f) / (builtin_error + f)


def run(
    component: Component,
    factory: Callable[..., Any],
    case: Case,
    dtype: torch.dtype,
    seed: int = 0,
    device: str = "cpu",
    rounded_to: torch.dtype | None = None,
) -> Outcome:
    """Build, call and differentiate `factory` on the inputs that `seed` draws for this case.

    All factories get the same parameters, those of the builtin. rounded_to: round parameters and inputs to this dtype
    first, so that a float64 run sees the values that a low-precision run sees.
    """
    draw = Draw(seed, rounded_to or dtype, device)
    callee = component.build(factory, case.init)
    if isinstance(callee, nn.Module):
        original = component.build(component.builtin, case.init)
        assert isinstance(original, nn.Module)
        draw.randomise(original)
        state = original.to(device, rounded_to or dtype).state_dict()
        callee.to(device, dtype).load_state_dict(copy.deepcopy(state), strict=True)
        callee.train(case.training)
    call = _leaves(case.call(draw), dtype)
    torch.manual_seed(seed)  # for dropout
    outputs = dict(_flatten(callee(*call.args, **call.kwargs)))
    upstream = {name: draw.normal(*output.shape).to(dtype) for name, output in outputs.items()}
    gradients = _gradients(outputs, upstream, dict(_inputs(callee, call)))
    state_after = dict(callee.state_dict()) if isinstance(callee, nn.Module) else {}
    detached = {name: output.detach() for name, output in outputs.items()}
    return Outcome({**detached, **{f"state {name}": value for name, value in state_after.items()}}, gradients)


def _factories(component: Component) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return component.ours, component.builtin


def _worst_error(ours: dict[str, Tensor], builtin: dict[str, Tensor]) -> float:
    largest = max((x[x.isfinite()].abs().max().item() for x in builtin.values() if x.isfinite().any()), default=0.0)
    return max((relative_error(a, b, largest / 1000) for a, b in _pairs(ours, builtin)), default=0.0)


def _pairs(ours: dict[str, Tensor], builtin: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    assert list(ours) == list(builtin), f"ours has {list(ours)}, the builtin {list(builtin)}"
    return [(ours[name], builtin[name]) for name in ours]


def _leaves(call: Call, dtype: torch.dtype) -> Call:
    """The call with floating-point tensors as leaves in `dtype` that collect gradients, once for every distinct tensor."""
    made: dict[int, Tensor] = {}

    def leaf(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        if id(value) not in made:  # self-attention passes one tensor three times: it is one leaf
            made[id(value)] = value.detach().to(dtype, copy=True).requires_grad_()
        return made[id(value)]

    return Call(*map(leaf, call.args), **{name: leaf(value) for name, value in call.kwargs.items()})


def _flatten(output: Any) -> Iterator[tuple[str, Tensor]]:
    parts = output if isinstance(output, tuple) else (output,)
    return ((f"output {i}", part) for i, part in enumerate(parts) if part is not None)


def _inputs(callee: Any, call: Call) -> Iterator[tuple[str, Tensor]]:
    """Everything that can collect a gradient, by name."""
    for name, value in [*enumerate(call.args), *call.kwargs.items()]:
        if isinstance(value, Tensor) and value.requires_grad:
            yield f"input {name}", value
    if isinstance(callee, nn.Module):
        yield from callee.named_parameters()


def _gradients(outputs: dict[str, Tensor], upstream: dict[str, Tensor], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    reached = [name for name, output in outputs.items() if output.requires_grad]
    if not reached or not inputs:
        return {}
    gradients = torch.autograd.grad(
        [outputs[name] for name in reached],
        list(inputs.values()),
        [upstream[name] for name in reached],
        allow_unused=True,
    )
    return {
        name: torch.zeros_like(x) if g is None else g for (name, x), g in zip(inputs.items(), gradients, strict=True)
    }
