"""Mistakes with a continuous parameter, fitted: ε and divisor of norms, factors of scores and embeddings, rates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import torch

from scratch_transformer.kit.canonical.embedding import GIVEN, OF_LENGTH, scaled
from scratch_transformer.kit.canonical.rotary import TIMES, pairs
from scratch_transformer.kit.judge.session import EXACT, NOISE, ROUNDED, Session
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.normalization import IN_DIVISOR
from scratch_transformer.kit.recipe import RIGHT, Recipe

MOST_PARTS = 16
"""Of the fraction by which exponents are multiplied."""
Fit = list[tuple[str, str, dict[str, Any]]]


def fitted(session: Session, designs: Sequence[Recipe]) -> list[Fit]:
    """Lists of (id, form, changes), one for every fit that is worth a try."""
    fits: list[Fit] = []
    if session.kind.name in ("LayerNorm", "RMSNorm"):
        fits += _normalization(session)
    if session.kind.name.endswith("Attention") and session.ran:
        fits += _scale(session, designs[0])
    if session.kind.name == "InputEmbedding":
        fits += _factor(session)
    if session.kind.name == "EmbeddingWithPositions":
        fits += _bases(session, designs)
    if session.kind.name == "RotaryEmbedding":
        fits += _exponent(session, designs)
    if session.kind.name == "PositionalEncoding":
        fits += [*_bases(session, designs), *_several(session)]
        explained = any(session.error(RIGHT.with_(_entries(fit)), ROUNDED) <= ROUNDED for fit in fits)
        fits += [] if explained else _frequencies(session)
    return fits


def _entries(fit: Fit) -> dict[str, Any]:
    return {name: value for _, _, entries in fit for name, value in entries.items()}


def _factor(session: Session) -> list[Fit]:
    """Of embeddings, from the features of one token."""
    result = next((r for r in session.ran if r.output is not None and r.output.dim() == 3), None)
    if result is None or result.output is None:
        return []
    table = session.state["weight"][result.probe.inputs["ids"][0, 0]]
    factor = (result.output[0, 0].double() @ table / (table @ table)).item()
    return [[("E2", f"times {factor:.6g}", {"embedding_scale": repr(factor)})]] if factor > 0 else []


def _bases(session: Session, designs: Sequence[Recipe]) -> list[Fit]:
    """Of the frequencies that are added to zeros, or to the vectors of words in one of the designs."""
    result = next((r for r in session.ran if r.probe.name in ("zeros", "ids")), None)
    if result is None or result.output is None or result.output.dim() != 3 or result.output.shape[-1] < 4:
        return []
    second, words = result.output[0, 1].double(), session.state.get("embed.weight")
    if words is None:
        return _base(session, second)
    row = words[result.probe.inputs["ids"][0, 1]]
    codes = [second - scaled(row, how) for how in dict.fromkeys(design.embedding_scale for design in designs)]
    waves = [code for code in codes if abs(float(code[2:4].norm()) - 1) < NOISE]
    return [fit for code in waves for fit in _base(session, code)]


def _base(session: Session, code: torch.Tensor) -> list[Fit]:
    """Of the frequencies, from the second pair's sine and cosine at the second position: 1 / base^(2/d_model)."""
    angle, d_model = torch.atan2(*code[2:4].unbind()).item(), len(code)
    base = angle ** (-d_model / 2) if 0 < angle < 1 else 0.0
    if not 1 < base < 1e8 or abs(base / 10000 - 1) < 1e-6:
        return []
    if abs(base / session.settings["max_len"] - 1) < 1e-4:  # of float32's numbers
        return [[("P2", "its base is the longest length, not 10,000", {"angles": OF_LENGTH})]]
    form = f"its base is {base:.6g}, not 10,000"
    width = d_model * math.log(10000) / math.log(base)  # 10000^(2i/8) = (10^6)^(2i/12)
    is_whole = abs(width / max(round(width), 1) - 1) < 1e-5
    if is_whole and (base > 10000 or abs(base - round(base)) > 1e-3):
        form += f"; or {round(width)} is written in for d_model"
    return [[("P2", form, {"angles": repr(value)})] for value in (round(base, 6), base)]


