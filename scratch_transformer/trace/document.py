"""A trace as JSON: what the page is given, and any other program that wants all of it in one file."""

from __future__ import annotations

import base64
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.trace.letters import MEANINGS
from scratch_transformer.trace.result import FORMAT, Point, Trace
from scratch_transformer.trace.source import Source


def to_document(trace: Trace, with_values: bool = True, with_torch: bool = True) -> dict[str, Any]:
    """A trace as a value of JSON:

        format          "scratch_transformer.trace/1"
        ...             what is known of a trained run: `sentence.trace_sentence` says what
        letters         {letter: what it counts}
        difference      the largest absolute difference from torch at any point, or null
        points          in the order of computation, each
            name        encoder.layers.0.self_attention.scores
            module      encoder.layers.0.self_attention_block: the path of the module
            kind        the name of its kind: scores; kinds[kind] has equation, latex, sentence
            letters     ["B", "h", "S", "S"], or ["*"]
            shape       [1, 4, 5, 5]
            source      a key of sources
            line        the number of the line that computed it
            values      base64 of float32, little-endian, the last dimension fastest (with_values)
            torch       torch's tensor in the same way, or null (with_torch)
            difference  the largest absolute difference between the two, before they were rounded to float32, or null
        kinds           {key: {name, equation, latex, sentence}}; a point's `kind` is such a key
        sources         {key: {name, file, first_line, lines, doc}}: the functions that ran, each once
        names           {module's path: number of the point that it returned}

    An infinite difference is null too, with "differs": true: JSON has no infinity. -inf in values is float32's.
    """
    kinds: dict[str, Any] = {}
    sources: dict[str, Any] = {}
    points = [_point(point, kinds, sources, with_values, with_torch) for point in trace]
    return {
        "format": FORMAT, **trace.about, "letters": MEANINGS, "difference": _finite(trace.difference),
        "points": points, "kinds": kinds, "sources": sources, "names": trace.aliases,
    }  # fmt: skip


def _point(
    point: Point, kinds: dict[str, Any], sources: dict[str, Any], with_values: bool, with_torch: bool
) -> dict[str, Any]:
    kind = _key(kinds, point.kind, {
        "name": point.kind, "equation": point.equation, "latex": point.latex, "sentence": point.sentence,
    })  # fmt: skip
    source = _key(sources, point.source.name, _source(point.source))
    document = {
        "name": point.name, "module": point.module, "kind": kind, "letters": list(point.letters),
        "shape": list(point.shape), "source": source, "line": point.line, "difference": _finite(point.difference),
    }  # fmt: skip
    if point.difference == float("inf"):
        document["differs"] = True
    if with_values:
        document["values"] = _base64(point.tensor)
    if with_torch:
        document["torch"] = None if point.torch is None else _base64(point.torch)
    return document


def _key(table: dict[str, Any], name: str, entry: dict[str, Any]) -> str:
    """The key under which `table` has `entry`: the name, and a number where others have the same name."""
    key, number = name, 2
    while table.setdefault(key, entry) != entry:
        key, number = f"{name}-{number}", number + 1
    return key


def _source(source: Source) -> dict[str, Any]:
    return {
        "name": source.name, "file": source.file, "first_line": source.first_line, "lines": list(source.lines),
        "doc": source.doc,
    }  # fmt: skip


def _finite(difference: float | None) -> float | None:
    return None if difference is None or difference == float("inf") else difference


def _base64(tensor: Tensor) -> str:
    values = tensor.to("cpu", torch.float32).contiguous().numpy().astype("<f4")
    return base64.b64encode(values.tobytes()).decode()
