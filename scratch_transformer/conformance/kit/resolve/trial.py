"""How well a way of calling and a layout of weights explain a learner's outputs, by the reference and every variant."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.conformance.kit.kind import Candidate, Inputs, Kind, Probe, State, random_state
from scratch_transformer.conformance.kit.recipe import RIGHT, Recipe
from scratch_transformer.conformance.kit.search import FILLS, TOGETHER, changes_of, compatible
from scratch_transformer.conformance.kit.session import ROUNDED, call, distance

Score = tuple[int, float]
"""Tier and error: 0 = a right design, 1 = with the mistakes of its parts, 2 = with a mistake, 3 = nothing fits,
4 = it stops with an error."""
NOTHING = 3
INHERITED = ("norm_order", "activation")
"""Entries of the recipe in which a whole does as its parts."""
SECONDS = 1.0
"""Of computing, for the search for a mistake in one layout of weights."""
MOST_DESIGNS, MOST_NEAR = 24, 6


class Trial:
    """For one kind and its settings. known: ids of mistakes in the parts."""

    def __init__(
        self, kind: Kind, settings: Mapping[str, Any], known: Sequence[str] = (),
        fixed: Mapping[str, Any] | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        self.kind, self.settings = kind, kind.complete(settings)
        self.probes = kind.probes(self.settings, seed)
        full = kind.build(self.settings, RIGHT.with_(kind.full)).double()
        self.asked: State = random_state(full, seed)
        self.shapes = {name: tuple(values.shape) for name, values in self.asked.items()}
        self.designs = _consistent(kind, fixed or {})
        self.design: Mapping[str, Any] = {}
        self.found: tuple[int, Recipe] | None = None
        """What explained the candidate last, and its tier: with masks it is what is most likely right."""
        self._makers = self._make_tiers(known)
        self._recipes: dict[int, list[Recipe]] = {}
        self._distances: dict[int, float] = {}
        self._outputs: dict[tuple[bytes, Recipe, str], Tensor | None] = {}
        self._modules: dict[Recipe, tuple[Any, bytes]] = {}

    def _make_tiers(self, known: Sequence[str]) -> list[Callable[[], list[Recipe]]]:
        """Recipes: right; with the mistakes of the parts; with one mistake, or a few that come together."""
        designs = self.designs
        changes = changes_of(self.kind)
        base = [c for c in changes if c.id in known]
        combined = [c for n in range(len(base), 0, -1) for c in itertools.combinations(base, n) if compatible(c)][:40]
        biggest = combined[0] if combined else ()
        together = [
            c for ids in TOGETHER
            for c in itertools.product(*([change for change in changes if change.id == i] for i in ids))
        ]  # fmt: skip
        singles = [(*biggest, c) for c in changes if biggest and compatible((*biggest, c))]
        alone = [(c,) for c in changes]

        def mistaken() -> list[Recipe]:
            near = self._near(designs)
            return _recipes(near, [*alone, *together, *singles])

        return [
            lambda: [RIGHT.with_(design) for design in designs],
            lambda: _recipes(self._near(designs), combined),
            mistaken,
        ]

    def _near(self, designs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The designs worth combining with mistakes: all, or of very many the few that were nearest by themselves."""
        if len(designs) <= MOST_DESIGNS:
            return designs
        order = sorted(range(len(designs)), key=lambda i: self._distances.get(i, float("inf")))
        return [designs[i] for i in order[:MOST_NEAR]]

    def score(self, candidate: Candidate, probes: Iterable[Probe], enough: int = NOTHING) -> Score:
        """Of a candidate whose parameters can be loaded. enough: the number of tiers to try; 0: only what was found."""
        try:
            state = candidate.load(self.asked)
        except Exception:  # the learner's code may raise anything
            return NOTHING, float("inf")
        outputs = [(probe, _output(candidate, probe)) for probe in probes]
        if all(output is None for _, output in outputs):
            return NOTHING + 1, float("inf")
        key = b"".join(values.numpy().tobytes() for values in state.values())
        for recipe in self._again():
            error = self._error(recipe, key, state, outputs, ROUNDED)
            if self.found and error <= ROUNDED:
                return self.found[0], error
        best, deadline = float("inf"), time.process_time() + SECONDS
        for tier in range(min(enough, NOTHING)):
            if tier and not any(output is not None and output.isfinite().all() for _, output in outputs):
                break
            for index, recipe in enumerate(self.recipes(tier)):
                if tier == NOTHING - 1 and time.process_time() > deadline:
                    break
                error = self._error(recipe, key, state, outputs, ROUNDED if tier else float("inf"))
                if error <= ROUNDED:
                    self.found = tier, recipe
                    self.design = {name: getattr(recipe, name) for name in INHERITED}
                    return tier, error
                if tier == 0:
                    self._distances[index] = error
                    best = min(best, error)
        return NOTHING, best

    def _again(self) -> list[Recipe]:
        """What was found, with every way to treat queries that may attend to nothing."""
        return [self.found[1].with_({"fill": fill}) for fill in FILLS] if self.found else []

    def recipes(self, tier: int) -> list[Recipe]:
        """The recipes of a tier; made when first needed."""
        if tier not in self._recipes:
            found = self._makers[tier]()
            if tier == 0 or len(self.designs) <= MOST_DESIGNS:
                self._recipes[tier] = found
            return found
        return self._recipes[tier]

    def _error(
        self, recipe: Recipe, key: bytes, state: State, outputs: list[tuple[Probe, Tensor | None]], limit: float
    ) -> float:
        worst = 0.0
        for probe, output in outputs:
            expected = self._expected(recipe, key, state, probe)
            if output is not None or expected is not None:  # some mistakes stop with an error, like queries for keys
                worst = max(worst, distance(output, expected, probe))
            if worst > limit:
                break
        return worst

    def _expected(self, recipe: Recipe, key: bytes, state: State, probe: Probe) -> Tensor | None:
        name = (key, recipe, probe.name)
        if name not in self._outputs:
            try:
                self._outputs[name] = call(self._module(recipe, key, state), probe.inputs)
            except (RuntimeError, ValueError, IndexError):
                self._outputs[name] = None
        return self._outputs[name]

    def _module(self, recipe: Recipe, key: bytes, state: State) -> Any:
        module, loaded = self._modules.get(recipe, (None, b"-"))
        if module is None:
            module = self.kind.build(self.settings, recipe).double().eval()
        if loaded != key:
            own = module.state_dict()
            module.load_state_dict({name: state.get(name, values) for name, values in own.items()})
            self._modules[recipe] = module, key
        return module

    def expected_shape(self, inputs: Inputs) -> torch.Size | None:
        """Of the output."""
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = self._module(self.recipes(0)[0], b"", self.asked)
                return torch.Size(call(module, inputs).shape)
            except (RuntimeError, ValueError, IndexError):
                return None


def _output(candidate: Candidate, probe: Probe) -> Tensor | None:
    """None if it stops with an error."""
    try:
        return call(candidate, probe.inputs)
    except Exception:  # the learner's code may raise anything
        return None


def _consistent(kind: Kind, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The designs that a whole can have whose parts have these choices."""
    designs = [dict(changes) for changes in kind.designs.values()]
    kept = [d for d in designs if all(d.get(name, value) == value for name, value in fixed.items())]
    return kept or designs


def _recipes(designs: Sequence[Mapping[str, Any]], combinations: Iterable[Sequence[Any]]) -> list[Recipe]:
    found: dict[Recipe, None] = {}
    for changes in combinations:
        merged = {name: value for change in changes for name, value in change.entries}
        for design in designs:
            recipe = RIGHT.with_({**design, **merged})
            fills: Sequence[str] = (recipe.fill,) if "fill" in merged else FILLS
            for fill in fills:
                found.setdefault(recipe.with_({"fill": fill}))
    return list(found)
