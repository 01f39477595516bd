"""How well a way of calling and a layout of weights explain a learner's outputs, by the reference and every variant."""

from __future__ import annotations

import hashlib
import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit import clock
from scratch_transformer.kit.judge.bypassed import bypassed
from scratch_transformer.kit.judge.changes import (
    FILLS,
    TOGETHER,
    changes_of,
    evident,
    of_bare_sublayers,
    of_kept_norms,
    of_parts,
    of_sublayers,
    on_their_sides,
    subsets,
    untold,
)
from scratch_transformer.kit.judge.designs import Design, is_near, possible, said_by, shown_by
from scratch_transformer.kit.judge.fits import factor_of_scores
from scratch_transformer.kit.judge.places import DECODERS, SIDES, Change, apart, by_side, compatible, in_a_sublayer
from scratch_transformer.kit.judge.search import with_changes
from scratch_transformer.kit.judge.session import ROUNDED, Sample, distance, is_no_proof
from scratch_transformer.kit.judge.variants import Variants, call
from scratch_transformer.kit.kind import LAYERS, Candidate, Diagnosis, Inputs, Kind, Probe, State, asked_of
from scratch_transformer.kit.mistakes.attention import NOT_ASKED
from scratch_transformer.kit.recipe import RIGHT, Recipe

Score = tuple[int, float]
"""Tier and error: 0 = a right design, 1 = with the mistakes of its parts, 2 = with a mistake, 3 = nothing fits,
4 = it stops with an error."""
MISTAKEN, NOTHING = 2, 3
OnProbes = Sequence[tuple[Probe, Tensor | None]]
"""The outputs of a candidate; None where it stopped with an error."""
SECONDS = 1.0
"""Of computing, for the search for a mistake in one layout of weights."""
OF_HEADS = (("A1", "A13"), ("A1", "A23"), ("A13", "A23"), ("A1", "A13", "A23"))
"""Mistakes of attention that go with each other, whatever its weights are called."""
MOST_SHOWN = 60
"""Designs that are tried where the parts show some choices, those first."""
MOST_NEAR = 12
"""Designs that are combined with mistakes: those that were nearest by themselves, of what words show."""
MOST_SUBSETS, MOST_ALONE = 24, 4
"""Combinations of the parts' mistakes; of them, those that are tried around one sublayer alone too."""


EXPECTED: dict[tuple[Any, ...], dict[tuple[Any, ...], torch.Size | None]] = {}
"""The shapes of the outputs of each kind with its settings, by those of its inputs."""


