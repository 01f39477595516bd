"""What stops where nothing is given for what need not be given, or what everybody gives: dropout, a batch."""

from __future__ import annotations

import inspect
import linecache
import traceback
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from scratch_transformer.kit.judge import callers
from scratch_transformer.kit.judge.frames import STOPS_AT, frames_of, in_one_line, learners_line, line_of
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.stops.crashes import crash_finding
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import (
    ALWAYS_MASKED,
    NEEDS_MASK,
    NO_DROPOUT,
    OF_BOTH_MASKS,
    OF_NO_MASK,
    OF_SHAPES,
)


def stops_without_positions(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: right with its positions given, it counts them itself without, and then its shapes do not fit."""
    found = session.candidate.uncounted(**session.ran[0].probe.inputs) if best is not None else None
    if found is not None and isinstance(found[1], RuntimeError):
        text = in_one_line(found[1])
        yield Finding(MISTAKES["B26"], f"Without {found[0]}, as by default, it stops: {text}.", found[0], fix=OF_SHAPES)


def stops_as_by_default(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: built with a number that it need not be told, it runs; without, a line stops it that no number mends."""
    names, error = (session.candidate.bare() or ([], None)) if best is not None else ([], None)
    is_of_none = "NoneType" in str(error)  # which must be told, perhaps, whatever its default is
    finding = crash_finding(error) if error is not None and not is_of_none else None
    if finding is not None and finding.severity == "mistake":
        said = f"Its constructor stops where {' and '.join(names)} is left out, as it may be. {finding.evidence}"
        yield replace(finding, evidence=said)


def stops_with_several(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: right with one sentence in a batch, it stops with more; not where it refuses them in words, itself.

    Positions that do are counted along the batch (P4).
    """
    is_asked = best is not None and session.kind.name != "PositionalEncoding"
    given = [result.probe.inputs for result in session.ran] if is_asked else []
    stops = (session.candidate.several(**inputs) for inputs in given)
    error = next(filter(None, stops), None)
    line = learners_line(error) if error is not None else ""
    if error is not None and not line.startswith(("raise ", "assert ")):
        at = f" {STOPS_AT}{line}" if line else ""
        said = f"Right with one sentence in a batch, it stops with more: {_said(error)}.{at}"
        yield Finding(MISTAKES["B26"], said, fix=OF_SHAPES)


def stops_without_a_mask(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: its mask is None by default, and it stops with that; not where it asks for one in words, itself."""
    candidate, error = session.candidate, session.candidate.unmasked
    if error is None and best is not None:
        stopped = candidate.without_masks(**session.ran[0].probe.inputs)
        error = stopped if "NoneType" in str(stopped) else None  # or something else is all that it lacks
    line = learners_line(error)
    names = candidate.masks_by_default() if line and not line.startswith(("raise ", "assert ")) else []
    if error is None or not names:
        return
    is_left_out = any(callers.may_leave_out(candidate.definition, name) for name in names)
    verb = "is" if len(names) == 1 else "are"
    said = f"{' and '.join(names)} {verb} None by default, and with that it stops: {_said(error)}. {STOPS_AT}{line}"
    yield Finding(
        MISTAKES["B26"], said, "" if is_left_out else ALWAYS_MASKED, name=names[0], does=NEEDS_MASK, fix=OF_NO_MASK
    )


WITH_DROPOUT = "Runs without dropout alone: built with any, its forward stops, as it does in every training."
OF_DROPOUT = "Build it with the dropout that it is to be trained with, call it, and mend what the error names."
USUAL = 0.1
"""A probability of dropout."""


def stops_with_dropout(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: right without dropout, it cannot be built with any, or stops; or dropout=None, its default, stops it."""
    if best is None or session.candidate.module is None:
        return
    error = _refused(session, USUAL)
    if error and not _refused(session, 0.0) and not _is_of_dropout(error):
        yield Finding(MISTAKES["B26"], f"Built with dropout = {USUAL}, it stops with {_said(error)}.")
    elif error is None and (stopped := _stopped(session, USUAL)) and not _stopped(session, 0.0):
        said = f"Without dropout it runs; built with dropout = {USUAL}, its forward stops with {_said(stopped)}."
        fix = OF_BOTH_MASKS if "is_causal" in str(stopped) else OF_DROPOUT
        yield Finding(MISTAKES["B26"], f"{said} {STOPS_AT}{learners_line(stopped)}", does=WITH_DROPOUT, fix=fix)
    elif _is_none_by_default(session.candidate) and (error := _refused(session, None)) and _is_of_dropout(error):
        yield Finding(MISTAKES["B26"], f"Without a dropout, as by default, it stops with {_said(error)}.", NO_DROPOUT)


WIDTHS = {"d_model": 24, "d_ff": 36}


def stops_with_two_widths(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: a network that is told two widths stops where they differ, as a map is given what it has made."""
    settings = session.candidate.settings
    if settings.get("d_model") != settings.get("d_ff", 0):
        return
    candidate = session.candidate.rebuild(**WIDTHS)
    probe = session.kind.probes({**session.settings, **WIDTHS}, 0)[0]
    try:
        call(candidate, probe.inputs)
    except RuntimeError as error:
        frames = frames_of(error)
        own = [frame for frame in frames if frame.f_locals.get("self") is candidate.module]
        line = linecache.getline(own[-1].f_code.co_filename, line_of(error, own[-1])).strip() if own else ""
        if candidate.told >= WIDTHS.keys() and line:
            said = f"It works only where its two widths are one number; with {' and '.join(map(str, WIDTHS.values()))}"
            said = f"{said} it stops: {in_one_line(error)}. {STOPS_AT}{line}"
            yield Finding(MISTAKES["B26"], said, explains=True, fix=OF_SHAPES)


IN_PLACE = "Writes into a weight in place. Where gradients are on, as they are in every script, PyTorch refuses that."
OF_WEIGHTS = (
    "with torch.no_grad(): around the lines that write; or self.register_buffer('table', table) for what is fixed."
)


def stops_with_gradients(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: its constructor writes into a weight in place, which only stops with gradients: it was built without."""
    try:
        with torch.enable_grad():
            session.candidate.rebuild()
    except KeyError:
        return
    except RuntimeError as error:
        line = learners_line(error)
        if "leaf Variable that requires grad" in str(error) and line:
            said = f"Its constructor stops with {_said(error).rstrip('.')}. {STOPS_AT}{line}"
            yield Finding(MISTAKES["B26"], said, does=IN_PLACE, fix=OF_WEIGHTS)
    except Exception:  # the learner's code may raise anything
        return


def _refused(session: Session, dropout: float | None) -> Exception | None:
    try:
        session.candidate.rebuild(dropout=dropout)
    except KeyError:  # it has no such setting
        return None
    except Exception as error:  # the learner's code may raise anything
        return error
    return None


def _stopped(session: Session, dropout: float) -> Exception | None:
    """What its forward stops with in a learner's line, in training or not, where it is built with a dropout."""
    try:
        candidate = session.candidate.rebuild(dropout=dropout)
        candidate.load(session.asked)
    except Exception:  # it has no such setting, or cannot be built twice
        return None
    for result in session.ran:
        for is_training in (True, False):
            if candidate.module is not None:
                candidate.module.train(is_training)
            candidate.drops = True
            try:
                call(candidate, result.probe.inputs)
            except Exception as error:  # the learner's code may raise anything
                return error if learners_line(error) else None
    return _stopped_by_its_mask(session, candidate)


def _stopped_by_its_mask(session: Session, candidate: Candidate) -> Exception | None:
    """What it stops with where it is given a mask that its kind has no input for, and another one runs with it."""
    x = session.ran[0].probe.inputs.get("x")
    if x is None or not session.candidate.masks_left or candidate.module is None:
        return None
    candidate.module.train()
    candidate.masks_left, keep = session.candidate.masks_left, torch.ones(x.shape[:2], dtype=torch.bool)
    usual = dict(session.candidate.with_padding(keep, x=x))
    for form, stopped in candidate.with_padding(keep, x=x):
        if isinstance(stopped, Exception) and isinstance(usual[form], Tensor) and learners_line(stopped):
            return stopped
    return None


def _is_none_by_default(candidate: Candidate) -> bool:
    given = inspect.signature(type(candidate.module)).parameters.values()
    return any(p.default is None and "drop" in p.name.lower() for p in given)


def _is_of_dropout(error: Exception) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.endswith("modules/dropout.py")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}".removesuffix(": ")


DEFAULTS = (
    (("B26",), stops_without_positions),
    (("B26",), stops_with_gradients),
    (("B26",), stops_as_by_default),
    (("B26",), stops_without_a_mask),
    (("B26",), stops_with_dropout),
    (("B26",), stops_with_two_widths),
    (("B26",), stops_with_several),
)
