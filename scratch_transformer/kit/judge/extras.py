"""Probes for one mistake each, after everything else agrees: queries without keys, huge scores, means far from zero."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Result, Session, distance, in_precision
from scratch_transformer.kit.kind import Extra, Finding, Probe
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.recipe import RIGHT, Recipe


def from_extras(session: Session, best: Hypothesis) -> Iterator[Finding]:
    """What the kind's extra probes show of a candidate that is understood otherwise."""
    for extra in session.kind.extras:
        amplified = extra.low_precision and set(best.ids) - {"LN1", "LN2", "LN3"}  # rounding errors, not the mistake
        if not set(extra.mistakes) & set(best.ids) and not amplified:
            yield from _from(session, extra, best)


def _from(session: Session, extra: Extra, best: Hypothesis) -> Iterator[Finding]:
    probe = extra.probe(session.settings)
    if not session.candidate.accepts(probe.inputs):
        return
    result = _in_float32(session, probe) if extra.low_precision else session.run(probe)
    if result.output is None:
        return
    forms = [(id, form, entries) for id in extra.mistakes for form, entries in MISTAKES[id].changes.items()]
    base = best.recipe.with_({name: getattr(RIGHT, name) for _, _, entries in forms for name in entries})
    error = distance(result.output, session.variant(base, _double(probe)), probe)
    if error <= extra.limit or _explains(session, best.recipe, _double(probe), result, extra.limit):
        return
    if extra.low_precision:
        id, form, _ = forms[0]
        yield Finding(MISTAKES[id], f"On {probe.shows}, {_off(error)}.", form)
        return
    for id, form, entries in forms:
        if _explains(session, base.with_(entries), probe, result, extra.limit):
            yield Finding(MISTAKES[id], f"On {probe.shows}, the output is what this mistake gives.", form)
            return


def _explains(session: Session, recipe: Recipe, probe: Probe, result: Result, limit: float) -> bool:
    return distance(result.output, session.variant(recipe, probe), probe) <= limit


def _in_float32(session: Session, probe: Probe) -> Result:
    module = session.candidate.module
    if module is None:
        return session.run(probe)
    with in_precision(session, module, torch.float32):
        return session.run(probe)


def _double(probe: Probe) -> Probe:
    inputs = {name: x.double() if getattr(x, "is_floating_point", bool)() else x for name, x in probe.inputs.items()}
    return Probe(probe.name, inputs, probe.valid, probe.shows)


def _off(error: float) -> str:
    return "some outputs are NaN (not a number)" if error == float("inf") else f"the output is off by {error:.0%}"
