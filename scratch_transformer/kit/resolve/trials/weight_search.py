"""Which of a learner's weights stands for which canonical one: the layout that explains its outputs best."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from scratch_transformer.kit.kind import Probe
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.trial import MISTAKEN, NOTHING, Score, Trial
from scratch_transformer.kit.resolve.weights import align
from scratch_transformer.kit.resolve.weights.layout import Layout, Parameters, prepare, walk

if TYPE_CHECKING:
    from scratch_transformer.kit.resolve.library.library import Library

SECONDS = 2.0
"""Of computing, for the search for weights in one way to build and call a component."""
MOST_LAYOUTS, MOST_MISTAKEN = 150, 40
ATTENTIONS = "attentions"
"""How the note on a layout begins that has a layer's attentions the other way round."""
BOTH = "does for both"
"""How it ends if there is one for both."""


def find_weights(
    candidate: Resolved, trial: Trial, probes: list[Probe], library: Library, thorough: bool = True
) -> Score:
    """Sets the layout that explains the outputs best: a right design before a mistake, the usual before the unusual."""
    if candidate.module is None or not trial.shapes:
        return trial.score(candidate, probes, library.most_tiers)
    candidate.parameters = Parameters(candidate.module)  # after the first call: lazy modules have their shapes now
    prepare(candidate.module)
    score = _found(candidate, trial, probes, library, thorough)
    is_over = library.is_late and library.hurries
    idle = _idle(candidate, probes[0]) if score[0] >= NOTHING and probes and not is_over else {}
    if not idle:
        return score
    before = candidate.parameters, candidate.layout, candidate.missing
    candidate.parameters = Parameters(candidate.module, [name for names in idle.values() for name in names])
    again = _found(candidate, trial, probes, library, thorough)
    if again[0] >= NOTHING:
        candidate.parameters, candidate.layout, candidate.missing = before
        return score
    candidate.notes.append(f"Nothing depends on its {' and '.join(idle)}.")
    candidate.idle = tuple(idle)
    return again


def _idle(candidate: Resolved, probe: Probe) -> dict[str, list[str]]:
    """Parts with a matrix, or several parameters, on none of which the output depends: path -> names of these.

    What layers are copied from is one: self.layer = layer; self.layers = clones(layer, n).
    """
    assert candidate.parameters is not None
    parameters = candidate.parameters
    values, expected = parameters.read(), _output(candidate, probe)
    idle: dict[str, list[str]] = {}
    if expected is None:
        return {}
    for path, names in _groups(parameters).items():
        if path.partition(".")[0] in idle:
            continue
        changed = values.clone()
        for name in names:
            changed[parameters.positions[name]] += 1.0
        parameters.write(changed)
        output = _output(candidate, probe)
        is_part = len(names) > 1 or (names[0] != path and parameters.tensors[names[0]].dim() == 2)
        if is_part and output is not None and torch.equal(output, expected):
            idle[path] = names
    parameters.write(values)
    return idle


def _groups(parameters: Parameters) -> dict[str, list[str]]:
    """The parameters of each part, and of the single parts of those: of self.encoder, and of self.encoder.norm."""
    groups: dict[str, list[str]] = {}
    held = [name for name, part in parameters.module.named_children() if isinstance(part, nn.ModuleDict)]
    for name in parameters.tensors:
        first, *others = name.split(".")
        path = f"{first}.{others[0]}" if first in held else first  # self.transformer.ln_f
        groups.setdefault(path, []).append(name)
    for name in parameters.tensors:
        if name.count(".") == 2 and name.split(".")[0] not in held:
            groups.setdefault(name.rpartition(".")[0], []).append(name)
    return groups


def _output(candidate: Resolved, probe: Probe) -> Tensor | None:
    try:
        return candidate(**probe.inputs)
    except Exception:  # the learner's code may raise anything
        return None


def _found(candidate: Resolved, trial: Trial, probes: list[Probe], library: Library, thorough: bool) -> Score:
    assert candidate.parameters is not None and candidate.module is not None
    made = align.layouts(candidate.parameters, trial.shapes, trial.settings, library.kind_of_class, library.choices)
    options = list(itertools.islice(made, MOST_LAYOUTS))
    usual = [option for option in options if not option[0]]
    deadline = min(time.process_time() + SECONDS, library.deadline)
    crossed = [option for option in options if option[0].startswith(ATTENTIONS)][:1]
    crossed += [option for option in options if option[0].endswith(BOTH)][:2]
    rounds: tuple[tuple[list[tuple[str, Layout]], int], ...] = (([*usual[:6], *crossed], MISTAKEN),)
    if thorough:
        rounds = ((usual, MISTAKEN), (options, MISTAKEN))
    if thorough and library.thorough:
        rounds = (rounds[0], (usual[:MOST_MISTAKEN], NOTHING), rounds[1], (options[:MOST_MISTAKEN], NOTHING))
    found, tried = None, options
    for tried, tiers in rounds:
        found = _best_layout(candidate, trial, probes, tried, tiers, deadline)
        if found is not None and found[0][0] < NOTHING:
            break
    if found is None or not options:
        return trial.score(candidate, probes, library.most_tiers)
    score, index, words = found
    candidate.layout = tried[index][1]
    candidate.update_missing()
    number: int = getattr(candidate.layout, "number", 0)
    if score[0] < NOTHING and number:
        known = (type(part) for _, part in walk(candidate.module))
        attentions = (cls for cls in known if (library.kind_of_class(cls) or "").endswith("Attention"))
        library.choices |= dict.fromkeys(attentions, number)  # the same in what contains it
    if words and score[0] < NOTHING:
        candidate.notes.append(words[0].upper() + words[1:] + ".")
    return score


def _best_layout(
    candidate: Resolved,
    trial: Trial,
    probes: list[Probe],
    options: list[tuple[str, Layout]],
    tiers: int,
    deadline: float,
) -> tuple[Score, int, str] | None:
    """The layout that explains most, of those with the fewest missing weights."""
    ranked: list[tuple[tuple[int, int, int], Score, int]] = []
    for index, (_, layout) in enumerate(options):
        candidate.layout = layout
        candidate.update_missing()
        score = trial.score(candidate, probes, tiers)
        ranked.append(((score[0], len(candidate.missing), index), score, index))
        if score[0] == 0 or time.process_time() > deadline:
            break
    if not ranked:
        return None
    _, score, index = min(ranked)
    return score, index, options[index][0]
