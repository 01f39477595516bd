"""A candidate on its probes, beside the reference and its variants with the same weights."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.judge.variants import Variants, called, copies
from scratch_transformer.kit.kind import Candidate, Oracle, Probe, Settings, State, asked_of
from scratch_transformer.kit.recipe import Recipe
from scratch_transformer.kit.report.words import ROUNDED

EXACT = 1e-9
"""Largest relative error of what agrees, in float64. Rounding differs by 1e-15; sensitive probes amplify it."""
NOISE = 1e-6
"""By how much two calls may differ that neither dropout nor new weights make differ: random numbers next to zero do."""


@dataclass(frozen=True)
class Result:
    """What a candidate made of a probe: an output, or an exception. changed: the inputs that have other values then."""

    probe: Probe
    output: Tensor | None
    error: Exception | None = None
    changed: tuple[str, ...] = ()


def is_no_proof(candidate: Candidate, recipe: Recipe) -> bool:
    """Whether a recipe is no proof: what attends to one token, as it is called, gives the value of that token; nobody
    says which of x and y is the source; and a matrix of one's own may be kept the other way round.
    """
    is_guessed = recipe.roles != "right" and not candidate.says_sides
    is_guessed |= not recipe.transposed and candidate.has_bare_matrices
    return is_guessed or (recipe.summed == "own value" and candidate.is_called_alone)


class Session:
    """Loads the candidate with random weights, runs it on all probes, and measures how far recipes are from it.

    state: what the candidate's parameters stand for, by canonical name. left_out: probes that it cannot be given.
    """

    def __init__(self, candidate: Candidate, seed: int = 0) -> None:
        self.candidate, self.kind = candidate, candidate.kind
        self.settings: Settings = self.kind.complete(candidate.settings)
        self.variants = Variants(self.kind, self.settings)
        probes = [(probe, candidate.accepts(probe.inputs)) for probe in self.kind.probes(self.settings, seed)]
        self.probes = tuple(probe for probe, accepted in probes if accepted)
        self.left_out = tuple(probe for probe, accepted in probes if not accepted)
        self.quiet_asked = asked_of(self.kind, self.settings, seed + 1, quiet=True)
        self.asked: State = asked_of(self.kind, self.settings, seed)
        self._builtins: dict[tuple[Recipe, str], Tensor | None] = {}
        self._distances: dict[tuple[str, bool, int], float] = {}
        self.quiet_state, quiet = self._loaded(self.quiet_asked, is_quiet=True)
        self.state, others = self._loaded(self.asked, is_quiet=False)
        self.results = [*others, *quiet]
        self.is_random = self._is_random()
        self.until = float("inf")
        """When the search for mistakes is to end."""
        self.failed = ""
        """The probe at which the last comparison was given up."""

    def _loaded(self, asked: State, is_quiet: bool) -> tuple[State, list[Result]]:
        """Load weights and run the probes that want them."""
        probes = [probe for probe in self.probes if probe.quiet == is_quiet]
        if not probes and is_quiet:
            return {}, []
        state = {name: values.detach().double().clone() for name, values in self.candidate.load(asked).items()}
        return state, [self.run(probe) for probe in probes]

    @property
    def ran(self) -> list[Result]:
        """The probes that gave an output."""
        return [result for result in self.results if result.output is not None]

    @property
    def crashes(self) -> list[Result]:
        return [result for result in self.results if result.error is not None]

    @property
    def stops(self) -> list[Result]:
        """Crashes that no fixed length explains: on inputs of the same shapes it ran, or source and target differ.

        What runs wherever both have one length has such a length.
        """
        ran, pairs = [shapes(result.probe) for result in self.ran], {"memory", "src", "key"} & set(self.kind.inputs)
        if pairs and any(_is_square(r.probe) for r in self.ran) and not any(_is_square(r.probe) for r in self.crashes):
            return []
        return [result for result in self.crashes if pairs or shapes(result.probe) in ran]

    def _is_random(self) -> bool:
        """Whether a second call with the same input gives other numbers: then no recipe can give them."""
        first = next(iter(self.ran), None)
        again = None if first is None else self.run(first.probe).output
        return first is not None and again is not None and distance(again, first.output, first.probe) > ROUNDED

    @functools.cached_property
    def in_a_batch(self) -> Tensor | Exception | None:
        """What one sentence at a time gives on the first probe that ran, each in a batch of one; see Candidate."""
        first = next((result.probe for result in self.ran if not result.probe.quiet), None)
        if first is None:
            return None
        self.candidate.load(self.asked)
        return self.candidate.in_a_batch(**first.inputs)

    def run(self, probe: Probe) -> Result:
        inputs = copies(probe.inputs)
        try:
            output = called(self.candidate, inputs)
        except Exception as error:  # the learner's code may raise anything
            return Result(probe, None, error)
        given = [(name, value) for name, value in probe.inputs.items() if isinstance(value, Tensor)]
        return Result(probe, output, changed=tuple(n for n, value in given if not torch.equal(value, inputs[n])))

    def module(self, recipe: Recipe) -> nn.Module:
        """The canonical module of a recipe with the candidate's weights."""
        return self.variants.module(recipe, False, self.state)

    def variant(self, recipe: Recipe, probe: Probe) -> Tensor | None:
        """A recipe's output on a probe, with the candidate's weights."""
        state = self.quiet_state if probe.quiet else self.state
        return self.variants.output(recipe, probe.quiet, state, probe)

    def may_be_given(self, designs: Iterable[tuple[str, Mapping[str, Any]]]) -> bool:
        """Whether any of these designs, or a mistake in it, gives outputs of the candidate's shape."""
        result = next(iter(self.ran), None)
        if result is None or result.output is None:
            return False
        state = self.quiet_state if result.probe.quiet else self.state
        return self.variants.may_give(result.output, designs, result.probe.quiet, state, result.probe)

    def builtin(self, recipe: Recipe, probe: Probe) -> Tensor | None:
        """What torch.nn makes of a probe; where there is no builtin, the reference."""
        if self.kind.oracle is None:
            return self.variant(recipe, probe)
        if (recipe, probe.name) not in self._builtins:
            self._builtins[recipe, probe.name] = self._of_oracle(self.kind.oracle, recipe, probe)
        return self._builtins[recipe, probe.name]

    def _of_oracle(self, oracle: Oracle, recipe: Recipe, probe: Probe) -> Tensor | None:
        state = self.quiet_state if probe.quiet else self.state
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return oracle(self.settings, recipe, state, probe.inputs)
            except (RuntimeError, ValueError, IndexError):  # sizes that the builtin refuses, as a variant may
                return None

    def error(self, recipe: Recipe, stop_above: float = float("inf"), everywhere: bool = False) -> float:
        """The largest relative error over the probes that ran; everywhere: also where the output does not count."""
        if self.variants.lacks(recipe, self.candidate.missing) or self._is_bare(recipe):
            return float("inf")
        if is_no_proof(self.candidate, recipe):
            return float("inf")
        worst = 0.0
        for result in self.ran:
            probe = replace(result.probe, valid=None) if everywhere else result.probe
            worst = max(worst, self._distance(result, recipe, probe))
            self.failed = probe.name if worst > stop_above else ""
            if self.failed:
                break
        return worst

    def _distance(self, result: Result, recipe: Recipe, probe: Probe) -> float:
        """From the output of a recipe: of many recipes that is the same one."""
        output = self.variant(recipe, probe)  # kept, so its id is its own
        asked = probe.name, probe.valid is None, id(output)
        if asked not in self._distances:
            self._distances[asked] = distance(result.output, output, probe)
        return self._distances[asked]

    def near(self, recipe: Recipe) -> float:
        """The relative error on the first probe that ran."""
        first = next(iter(self.ran), None)
        return float("inf") if first is None else distance(first.output, self.variant(recipe, first.probe), first.probe)

    def _is_bare(self, recipe: Recipe) -> bool:
        """Whether a class adds x to f(x) and does no more: without any weights of a norm, that is left to others."""
        bare = self.kind.name == "ResidualConnection" and recipe.norm_order == "no norm"
        norms = {name for name in self.asked if "norm" in name}
        return bare and self.candidate.module is not None and norms <= self.candidate.missing

    def worst(self, recipe: Recipe, ordinary: bool = False) -> tuple[float, Result | None]:
        """The largest error against the builtin, and the probe that shows it. ordinary: leave provoking ones out."""
        errors = [
            (distance(result.output, self.builtin(recipe, result.probe), result.probe), result)
            for result in self.ran
            if result.output is not None and (result.probe.is_ordinary or not ordinary)
        ]
        return max(errors, key=lambda pair: pair[0], default=(float("inf"), None))


