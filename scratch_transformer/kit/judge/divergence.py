"""For what no mistake explains: the first intermediate result that differs from the reference's."""

from __future__ import annotations

import functools
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.judge.evidence import share
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.kind import Inputs, Probe
from scratch_transformer.kit.recipe import Recipe


def first_divergence(session: Session, recipe: Recipe) -> str:
    """A sentence, or "" where the candidate's intermediates are not known."""
    for result in session.ran:
        expected = session.variant(recipe, result.probe)
        if distance(result.output, expected, result.probe) > ROUNDED:
            return _in_probe(session, recipe, result.probe) or _of_shapes(result.output, expected)
    return ""


def _of_shapes(output: Tensor | None, expected: Tensor | None) -> str:
    """What is said of an output of another shape than the reference's; "" of one of the same."""
    if output is None or expected is None or output.shape == expected.shape:
        return ""
    if output.dim() == expected.dim() == 1 and not output.is_floating_point():
        return f"It writes {len(output)} ids, and the reference writes {len(expected)}."
    if output.shape[:-1] == expected.shape[:-1]:
        return f"Each token of it has {output.shape[-1]} numbers, and the reference's has {expected.shape[-1]}."
    return f"Its output is {tuple(output.shape)}, and the reference's is {tuple(expected.shape)}."


def _in_probe(session: Session, recipe: Recipe, probe: Probe) -> str:
    try:
        theirs = session.candidate.intermediates(**probe.inputs)
        ours = record(session.module(recipe), probe.inputs)
    except Exception:  # the learner's code may raise anything
        return ""
    agreed = ""
    for path in ours:
        if path not in theirs or theirs[path].dim() != ours[path].dim():  # positions of no sentence: to be added
            continue
        # a part's output has (batch, time, …) like the whole's, so the same places count
        fits = probe.valid is not None and ours[path].shape[:2] == probe.valid.shape[:2]
        part = Probe(probe.name, {}, probe.valid if fits and ours[path].dim() == 3 else None)
        error = distance(theirs[path], ours[path], part)
        if error > ROUNDED:
            after = f"; everything before, up to {agreed}, agrees" if agreed else ""
            by = "shape or NaN" if error == float("inf") else share(error)
            return f"With {probe.shows}, the first part whose output differs is {path} (by {by}){after}."
        agreed = path
    return f"With {probe.shows}, the parts agree; they are put together differently." if agreed else ""


def record(module: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """The output of every submodule in a call, by path, in the order in which they finish."""
    outputs: dict[str, Tensor] = {}

    def keep(path: str, module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            outputs.setdefault(path, output)

    named = [(path, part) for path, part in module.named_modules() if path]
    handles = [part.register_forward_hook(functools.partial(keep, path)) for path, part in named]
    try:
        module(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    return outputs
