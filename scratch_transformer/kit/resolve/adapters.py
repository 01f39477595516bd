"""A learner's adapters: functions, named like kinds, that build and call what could not be resolved by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

from scratch_transformer.kit.kind import Candidate, Inputs, Kind, State
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import tensors


class Adapted(Candidate):
    """function(weights, **inputs) -> output, all canonical."""

    def __init__(self, kind: Kind, function: Callable[..., Any]) -> None:
        super().__init__(kind, None, kind.defaults)
        self.function = function
        self.weights: State = {}

    def load(self, state: State) -> State:
        self.weights = dict(state)
        return dict(state)

    def accepts(self, inputs: Inputs) -> bool:
        """An adapter takes whatever its kind does."""
        return True

    def __call__(self, **inputs: Any) -> Tensor:
        with double():
            found = next(tensors(self.function(self.weights, **inputs)), None)
        if found is None:
            raise TypeError(f"the adapter {self.kind.name} returned no tensor")
        return found


def adapted(namespace: Mapping[str, Any], kinds: Mapping[str, Kind]) -> Iterator[tuple[str, Adapted]]:
    """The adapters in a namespace."""
    for name, kind in kinds.items():
        function = namespace.get(name)
        if inspect.isfunction(function):
            yield name, Adapted(kind, function)