def _is_square(probe: Probe) -> bool:
    """Whether all inputs have one length: ids (B, T), tokens (B, T, d_model), what the core gets (B, h, T, d_k)."""
    return len({shape[2 if len(shape) == 4 else 1] for shape in shapes(probe).values()}) == 1


def shapes(probe: Probe) -> dict[str, torch.Size]:
    """Of the inputs that are no masks."""
    return {n: x.shape for n, x in probe.inputs.items() if isinstance(x, Tensor) and "mask" not in n}


OF_TORCH = frozenset(vars(nn.Module()))
"""What every module keeps: its parts, its parameters, its hooks."""


def _attributes(part: nn.Module) -> dict[str, Any]:
    """What a module has set itself; lists and dictionaries with what they have now."""
    own = {name: value for name, value in vars(part).items() if name not in OF_TORCH}
    return {name: copy.copy(value) if type(value) in (dict, list) else value for name, value in own.items()}


@contextlib.contextmanager
def in_precision(session: Session, module: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """A candidate's module in another precision. Afterwards its tables are what they were: rounding is not undone.

    So is what it keeps of a call in attributes, as cosines for the sequences of one length.
    """
    attributes = [(part, _attributes(part)) for part in module.modules()]
    buffers = [(part, dict(part._buffers)) for part in module.modules()]
    parameters = [(parameter, parameter.data) for parameter in module.parameters()]
    module.to(dtype)
    try:
        yield
    finally:
        module.double()
        for part, values in attributes:
            for name in vars(part).keys() - values.keys() - OF_TORCH:
                del vars(part)[name]
            vars(part).update(values)
        for part, tables in buffers:
            part._buffers.update(tables)
        for parameter, data in parameters:
            parameter.data = data
        session.candidate.load(session.asked)


def distance(actual: Tensor | None, expected: Tensor | None, probe: Probe) -> float:
    """‖actual - expected‖∞ / ‖expected‖∞ where the output counts; infinite for another shape or other NaNs."""
    if actual is None or expected is None or not isinstance(actual, Tensor) or actual.shape != expected.shape:
        return float("inf")
    actual, expected = actual.detach().double(), expected.detach().double()
    if not expected.numel():
        return 0.0
    if probe.valid is not None and _fits(probe.valid, actual):
        actual, expected = (x.masked_fill(~probe.valid, 0.0) for x in (actual, expected))
    difference = (actual - expected).abs().max().item()
    if not math.isfinite(difference):  # else all of both is finite, as in most of very many comparisons
        if not torch.equal(actual.isfinite(), expected.isfinite()) or says_nothing(actual):
            return float("inf")
        actual, expected = actual.nan_to_num(), expected.nan_to_num()
        difference = (actual - expected).abs().max().item()
    scale = expected.abs().max().item()
    return difference / scale if scale > 0 else difference


class Sample:
    """One number of an output, by which most of what differs from it is told in a tenth of the time of `distance`."""

    def __init__(self, output: Tensor | None, probe: Probe) -> None:
        self.shape = None if output is None or probe.valid is not None or not output.numel() else output.shape
        if self.shape is not None and output is not None:
            self.index = output.numel() // 2
            self.value = output.flatten()[self.index].item()
            self.bound = 2 * ROUNDED * output.double().abs().max().item()  # NaN and infinity tell nothing

    def is_far(self, other: Tensor | None) -> bool:
        """Whether another output differs by more than ROUNDED for sure."""
        if self.shape is None or other is None or other.shape != self.shape:
            return False
        return bool(abs(other.flatten()[self.index].item() - self.value) > self.bound)


def _fits(valid: Tensor, output: Tensor) -> bool:
    """Not so where source and target were swapped."""
    pairs = zip(reversed(valid.shape), reversed(output.shape), strict=False)
    return valid.dim() <= output.dim() and all(a in (1, b) for a, b in pairs)


def says_nothing(output: Tensor) -> bool:
    """NaN everywhere is no likeness to what is NaN everywhere too."""
    return output.numel() > 1 and not bool(output.isfinite().any())
