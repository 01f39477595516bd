"""Which parts of a module run in a call of it, and what they give."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from scratch_transformer.conformance.switches import fast_path
from scratch_transformer.kit.arrays.module import roots_of

Forward = Callable[..., Any]
Given = tuple[tuple[Any, ...], dict[str, Any]]


def running(module: nn.Module | None, run: Callable[[], Any]) -> set[nn.Module]:
    """The parts that are called while something runs, by part(x) or by part.forward(x), which no hook hears of.

    Instances of classes of arrays call each other: all parts of such a module count as called.
    """
    found = {part for root in roots_of(module) for part in root.modules()}
    _noting_calls(module, run, lambda part, args, options: found.add(part))
    return found


def calls_of(cls: type, module: nn.Module | None, run: Callable[[], Any]) -> list[Given]:
    """What the parts of one class are given while something runs, call by call: by place, and by name."""
    found: list[Given] = []
    _noting_calls(module, run, lambda part, *given: found.append(given) if type(part) is cls else None)
    return found


def _noting_calls(
    module: nn.Module | None, run: Callable[[], Any], note: Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]
) -> None:
    """Runs something, and notes each call of a part before it computes."""

    def noting(part: nn.Module, forward: Forward) -> Forward:
        def run_noted(*args: Any, **options: Any) -> Any:
            note(part, args, options)
            return forward(*args, **options)

        return run_noted

    with _forwards(module, noting), fast_path(False):  # which computes a layer without calling its parts
        run()


def watched(
    module: nn.Module | None, told: Callable[[nn.Module, tuple[Any, ...], Any], Any]
) -> contextlib.AbstractContextManager[None]:
    """Tells of every part that computes, its arguments and its output; what that returns takes the output's place."""

    def telling(part: nn.Module, forward: Forward) -> Forward:
        def run(*args: Any, **options: Any) -> Any:
            output = forward(*args, **options)
            other = told(part, args, output)
            return output if other is None else other

        return run

    return _forwards(module, telling)


def parts_of(module: nn.Module | None) -> list[nn.Module]:
    """A module and all of its parts, those in plain lists and dictionaries too, which PyTorch does not see."""
    found, waiting = dict[nn.Module, None](), [] if module is None else [module]
    while waiting:
        if (part := waiting.pop()) not in found:
            found[part] = None
            kept = [value for value in vars(part).values() if isinstance(value, (list, tuple, dict))]
            listed = [one for value in kept for one in (value.values() if isinstance(value, dict) else value)]
            waiting += [*part.children(), *(one for one in listed if isinstance(one, nn.Module))]
    return [*found]


@contextlib.contextmanager
def _forwards(module: nn.Module | None, made_of: Callable[[nn.Module, Forward], Forward]) -> Iterator[None]:
    """Within this context each part has a forward that is made of its own: part.forward(x) calls that too."""
    parts = parts_of(module)
    own = {part: vars(part)["forward"] for part in parts if "forward" in vars(part)}
    for part in parts:
        vars(part)["forward"] = made_of(part, part.forward)
    try:
        yield
    finally:
        for part in parts:
            del vars(part)["forward"]
            vars(part).update({"forward": own[part]} if part in own else {})
