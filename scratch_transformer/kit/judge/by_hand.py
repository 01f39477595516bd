"""The gradients of a backward pass that is written by hand, beside PyTorch's: of the inputs and of the weights."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scratch_transformer.kit.arrays.backward import Pass, arrays_in
from scratch_transformer.kit.arrays.module import OfArrays, roots_of
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.variants import copies, with_gradients
from scratch_transformer.kit.kind import Inputs, Probe
from scratch_transformer.kit.mistakes.construction import AVERAGED, NOT_SUMMED, STOPS

LEAST = 1e-4
"""Relative errors of gradients that are more than float32's rounding."""
SMALL = 1e-3
"""A factor of all gradients: what is clipped in a backward pass is not clipped here."""
ROUNDING = 1e-7
MOST, SHOWN = 2, 3
"""Probes that are compared; names that are told."""
GRADIENT = re.compile(r"^(d|dl|dld|dj|djd|grad|grads|gradient|gradients|g|delta|deltas|error|nabla|partial|gradof)$")
"""What the name of a gradient has besides that of the weight."""


@dataclass
class Comparison:
    """right, left: names of what has PyTorch's gradient, and of what no gradient was found. stopped: why none was.

    wrong: names of what has another one, each with a form of the mistake and a sentence.
    """

    right: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    wrong: dict[str, tuple[str, str]] = field(default_factory=dict)
    stopped: str = ""

    def each_once(self) -> Comparison:
        """Each name in one place, after several probes."""
        self.left = [name for name in dict.fromkeys(self.left) if name not in (*self.right, *self.wrong)]
        self.right = [name for name in dict.fromkeys(self.right) if name not in self.wrong]
        return self


@functools.lru_cache(maxsize=1)
def compared(session: Session, best: Hypothesis | None) -> Comparison | None:
    """None for what has no such pass, or where nothing explains the output."""
    if best is not None and not session.is_random and is_applied(session.candidate):
        return _of_applied(session, best)
    root = next(roots_of(session.candidate.module), None)
    if best is None or root is None or not root.backward_name or session.is_random:
        return None
    found = Comparison()
    for probe in _probes(session):
        _compare(session, best, root, probe, found)
    return found.each_once()


def is_applied(candidate: Any) -> bool:
    """Whether a function stands for a torch.autograd.Function, whose backward is the learner's."""
    made = getattr(candidate, "made", None)
    of = getattr(getattr(made, "function", made), "of", None)
    return isinstance(of, type) and issubclass(of, torch.autograd.Function)


def _of_applied(session: Session, best: Hypothesis) -> Comparison:
    """The gradients of the inputs, and of weights; where a flag hides the future, of the inputs with that, too."""
    found, candidate = Comparison(), session.candidate
    for probe in _probes(session):
        _compare_applied(session, best, probe, found, candidate)
    causal = next((one for one in (*session.probes, *session.left_out) if one.name == "causal"), None)
    if candidate.causal_flag and causal is not None and not found.stopped:
        told = {**causal.inputs, "mask": None}
        with contextlib.suppress(Exception):  # what the flag does to its output is judged elsewhere
            expected = session.module(best.recipe)(**causal.inputs)
            output = candidate.told_causal(**told)
            if output is not None and torch.allclose(output, expected, atol=LEAST):
                _compare_applied(session, best, causal, found, lambda **given: candidate.told_causal(**told | given))
    return found.each_once()


def _probes(session: Session) -> list[Probe]:
    return [one.probe for one in session.ran if one.probe.is_ordinary][:MOST]


def _right(
    session: Session, best: Hypothesis, probe: Probe
) -> tuple[Inputs, dict[str, Tensor], dict[str, Tensor | None], float]:
    """Inputs; those with gradients; PyTorch's gradients of these and of the weights; the largest number in them."""
    inputs, given = with_gradients(probe.inputs)
    reference = session.module(best.recipe)
    of = {**given, **dict(reference.named_parameters())}
    with torch.enable_grad():
        right = torch.autograd.grad(_loss(reference(**copies(inputs)), probe), [*of.values()], allow_unused=True)
    size = max((float(one.abs().max()) for one in right if one is not None and one.numel()), default=0.0)
    return inputs, given, dict(zip(of, right, strict=True)), size