class Trial:
    """For one kind and its settings. parts: what was found out about the parts."""

    def __init__(self, kind: Kind, settings: Mapping[str, Any], parts: Sequence[Diagnosis] = (), seed: int = 0) -> None:
        self.kind, self.settings = kind, kind.complete(settings)
        self.probes = kind.probes(self.settings, seed)
        self.asked: State = asked_of(kind, self.settings, seed)
        self.shapes = {name: tuple(values.shape) for name, values in self.asked.items()}
        self.shown = shown_by(parts)
        self.found: tuple[int, Design, Recipe, frozenset[str]] | None = None
        """What explained the candidate last, its tier, and the weights that were missing: with masks it is what is most
        likely right."""
        self.until = float("inf")
        """When the time for the component at hand is used up: no mistakes are tried from then on."""
        self.one_length = False
        """Whether it stops with other lengths, which says nothing of the rest."""
        self._variants = Variants(kind, self.settings)
        self._inherited = of_parts(kind, parts)
        self._of_sides = [c for c in [on_their_sides(kind, parts, self._inherited)] if c]
        self._distances: dict[tuple[str, bytes], float] = {}
        self._unexplained: dict[tuple[Any, ...], float] = {}
        """What was searched in vain to the end, and its error: many ways to build and call give the same outputs."""
        self._is_near = False
        """Whether any recipe has agreed with the candidate at hand on its first probe."""
        self._expected = EXPECTED.setdefault((kind, *self.settings.items()), {})

    # ---- Recipes to try ----

    def _recipes(
        self, tier: int, designs: list[Design], key: bytes, missing: frozenset[str], candidate: Candidate
    ) -> Iterator[tuple[Design, Recipe]]:
        """Right ones; with the mistakes of the parts, and those that the text shows; with one mistake, or a few that
        come together.
        """
        by_name = dict(designs)
        if tier == 0:
            yield from ((design, RIGHT.with_(design[1])) for design in designs)
            if self.kind.name == "Transformer" and sum(f"{side}.norm.weight" in missing for side in SIDES) == 1:
                of_sides = by_side(designs[:MOST_NEAR], missing)
                yield from (((f"{name}, by side", own), RIGHT.with_(own)) for name, own in of_sides)
            return
        said = said_by(candidate.module)  # beside a mistake, numbers tell little of what else there is
        near = sorted(designs, key=lambda d: (not is_near(d, said), self._distances.get((d[0], key), 0.0)))[:MOST_NEAR]
        sure = tuple(untold(self.kind, candidate))
        base = [*self._inherited, *sure, *evident(self._variants, missing, self._inherited)]
        known = [c for c in subsets(base) if compatible(c)][:MOST_SUBSETS]
        near.sort(key=lambda design: not self._as_shown(design))
        if tier == 1:
            alone = [c for some in known[:MOST_ALONE] for c in in_a_sublayer(self.kind.name, some)]
            of_one = [c for some in known[:1] for c in apart(self.kind.name, some) if self.kind.name in DECODERS]
            round_norms = bypassed(candidate.module)
            bare = of_bare_sublayers(self.kind.name, self.shapes, missing, round_norms) if round_norms else ()
            several = [*bare, *filter(None, [of_kept_norms(self.kind.name, candidate.module)])]
            asked = tuple(change for change in self._inherited if change.form != NOT_ASKED)  # a flag may tell a part
            beside = (*known[:1], asked, ())
            besides = [(*some, *c) for c in several for some in beside if compatible((*some, *c))]
            combinations = [besides, known[:1], [(*c, *sure) for c in self._of_sides], known[1:], alone, of_one]
        else:
            changes = changes_of(self.kind)
            combinations = [_mistaken(changes, known[0] if known else ())]
            if self.kind.name.endswith(LAYERS):
                bare = of_bare_sublayers(self.kind.name, self.shapes, missing)
                combinations.append([*bare, *of_sublayers(self.kind.name, changes)])
            if self.kind.name.endswith("Attention"):
                combinations.append(_combined(changes, OF_HEADS))
        likely = [design for design in near if self._as_shown(design)]
        groups = (likely, [design for design in near if design not in likely])
        for group, some in itertools.product(groups, combinations):
            for hypothesis in with_changes(group, some):
                yield (hypothesis.design, by_name[hypothesis.design]), hypothesis.recipe

    def _as_shown(self, design: Design) -> bool:
        return all(self.shown.get(name, value) == value for name, value in design[1].items())

    # ---- Scores ----

    def score(self, candidate: Candidate, probes: Iterable[Probe], enough: int = NOTHING) -> Score:
        """Of a candidate whose parameters can be loaded. enough: the number of tiers to try; 0: only what was found."""
        try:
            state = candidate.load(self.asked)
        except Exception:  # the learner's code may raise anything
            return NOTHING, float("inf")
        outputs: OnProbes = _Run(candidate, probes)
        if (
            self.one_length or "next_logits" in self.kind.inputs
        ):  # a search that drops its beams fails on some models only
            outputs = [(p, y) for p, y in outputs if y is not None and not self._is_filled_up(p, y)]
        if all(output is None for _, output in outputs):
            return NOTHING + 1, float("inf")
        key = _digest(state.values())
        missing = candidate.missing if candidate.module is not None else frozenset(self.asked)
        for tier, design, recipe in self._again(missing):
            if self._variants.lacks(recipe, missing) or is_no_proof(candidate, recipe):
                continue
            error, _ = self._errors(recipe, key, state, outputs)
            if error <= ROUNDED:
                candidate.shown, candidate.explained = dict(design[1]), recipe
                return tier, error
        candidate.is_tried = enough >= NOTHING
        asked = (key, missing, enough, candidate.has_bare_norms)
        may_tell = bool(self.shapes) and _is_finite(outputs[0][1])
        for some in [outputs[:1]] * may_tell + [outputs]:
            if (known := self._unexplained.get((asked, _seen(some)))) is not None:
                return NOTHING, known
        self._is_near = False
        score, is_whole = self._searched(candidate, missing, key, state, outputs, enough)
        if is_whole and score[0] == NOTHING:
            is_far = may_tell and not self._is_near  # then the learner's code need not be run on the other probes again
            self._unexplained[asked, _seen(outputs[:1] if is_far else outputs)] = score[1]
        return score

    def _is_filled_up(self, probe: Probe, output: Tensor) -> bool:
        """Whether a sentence was made as long as the longest."""
        expected = self.expected_shape(probe.inputs) if self.one_length else None
        return expected is not None and len(expected) == output.dim() == 3 and output.shape[1] > expected[1]

    def _searched(
        self, candidate: Candidate, missing: frozenset[str], key: bytes, state: State, outputs: OnProbes, enough: int
    ) -> tuple[Score, bool]:
        """Also whether all was searched that is to be."""
        given = [output for _, output in outputs if output is not None]
        designs = possible(self._variants, missing, given, self.shown, candidate.has_bare_norms)
        best, deadline = float("inf"), min(clock.now() + SECONDS, self.until)
        is_whole, (probe, output) = True, outputs[0]
        if output is not None and not self._variants.may_give(output, designs, key, state, probe):
            return (NOTHING, best), True
        sample = Sample(output, probe)
        for tier, some in self._steps(designs, min(enough, NOTHING)):
            if tier and not any(_is_finite(output) for _, output in outputs):
                break
            for design, recipe in self._recipes(tier, some, key, missing, candidate):
                clock.count(clock.HYPOTHESIS)
                if tier == MISTAKEN and clock.now() > deadline:
                    is_whole = False
                    break
                if self._variants.lacks(recipe, missing) or is_no_proof(candidate, recipe):
                    continue
                if tier and sample.is_far(self._variants.output(recipe, key, state, probe)):
                    continue
                error, first = self._errors(recipe, key, state, outputs)
                if error <= ROUNDED:
                    self.found = tier, design, recipe, missing
                    candidate.shown, candidate.explained = dict(design[1]), recipe
                    return (tier, error), True
                if tier == 0:
                    self._distances[design[0], key] = first
                    best = min(best, error)
        scaled = self._with_another_scale(designs, key, state, outputs) if enough >= NOTHING else None
        if scaled is None or clock.now() > deadline:
            return (NOTHING, best), is_whole and scaled is None
        error, design, recipe = scaled
        self.found = MISTAKEN, design, recipe, missing
        candidate.shown, candidate.explained = dict(design[1]), recipe
        return (MISTAKEN, error), True

    def _with_another_scale(
        self, designs: list[Design], key: bytes, state: State, outputs: OnProbes
    ) -> tuple[float, Design, Recipe] | None:
        """The nearest design of attention with a factor of the scores that is written in: scores / 8."""
        is_core = self.kind.name == "ScaledDotProductAttention"
        if not (is_core or (self.kind.name.endswith("Attention") and self.shapes)):
            return None
        near = min(designs, key=lambda design: self._distances.get((design[0], key), float("inf")))
        recipe = RIGHT.with_({**near[1], **{n: v for change in self._inherited for n, v in change.entries}})
        factor = factor_of_scores(
            lambda value: self._errors(recipe.with_({"scale": repr(value)}), key, state, outputs[:1])[0], step=1.0
        )
        recipe = recipe.with_({"scale": repr(factor)})
        error = self._errors(recipe, key, state, outputs)[0] if factor is not None else float("inf")
        return (error, near, recipe) if error <= ROUNDED else None

    def _steps(self, designs: list[Design], tiers: int) -> Iterator[tuple[int, list[Design]]]:
        """Tiers, each with designs; those that the parts show with the parts' mistakes before any others."""
        as_shown = [design for design in designs if self._as_shown(design)]
        if as_shown:
            designs = designs[: max(MOST_SHOWN, len(as_shown))]
        likely = as_shown if self._inherited else []
        if likely and tiers > 1:
            yield from ((tier, likely) for tier in range(MISTAKEN))
        rest = [design for design in designs if design not in likely] if tiers > 1 else designs
        yield from ((tier, designs if tier else rest) for tier in range(tiers))

    def _again(self, missing: frozenset[str]) -> Iterator[tuple[int, Design, Recipe]]:
        """What was found, with every way to treat queries that may attend to nothing.

        But not where norms were missing for it that have a place now: it would be taken to have one for them.
        """
        if self.found is None:
            return
        tier, design, recipe, missed = self.found
        placed = missed - missing
        if not placed or any("norm" not in name for name in placed):
            yield from ((tier, design, recipe.with_({"fill": fill})) for fill in FILLS)

    def _errors(self, recipe: Recipe, key: bytes, state: State, outputs: OnProbes) -> tuple[float, float]:
        """The largest error until one is too large, and that on the first probe."""
        errors = [0.0]
        for probe, output in outputs:
            expected = self._variants.output(recipe, key, state, probe)
            if output is not None or expected is not None:  # some mistakes stop with an error, like queries for keys
                errors.append(distance(output, expected, probe))
            if errors[-1] > ROUNDED:
                break
            self._is_near = True
        return max(errors), errors[1] if len(errors) > 1 else 0.0

    def expected_shape(self, inputs: Inputs) -> torch.Size | None:
        """Of the output."""
        if not all(value is None or isinstance(value, (Tensor, int, float, str)) for value in inputs.values()):
            return self._shape_for(inputs)
        key = tuple((n, tuple(v.shape) if isinstance(v, Tensor) else v) for n, v in inputs.items())
        if key not in self._expected:
            self._expected[key] = self._shape_for(inputs)
        return self._expected[key]

    def _shape_for(self, inputs: Inputs) -> torch.Size | None:
        design = next(iter(self.kind.designs.values()))
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = self._variants.module(RIGHT.with_(design), b"", self.asked)
                return torch.Size(call(module, inputs).shape)
            except (RuntimeError, ValueError, IndexError):
                return None


