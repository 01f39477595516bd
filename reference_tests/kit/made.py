"""Candidates for tests: a class with the canonical names, as a learner's class is after it was resolved."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.divergence import record
from scratch_transformer.kit.kind import Candidate, Diagnosis, Kind, Settings, State
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT, Recipe


class CanonicalCandidate(Candidate):
    """A module that is canonical already: the reference, or a variant."""

    def __init__(
        self, kind: Kind, settings: Settings | None = None, recipe: Recipe = RIGHT, module: nn.Module | None = None
    ) -> None:
        self.recipe = recipe
        super().__init__(kind, module or kind.reference(settings, recipe), kind.complete(settings or {}))

    def load(self, state: State) -> State:
        assert self.module is not None
        own = self.module.state_dict()
        self.module.load_state_dict({name: state.get(name, values) for name, values in own.items()})
        loaded = self.module.state_dict()
        self.missing = frozenset(state.keys() - own.keys())
        return {name: loaded.get(name, _neutral(name, values)) for name, values in state.items()}

    def rebuild(self, **settings: Any) -> Candidate:
        unknown = settings.keys() - self.settings.keys()
        if unknown:
            raise KeyError(f"{self.kind.name} has no setting {', '.join(sorted(unknown))}")
        return CanonicalCandidate(self.kind, {**self.settings, **settings}, self.recipe)

    def intermediates(self, **inputs: Any) -> dict[str, Tensor]:
        assert self.module is not None
        return record(self.module, inputs)


def _neutral(name: str, like: Tensor) -> Tensor:
    """What a parameter that isn't there does: a bias adds 0, a norm's scale multiplies by 1."""
    return like.new_zeros(like.shape) if name.endswith("bias") else like.new_ones(like.shape)


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
