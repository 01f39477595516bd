"""Which of a learner's weights stands for which canonical one: the layout that explains its outputs best."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

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


def find_weights(
    candidate: Resolved, trial: Trial, probes: list[Probe], library: Library, thorough: bool = True
) -> Score:
    """Sets the layout that explains the outputs best: a right design before a mistake, the usual before the unusual."""
    if candidate.module is None or not trial.shapes:
        return trial.score(candidate, probes, library.most_tiers)
    candidate.parameters = Parameters(candidate.module)  # after the first call: lazy modules have their shapes now
    prepare(candidate.module)
    made = align.layouts(candidate.parameters, trial.shapes, trial.settings, library.kind_of_class, library.choices)
    options = list(itertools.islice(made, MOST_LAYOUTS))
    usual = [option for option in options if not option[0]]
    deadline = min(time.process_time() + SECONDS, library.deadline)
    crossed = [option for option in options if option[0].startswith(ATTENTIONS)][:1]
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