def _compare_applied(session: Session, best: Hypothesis, probe: Probe, found: Comparison, call: Any) -> None:
    candidate = session.candidate
    inputs, given, expected, size = _right(session, best, probe)
    own = dict(candidate.module.named_parameters()) if candidate.module is not None else {}
    for weight in own.values():
        weight.grad = None
    taken = inputs if call is candidate else {name: value for name, value in inputs.items() if name != "mask"}
    candidate.differentiates = True
    try:
        with torch.enable_grad():
            _loss(call(**copies(taken)), probe).backward()
    except NotImplementedError:
        found.stopped = "it is not written yet"
        return
    except Exception as error:  # the learner's code may raise anything
        _stopped(error, probe, found)
        return
    finally:
        candidate.differentiates = False
    for name, value in given.items():
        _of_input(name, value.grad, expected[name], size, found)
    placed = candidate.own_gradients({n: g for n, g in expected.items() if n not in given and g is not None})
    for path, gradient in placed.items():
        _of_input(path, own[path].grad if path in own else None, gradient, size, found)


def said(session: Session, best: Hypothesis | None) -> Iterator[str]:
    """Sentences on what was compared."""
    found = compared(session, best)
    if found is None:
        return
    if found.stopped:
        yield f"Its backward was not judged: {found.stopped}."
    if found.right:
        more = f" and {len(found.right) - SHOWN} more" if len(found.right) > SHOWN else ""
        yield f"Its backward was judged too: PyTorch's are the gradients of {', '.join(found.right[:SHOWN])}{more}."
    if found.left and not found.stopped:
        yield f"No gradient was found of {', '.join(found.left)}."


def _compare(session: Session, best: Hypothesis, root: OfArrays, probe: Probe, found: Comparison) -> None:
    inputs, given, expected, size = _right(session, best, probe)
    passes = root.listen()
    session.candidate.differentiates = True
    try:
        with torch.enable_grad():
            _loss(session.candidate(**copies(inputs)), probe).backward()
    finally:
        session.candidate.differentiates = False
    stops = [one.error for one in passes if one.error is not None]
    if stops:
        _stopped(stops[0], probe, found)
        return
    for name, value in given.items():
        _of_input(name, value.grad, expected[name], size, found)
    tokens = [int(np.prod(value.shape[:2])) for value in inputs.values() if isinstance(value, Tensor)]
    shape = next((value.shape for value in inputs.values() if isinstance(value, Tensor)), torch.Size())
    counts = {*tokens, *shape[:2]} - {1}
    own = session.candidate.own_gradients({n: g for n, g in expected.items() if n not in given and g is not None})
    ids = {path: id(values) for path, values in root.named_parameters(remove_duplicate=False)}
    for path, gradient in own.items():
        alike = [other for other in own if ids.get(other) == ids.get(path)]
        if len(alike) > 1 and _is_in_parts(alike, gradient.numpy(), passes, size):
            found.right.append(path)
        else:
            _of_weight(path, gradient.numpy(), passes, size, counts, found)


def _stopped(error: Exception, probe: Probe, found: Comparison) -> None:
    """A mistake where it has gone through with other inputs: then it is called as it is meant to be."""
    what = f"it stops with {type(error).__name__}: {str(error).strip()}"
    if found.right or found.wrong:
        shows = f", with {probe.shows}" if probe.shows else ""
        found.wrong.setdefault("backward", (STOPS, f"Where its forward goes through{shows}, {what}."))
    else:
        found.stopped = what


def _of_input(name: str, gradient: Tensor | None, expected: Tensor | None, size: float, found: Comparison) -> None:
    if gradient is None:
        found.left.append(name)
        return
    right = torch.zeros_like(gradient) if expected is None else expected
    off = _off(gradient.numpy(), right.numpy(), size)
    if off <= LEAST:
        found.right.append(name)
    else:
        found.wrong[name] = "", f"Its backward gives another gradient for {name} (relative error {off:.0e})."


def _is_in_parts(paths: Sequence[str], expected: np.ndarray, passes: Sequence[Pass], size: float) -> bool:
    """Whether the gradient of one matrix in several places is the sum of what is kept at each: of tied weights."""
    named = [next(iter(_sums([_left_by(one, path)[1] for one in passes])), None) for path in paths]
    parts = [array for array in named if array is not None and array.size == expected.size]
    return len(parts) == len(paths) and _off(np.sum(parts, axis=0), expected, size) <= LEAST