def _exponent(session: Session, designs: Sequence[Recipe]) -> list[Fit]:
    """The factor of the exponents of rotary angles, from how far the second pair is turned at the position 1.

    A fraction of small numbers: anything else is no factor that somebody writes.
    """
    result = next((r for r in session.ran if r.probe.name == "in order"), None)
    output, fits = None if result is None else result.output, list[Fit]()
    if result is None or output is None or output.shape != (x := result.probe.inputs["x"]).shape or x.shape[-1] < 4:
        return []
    for order in dict.fromkeys(design.rotary for design in designs):
        before, after = pairs(x[0, 0, 1], order), pairs(output[0, 0, 1], order)
        (a, b), (c, d) = ((one[1].double().item(), other[1].double().item()) for one, other in (before, after))
        angle = abs(math.atan2(a * d - b * c, a * c + b * d))
        usual = 2 / x.shape[-1] * math.log(session.settings["rope_base"])
        exact = -math.log(angle) / usual if angle > 0 else 0.0
        factor = Fraction(exact).limit_denominator(MOST_PARTS)
        if factor > 0 and factor != 1 and factor.numerator <= MOST_PARTS and abs(factor - exact) < 1e-4:
            form = f"the exponent is multiplied by {factor}"
            fits.append([("R2", form, {"rotary_angles": f"{TIMES}{float(factor)!r}"})])
    return fits


