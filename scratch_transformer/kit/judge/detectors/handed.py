"""What a stack hands its layers, where nothing explains it: the encoder's output first, or all of them the same."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.judge.running import watched
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.paths import OF_LENT_LAYERS


def memory_first(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B25, for information: a decoder's layers are given the encoder's output before the target, and nothing fits."""
    if best is not None or not session.candidate.replaced:
        return
    inputs, orders = session.ran[0].probe.inputs, list[bool]()

    def told(part: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        given = [value for value in args if isinstance(value, Tensor) and value.is_floating_point()]
        if getattr(type(part), "kind_name", "") == "DecoderLayer" and len(given) > 1:
            is_memory = [torch.equal(value, inputs["memory"]) for value in given]
            orders.append(is_memory[0] and not is_memory[1])

    with watched(session.candidate.module, told):
        call(session.candidate, inputs)
    if orders and all(orders):
        said = "Every layer is given the tensor of the encoder as the first of two: right only if it takes them so."
        yield Finding(MISTAKES["B25"], said, OF_LENT_LAYERS)


def the_first_input(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B19: where nothing fits, all layers of a list are given what the first is, and what that makes of it is lost."""
    module = session.candidate.module
    if best is not None or module is None:
        return
    inputs, given = session.ran[0].probe.inputs, dict[nn.Module, list[Any]]()

    def told(part: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        is_clear = args and isinstance(args[0], Tensor) and _doubled(output) is not None
        given.setdefault(part, []).append(args[0] if is_clear else None)

    with watched(module, told):
        expected = call(session.candidate, inputs)
    if torch.equal(expected, expected.flatten()[0].expand_as(expected)):
        return  # nothing depends on anything: a head whose weights are zero at first
    for layers in [part for part in module.modules() if isinstance(part, nn.ModuleList) and len(part) > 1]:
        values = [value for layer in layers for value in given.get(layer, [])]
        are_called = [len(given.get(layer, [])) for layer in layers] == [1] * len(layers)
        are_alike = len({type(layer) for layer in layers}) == 1 and all(isinstance(one, Tensor) for one in values)
        if not are_called or not are_alike or not all(torch.equal(one, values[0]) for one in values):
            continue
        with watched(module, functools.partial(_doubling, layers[0])):
            is_lost = torch.equal(call(session.candidate, inputs), expected)
        if is_lost:
            said = (
                f"All {len(layers)} {type(layers[0]).__name__}s are given the same tensor, and what the first makes of "
            )
            yield Finding(MISTAKES["B19"], f"{said}it may as well be doubled: the output stays as it is.")
            return


def _doubling(layer: nn.Module, part: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
    return _doubled(output) if part is layer else None


def _doubled(output: Any) -> Any:
    """Twice what a layer gives, with weights beside it or without; None of anything else."""
    if isinstance(output, tuple) and output and isinstance(output[0], Tensor):
        return (2 * output[0], *output[1:])
    return 2 * output if isinstance(output, Tensor) else None


HANDED = ((("B25",), memory_first), (("B19",), the_first_input))
