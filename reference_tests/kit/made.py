"""Candidates for tests: a class with the canonical names, as a learner's class is after it was resolved."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.kind import CanonicalCandidate, Diagnosis, State
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT


class Made(CanonicalCandidate):
    """factory(**settings) -> a module. settings: the arguments that it has."""

    def __init__(self, kind: str, factory: Callable[..., nn.Module], **settings: Any) -> None:
        self.factory, self.given = factory, settings
        super().__init__(KINDS[kind], settings, module=factory(**settings).double().eval())
        self.settings = dict(settings)

    def load(self, state: State) -> State:
        """A single number for all features gets the first one's."""
        assert self.module is not None
        own = dict(self.module.named_parameters())
        scalars = {name for name, p in own.items() if name in state and p.numel() == 1 != state[name].numel()}
        loaded = super().load({n: v[:1] if n in scalars else v for n, v in state.items()})
        return {name: values.expand_as(state[name]) for name, values in loaded.items()}

    def rebuild(self, **settings: Any) -> "Made":
        if settings.keys() - self.given.keys():
            raise KeyError("no such argument")
        again = Made(self.kind.name, self.factory, **{**self.given, **settings})
        again.told = frozenset(self.given)
        return again


def variant(kind: str, settings: dict[str, Any] | None = None, **changes: Any) -> CanonicalCandidate:
    """The reference of a kind with these changes of the recipe."""
    design = next(iter(KINDS[kind].designs.values()))
    return CanonicalCandidate(KINDS[kind], settings or {}, RIGHT.with_({**design, **changes}))


def found(kind: str, factory: Callable[..., nn.Module], **settings: Any) -> Diagnosis:
    return diagnose(Made(kind, factory, **settings))


class Around(nn.Module):
    """Calls a function with the canonical inputs; no parameters."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, **inputs: Any) -> Tensor:
        return self.function(**inputs)