LAYOUTS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]] = {
    "interleaved": lambda table: (table[:, 0::2], table[:, 1::2]),
    "concatenated": lambda table: (table[:, : table.shape[1] // 2], table[:, table.shape[1] // 2 :]),
    "cosine first": lambda table: (table[:, 1::2], table[:, 0::2]),
}
"""A table of positions -> its sines and its cosines."""
ORDERS = {"concatenated": "all sines, then all cosines", "cosine first": "cosine before sine"}


def _frequencies(session: Session) -> list[Fit]:
    """Of every sine and cosine by itself: sin(2ω) = 2 sin ω cos ω, from the second and the third position."""
    result = next((r for r in session.ran if r.probe.name == "zeros"), None)
    if result is None or result.output is None or result.output.dim() != 3 or result.output.shape[1] < 3:
        return []
    table = result.output[0].double()
    if table.shape[1] % 2 or not bool(table.isfinite().all()):
        return []
    fits: list[Fit] = []
    for layout, halves in LAYOUTS.items():
        sines, cosines = halves(table)
        is_zero = float(sines[0].abs().max()) < 1e-6 and float((cosines[0] - 1).abs().max()) < 1e-6
        one = 1 if is_zero else 0  # the row of the position 1
        double = torch.where(sines[one].abs() < 1e-9, torch.ones_like(sines[one]), sines[one + 1] / (2 * sines[one]))
        of_sine, of_cosine = torch.atan2(sines[one], double), cosines[one].clamp(-1, 1).acos()
        angles = " ".join(repr(value) for value in (*of_sine.tolist(), *of_cosine.tolist()))
        first = ", ".join(f"{value:.3g}" for value in of_sine[:3].tolist())
        changes: Fit = [("P2", f"those of its sines are {first}, …", {"angles": f"{GIVEN}{angles}"})]
        changes += [] if is_zero else [("P9", "from 1", {"first_position": 1})]
        fits.append(changes if layout == "interleaved" else [*changes, ("P3", ORDERS[layout], {"layout": layout})])
    return fits


def _several(session: Session) -> list[Fit]:
    """Two or three of the known mistakes of a table at once: its angles, their order, the first position."""
    forms = [[(id, form, dict(e)) for form, e in MISTAKES[id].changes.items()] for id in ("P2", "P3", "P14", "P9")]
    chosen = itertools.product(*([None, *own] for own in forms))
    several = [[change for change in some if change is not None] for some in chosen]
    return [some for some in several if len(some) > 1]


def _normalization(session: Session) -> list[Fit]:
    """ε from the token with the smallest deviation, for all ways to divide."""
    result = next((r for r in session.ran if r.probe.name == "shrinking"), None)
    if result is None or result.output is None or result.output.shape != result.probe.inputs["x"].shape:
        return []
    x, output = result.probe.inputs["x"][-1, -1], result.output[-1, -1].double()
    centred = x - x.mean() if session.kind.name == "LayerNorm" else x
    scale, shift = session.state["weight"], session.state.get("bias", torch.zeros(()))
    variance, n = centred.square().mean().item(), x.numel()
    fits: list[Fit] = []
    for (affine, y), ddof in itertools.product(
        _unscaled(output, scale, shift, centred), (0, 1)[: 1 + ("bias" in session.state)]
    ):
        s2 = variance * n / (n - ddof)
        changes: Fit = [*([] if ddof == 0 else [("LN1", "", {"ddof": 1})]), *affine]
        above = x.mean().expand(n) if "norm_kind" in _entries(affine) else centred
        y = x - y if "norm_kind" in _entries(affine) else y
        divisor = ((above @ above) / (above @ y)).item()  # y = above / divisor
        for own, eps in _divisions(divisor, s2):
            for value in {_tidy(eps), eps}:
                if abs(value - session.settings["eps"]) > 1e-3 * session.settings["eps"] and value >= 0:
                    fits.append([*changes, *own, ("LN3", f"{value:.3g}", {"eps": value})])
                elif affine:
                    fits.append([*changes, *own])
    return fits


def _unscaled(
    output: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, centred: torch.Tensor
) -> Iterator[tuple[Fit, torch.Tensor]]:
    """What may have been before it was scaled and shifted, for every way to do that."""
    usual = (output - shift) / scale
    yield [], usual
    if shift.dim():
        yield [("LN14", "the mean alone is divided", {"norm_kind": "mean divided"})], usual
        yield [("LN14", "the shift is scaled too", {"affine": "shift, scale"})], output / scale - shift
        alone = centred / (centred * scale / output - shift)  # by the divisor without the shift
        yield [("LN14", IN_DIVISOR, {"affine": "scale, shift in the divisor"})], alone
        undone = {"scale": output / scale, "shift": output - shift, "neither": output}
        for form, entries in MISTAKES["LN6"].changes.items():
            yield [("LN6", form, dict(entries))], undone[entries["affine"]]


def _divisions(divisor: float, variance: float) -> Iterator[tuple[Fit, float]]:
    """Every way to divide by a power of the deviation, with the ε that it then has."""
    outside: Fit = [("LN2", "", {"eps_inside": False})]
    yield [], divisor**2 - variance
    yield outside, divisor - variance**0.5
    powers = {
        "no root": divisor - variance,
        "two roots": divisor**2 - variance**0.5,
        "squared": divisor**2 - variance**2,
    }
    for form, entries in MISTAKES["LN10"].changes.items():
        own: Fit = [("LN10", form, dict(entries))]
        yield own, powers.get(entries["variance"], divisor**-2 - variance)
        if entries["variance"] not in powers:
            yield [*own, *outside], 1 / divisor - variance**0.5


def _tidy(value: float) -> float:
    """1.0000003e-06 -> 1e-06; less than 1e-15 is rounding."""
    return float(f"{value:.2g}") if abs(value) > 1e-15 else 0.0


def _scale(session: Session, design: Recipe) -> list[Fit]:
    """The factor of the scores that fits best, if one fits.

    None where the right one nearly does: √d_k + 1e-8 divides like √d_k, as float32 sees it.
    """
    design = session.candidate.explained or design
    if session.error(design.with_({"scale": RIGHT.scale}), stop_above=NOISE) <= NOISE:
        return []
    factor = factor_of_scores(lambda value: session.error(design.with_({"scale": repr(value)})))
    return [[("A1", f"multiplied by {factor:.6g}", {"scale": repr(factor)})]] if factor is not None else []


def factor_of_scores(error: Callable[[float], float], step: float = 0.5) -> float | None:
    """The factor with which an error vanishes. step: of the powers of 2 that are tried first."""
    grid = torch.arange(-7, 7 + step, step).tolist()
    errors = [error(2.0**point) for point in grid]
    best = errors.index(min(errors))
    if not 0 < best < len(grid) - 1 or errors[best] > 0.5:
        return None
    factor = float(2.0 ** _minimum(lambda point: error(2.0**point), grid[best - 1], grid[best + 1]))
    return factor if error(factor) <= 1e3 * EXACT else None


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Golden-section search."""
    ratio = (5**0.5 - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = function(a), function(b)
    for _ in range(60):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = function(b)
    return (low + high) / 2
