"""Whether what keeps keys and values gives, piece by piece, what one call gives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from scratch_transformer.kit.judge.detectors import joined
from scratch_transformer.kit.judge.frames import STOPS_AT, in_one_line, learners_line
from scratch_transformer.kit.judge.lengths import long, window_of
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.kind import STEPS, Finding, Probe
from scratch_transformer.kit.kinds.inputs import causal
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.grouped import FROM_THE_END, SEVERAL
from scratch_transformer.kit.recipe import RIGHT

CHUNKS: tuple[tuple[int, ...], ...] = ((3, 1, 1), (1, 1, 1, 1, 1))
"""A prompt and two more tokens; where a prompt is refused, one token after the other."""
AT_ONCE = (2, 3)
"""Two tokens, and three more at once: what hides the future by one row for each query must begin behind the two."""
UNCHECKED = "Its cache was not checked, as it stops when it is given one token after the other"
NEW_ALONE = "It returns the keys and values of the new tokens alone: whoever calls it must keep the earlier ones."
BEYOND, MORE = "where there are more tokens than in its window", 6
POSITIONS = ("all the first after a prompt", "all the first", "one too small", "one too large")


def cached(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P7, K1."""
    probe = _probe(session)
    if best is None or probe is None:
        return
    session.candidate.load(session.asked)
    recipe = best.recipe.with_({"causal": RIGHT.causal})
    needs_no_mask = "mask" not in probe.inputs and recipe == best.recipe
    output, chunks, stop = _in_pieces(session, probe, CHUNKS if needs_no_mask else CHUNKS[1:])
    expected = session.variant(recipe, probe)
    if expected is None:
        return
    is_whole = output is not None and output.shape == expected.shape
    error = distance(output, expected, probe) if is_whole else float("inf")
    if is_whole and error <= ROUNDED and (said := _beyond_its_window(session, best, probe)):
        yield Finding(MISTAKES["K1"], said, BEYOND)
        return
    if is_whole and (error <= ROUNDED or _is_right_otherwise(session, probe, chunks, expected)):
        session.candidate.notes.append("With its cache it gives, token by token, what one call gives.")
        if chunks == CHUNKS[0]:
            yield from _several_at_once(session, probe, expected)
        return
    if said := joined.otherwise(session, probe, expected, CHUNKS):
        yield Finding(MISTAKES["K1"], said, joined.ALONG)
        return
    if output is None and (line := learners_line(stop)):
        session.candidate.limits.append(f"{UNCHECKED}: {type(stop).__name__}: {in_one_line(stop)}. {STOPS_AT}{line}")
    if output is None or not is_whole:
        return
    pieces = "a prompt of three tokens, then one by one" if chunks == CHUNKS[0] else "one token after the other"
    said = f"Given {pieces}, with its cache, its outputs differ by {100 * error:.2g} % from those of one call"
    for form in POSITIONS:
        other = session.variant(recipe.with_({"step_positions": form}), probe)
        if distance(output, other, probe) <= ROUNDED:
            yield Finding(MISTAKES["P7"], f"{said}: they are those of other positions.", form)
            return
    alone = session.variant(best.recipe.with_({"causal": "itself only"}), probe)
    form = "every token sees itself only" if distance(output[:, -1:], _last(alone), probe) <= ROUNDED else ""
    yield Finding(MISTAKES["K1"], f"{said}.", form)


def _several_at_once(session: Session, probe: Probe, expected: torch.Tensor) -> Iterator[Finding]:
    """K1, of what is right token by token: with is_causal=past is None, each of several new tokens sees all of them."""
    output, chunks, _ = _in_pieces(session, probe, (AT_ONCE,))
    if output is None or output.shape != expected.shape or (error := distance(output, expected, probe)) <= ROUNDED:
        return
    if not _is_right_otherwise(session, probe, chunks, expected):
        said = f"Given two tokens, then three at once, with its cache, its outputs differ by {100 * error:.2g} %"
        more = "from those of one call; one by one they do not."
        yield Finding(MISTAKES["K1"], f"{said} {more}", SEVERAL, fix=FROM_THE_END)


def _beyond_its_window(session: Session, best: Hypothesis, short: Probe) -> str:
    """What is said of one that sees a window and keeps too little for it, or too much; "" where all is well."""
    span, every = window_of(session, best.recipe), long(session)
    if span is None or every is None or span + MORE > every.inputs[next(iter(short.inputs))].shape[1]:
        return ""
    inputs = {"mask": causal(span + MORE)} if "mask" in short.inputs else {}
    inputs |= {name: value[:1, : span + MORE] for name, value in every.inputs.items() if name in ("x", "ids")}
    probe = Probe("beyond the window", inputs, shows=f"{span + MORE} tokens")
    expected = session.variant(best.recipe.with_({"span": span}), probe)
    session.candidate.load(session.asked)
    output, _, _ = _in_pieces(session, probe, ((3, *[1] * (span + MORE - 3)), (1,) * (span + MORE)))
    if output is None or expected is None or output.shape != expected.shape:
        return ""
    error = distance(output, expected, probe)
    said = f"One by one, with its cache, {span + MORE} tokens differ by {100 * error:.2g} % from those of one call"
    return f"{said}: with its window of {span} tokens." if error > ROUNDED else ""


def _in_pieces(
    session: Session, probe: Probe, ways: tuple[tuple[int, ...], ...]
) -> tuple[torch.Tensor | None, tuple[int, ...], Exception | None]:
    """The outputs of the first way that gives any, and how long its pieces are; else what the last one stops with."""
    stop: Exception | None = None
    for chunks in ways:
        try:
            output = session.candidate.stepwise(probe.inputs, chunks)
        except Exception as error:  # some take one token at a time, others none after the first
            stop = error
            continue
        if output is not None:
            return output, chunks, None
    return None, ways[-1], stop


def _is_right_otherwise(session: Session, probe: Probe, chunks: tuple[int, ...], expected: torch.Tensor) -> bool:
    """Whether it is where it counts the tokens itself, or is given all that it has returned."""
    for steps in STEPS[1:]:
        with contextlib.suppress(Exception):  # most are meant to be called in one way alone
            output = session.candidate.stepwise(probe.inputs, chunks, steps)
            if output is not None and distance(output, expected, probe) <= ROUNDED:
                if steps.joins:
                    session.candidate.notes.append(NEW_ALONE)
                return True
    return False


def _last(output: torch.Tensor | None) -> torch.Tensor | None:
    return None if output is None else output[:, -1:]


def _probe(session: Session) -> Probe | None:
    """One sentence of five tokens, causal."""
    for result in session.ran:
        inputs = result.probe.inputs
        x = inputs.get("x", inputs.get("ids"))
        if (
            result.probe.quiet
            or not isinstance(x, torch.Tensor)
            or x.shape[1] < 5
            or set(inputs) - {"x", "ids", "mask"}
        ):
            continue
        one = {name: value[:1, :5] for name, value in inputs.items() if name != "mask"}
        return Probe("cached", one | ({"mask": causal(5)} if "mask" in inputs else {}), shows="a cache")
    return None


CACHE = ((("P7", "K1"), cached),)
