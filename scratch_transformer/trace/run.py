"""Two runs side by side, recorded: ours, and torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import Module

from scratch_transformer.attention import use_algorithm
from scratch_transformer.conformance.switches import exact
from scratch_transformer.trace.beside import as_they_are, torch_beside, torch_name
from scratch_transformer.trace.letters import letters
from scratch_transformer.trace.record import Recorded, watched
from scratch_transformer.trace.result import Point, Trace
from scratch_transformer.trace.source import source_of
from scratch_transformer.trace.torch_run import Values, torch_values
from scratch_transformer.translation.checkpoint import Run


def trace(model: Any, *inputs: Any, beside: Callable[..., Any] | None = None, **named_inputs: Any) -> Trace:
    """Run a model, and record every tensor that the reference has a name for.

    The run is one of evaluation: without dropout, gradients and the fused algorithms of attention. Afterwards the model
    is as it was, with no hook left on it.

    Args:
        model: a module of `scratch_transformer.nn`, the Transformer of `model.py`, a module made of these, or
            `scaled_dot_product_attention`. Or a trained `Run`: then the only input is a sentence, which it translates.
        inputs, named_inputs: what the model is called with.
        beside: torch's module or function to run beside it. Where none is given torch's of the same name, with the same
            weights; it is called in the same way.

    Returns:
        The points in order, each with torch's tensor and the difference.

    Raises:
        TypeError: model is nothing that can be called, or a run is given anything but a sentence.
        ValueError: dropout_p is not 0.
        InputError: the run cannot read the sentence.
    """
    if isinstance(model, Run):
        from scratch_transformer.trace.sentence import trace_sentence

        if len(inputs) != 1 or not isinstance(inputs[0], str) or named_inputs:
            raise TypeError(
                f"trace: a run translates one sentence: expected a str, but got {inputs} {named_inputs or ''}"
            )
        return trace_sentence(model, inputs[0])
    if not callable(model):
        raise TypeError(f"trace: model must be a module, a function or a trained run, but is {model!r}")
    if named_inputs.get("dropout_p"):
        raise ValueError(f"trace: dropout_p must be 0, for nothing is dropped, but is {named_inputs['dropout_p']}")
    model = getattr(model, "_orig_mod", model)  # what torch.compile was given: it computes the same
    with exact(), torch.no_grad(), use_algorithm("naive"), _evaluating(model):
        recorder, output = watched(model, inputs, named_inputs)
        builtin, adapt = (torch_beside(model) or (None, as_they_are)) if beside is None else (beside, as_they_are)
        theirs = {} if builtin is None else torch_values(builtin, *adapt(*inputs, **named_inputs))
    points = [_point(recorded, theirs, model) for recorded in recorder.points]
    return Trace(points, recorder.names, output)


def _point(recorded: Recorded, theirs: Values, model: Any) -> Point:
    kind, (code, line) = recorded.kind, recorded.line
    return Point(
        recorded.name, recorded.module, recorded.tensor, theirs.get(torch_name(recorded.name, model)),
        letters(kind, recorded.name, recorded.tensor, model), kind.name, kind.equation, kind.latex, kind.sentence,
        source_of(code, recorded.function), line,
    )  # fmt: skip


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """All modules in evaluation mode, and afterwards each as it was."""
    modules = list(model.modules()) if isinstance(model, Module) else []
    before = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, training in zip(modules, before, strict=True):
            module.training = training
