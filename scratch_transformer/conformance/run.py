"""One run of one case: build ours or the builtin, give it parameters and inputs, call it, differentiate it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.conformance.component import Call, Case, Component
from scratch_transformer.conformance.draw import Draw


@dataclass(frozen=True)
class Outcome:
    """What a run produced: its outputs with what it changed of the state, and its gradients, by name; and from what.

    state: parameters and buffers before the call. upstream: the gradients of the outputs, from which the others follow.
    is_random: whether the call drew random numbers, as dropout does.
    """

    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]
    call: Call
    state: dict[str, Tensor]
    upstream: dict[str, Tensor]
    is_random: bool


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
    init = copy.deepcopy(dict(case.init))  # a module may keep a tensor of the table as its own, and is randomised below
    callee = component.build(factory, init)
    state: dict[str, Tensor] = {}
    if isinstance(callee, nn.Module):
        original = component.build(component.builtin, init)
        assert isinstance(original, nn.Module)
        draw.randomise(original)
        callee.to(device, dtype).load_state_dict(original.to(device, rounded_to or dtype).state_dict(), strict=True)
        callee.train(case.training)
        state = copy.deepcopy(dict(callee.state_dict()))
    call = _leaves(case.call(draw), dtype)
    torch.manual_seed(seed)  # for dropout
    stream = _random_stream(device)
    outputs = dict(_flatten(callee(*call.args, **call.kwargs)))
    is_random = not stream.equal(_random_stream(device))
    upstream = {name: draw.normal(*output.shape).to(dtype) for name, output in outputs.items()}
    gradients = _gradients(outputs, upstream, dict(_inputs(callee, call)))
    outputs = {name: output.detach() for name, output in outputs.items()}
    outputs |= {f"state {name}": value for name, value in _changes(callee, state)}
    return Outcome(outputs, gradients, call, state, upstream, is_random)


def _random_stream(device: str) -> Tensor:
    """Where the generator that dropout draws from has arrived."""
    return torch.cuda.get_rng_state(device) if torch.device(device).type == "cuda" else torch.get_rng_state()


def _leaves(call: Call, dtype: torch.dtype) -> Call:
    """The call with its floating-point tensors as leaves in `dtype` that collect gradients."""
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


def _changes(callee: Any, state: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """What the call changed in the module: running averages, or rows that max_norm shortened."""
    state_after = callee.state_dict() if isinstance(callee, nn.Module) else {}
    return ((name, value) for name, value in state_after.items() if not value.equal(state[name]))


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