def _combined(changes: list[Change], together: Iterable[Sequence[str]]) -> list[tuple[Change, ...]]:
    """Every form of the mistakes that come together."""
    return [
        c
        for ids in together
        for c in itertools.product(*([change for change in changes if change.id == i] for i in ids))
    ]


def _mistaken(changes: list[Change], known: Sequence[Change]) -> list[tuple[Change, ...]]:
    """One besides all that are in the parts; one mistake, and a few that come together."""
    together = _combined(changes, TOGETHER)
    besides = [(*known, c) for c in changes if known and compatible((*known, c))]
    return [*besides, *((c,) for c in changes), *together]


def _seen(outputs: OnProbes) -> tuple[Any, ...]:
    """What is the same for the same outputs."""
    shapes = tuple(None if output is None else output.shape for _, output in outputs)
    return shapes, _digest(output for _, output in outputs if output is not None)


def _digest(tensors: Iterable[Tensor]) -> bytes:
    return hashlib.blake2b(b"".join(values.detach().double().numpy().tobytes() for values in tensors)).digest()


class _Run(Sequence[tuple[Probe, "Tensor | None"]]):
    """Probes and a candidate's outputs; each is computed when it is asked for first."""

    def __init__(self, candidate: Candidate, probes: Iterable[Probe]) -> None:
        self.candidate, self.probes = candidate, [*probes]
        self.made: list[tuple[Probe, Tensor | None]] = []

    def __len__(self) -> int:
        return len(self.probes)

    def __getitem__(self, index: Any) -> Any:
        end = range(len(self))[index]
        last = end if isinstance(end, int) else max(end, default=-1)
        for probe in self.probes[len(self.made) : last + 1]:
            self.made.append((probe, _output(self.candidate, probe)))
        return self.made[index]


def _is_finite(output: Tensor | None) -> bool:
    return output is not None and bool(output.isfinite().all())


def _output(candidate: Candidate, probe: Probe) -> Tensor | None:
    """None if it stops with an error."""
    try:
        return call(candidate, probe.inputs)
    except Exception:  # the learner's code may raise anything
        return None