def _of_weight(
    path: str, expected: np.ndarray, passes: Sequence[Pass], size: float, counts: set[int], found: Comparison
) -> None:
    """Right if any array that is left is the gradient; wrong if one with its name is another."""
    if np.abs(expected).max(initial=0.0) <= ROUNDING * size:
        return  # the keys' bias: no output depends on it
    left = [_left_by(one, path) for one in passes]
    sums = _sums([every for every, _ in left])
    if any(_off(array, expected, size) <= LEAST for array in sums if array.size == expected.size):
        found.right.append(path)
        return
    named = next((array for array in _sums([own for _, own in left])), None)
    if named is None:
        found.left.append(path)
    elif named.size != expected.size:
        is_loose = named.size % expected.size == 0 and named.shape[-expected.ndim :] == expected.shape
        rows = named.reshape(-1, *expected.shape).sum(0) if is_loose else named
        if is_loose and _off(rows, expected, size) <= LEAST:
            said = f"Its backward leaves a gradient for {path} of shape {named.shape}: that of every token by itself."
            found.wrong[path] = NOT_SUMMED, said
        else:
            found.left.append(path)
    else:
        times = [n for n in sorted(counts) if _off(n * named, expected, size) <= LEAST]
        off = _off(named, expected, size)
        said = f"Its backward gives another gradient for {path} (relative error {off:.0e})."
        found.wrong[path] = (AVERAGED, f"{said} It is the right one divided by {times[0]}.") if times else ("", said)


def _left_by(one: Pass, path: str) -> tuple[dict[Any, np.ndarray], dict[Any, np.ndarray]]:
    """All arrays that a pass left behind, and those that say that they are the gradient of a weight."""
    parts = [(name, part) for name, part in one.module.named_modules() if isinstance(part, OfArrays)]
    holder = max((name for name, _ in parts if path.startswith(f"{name}.") or not name), key=len)
    weight = path.removeprefix(f"{holder}." if holder else "")
    every = {("", *keys): array for keys, array in arrays_in(one.returned)}
    every |= {(name, *keys): array for name, part in parts for keys, array in arrays_in(vars(part.made))}
    if one.rate:
        every |= _changes(one)
    names = [keys for keys in every if keys[0] in ("", holder) and _is_gradient_of(keys[1:], weight)]
    return every, {keys: every[keys] for keys in names[:1]}


def _changes(one: Pass) -> dict[Any, np.ndarray]:
    """By how much the pass, which learns with a rate of 1, made the weights smaller."""
    found = {}
    for name, part in one.module.named_modules():
        for place in getattr(part, "_places", ()):
            before = part._parameters[place.name]
            now = np.asarray(place.now)
            if before is not None and now.shape == tuple(before.shape):
                found[name, "d", place.name] = (before.detach().numpy() - now) / one.rate
    return {keys: array for keys, array in found.items() if array.any()}


def _is_gradient_of(keys: Sequence[str], weight: str) -> bool:
    """Whether what is kept says so: self.dW, self.grad_W, self.W_grad, self.grads["W"], self.W.grad, of W."""
    plain = [re.sub(r"[^a-z0-9]", "", key.lower()) for key in keys]
    wanted = re.sub(r"[^a-z0-9]", "", weight.lower())
    last = plain[-1] if plain else ""
    if last == wanted:
        return any(GRADIENT.match(key) for key in plain[:-1])
    if plain[-2:-1] == [wanted] and GRADIENT.match(last):
        return True
    return wanted in last and bool(GRADIENT.match(last.replace(wanted, "", 1)))


def _sums(several: Sequence[dict[Any, np.ndarray]]) -> list[np.ndarray]:
    """What is kept under one name, of all passes together."""
    first = several[0] if several else {}
    alike = [[one[keys] for one in several if keys in one and one[keys].shape == first[keys].shape] for keys in first]
    return [np.sum(arrays, axis=0) for arrays in alike if len(arrays) == len(several)]


def _off(array: np.ndarray, expected: np.ndarray, size: float) -> float:
    """The largest difference, as a share of the largest number; a little of float32's rounding is none."""
    array, expected = array.reshape(-1), expected.reshape(-1)
    if array.size != expected.size or not np.isfinite(array).all():
        return float("inf")
    scale = max(np.abs(expected).max(initial=0.0), ROUNDING * size)
    return float(np.abs(array - expected).max(initial=0.0) / max(scale, 1e-300))


def _loss(output: Tensor, probe: Probe) -> Tensor:
    """One small number made of the output where that counts."""
    weights = torch.linspace(1, 9, output.numel(), dtype=output.dtype).view(output.shape).cos()
    output = output if probe.valid is None else output.masked_fill(~probe.valid, 0.0)
    return SMALL * (output * weights).sum()
