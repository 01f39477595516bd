"""What another number of samples shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.judge.frames import STOPS_AT, in_one_line, learners_line
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.judge.stops import checked
from scratch_transformer.kit.judge.stops.crashes import crash_finding
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.embedding import IN_A_BATCH
from scratch_transformer.kit.mistakes.rotary import FIRST_ROWS

FIRST_ROW = {"position_axis": "none"}


def of_three_samples(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: what is taken apart into two, sample by sample, stops with three."""
    if best is not None or session.is_random:
        return
    inputs = session.ran[0].probe.inputs
    samples = max((len(value) for value in inputs.values() if isinstance(value, Tensor) and value.dim()), default=0)
    try:
        call(session.candidate, {name: _with_another(value, samples) for name, value in inputs.items()})
    except ValueError as error:
        found = crash_finding(error)
        yield from [Finding(found.mistake, found.evidence, found.form, explains=True)] if found is not None else []


def of_one_sample(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: a line that reads what only a second sample has, print(mask[1].shape), stops with a batch of one."""
    masked = [result for result in session.ran if result.probe.has_mask]
    for result in (*masked[:1], *session.ran[:1]):
        inputs = result.probe.inputs
        first = next((value for value in inputs.values() if isinstance(value, Tensor) and value.dim() > 1), None)
        if first is None or len(first) < 2 or session.is_random:
            continue
        one = {n: v[:1] if isinstance(v, Tensor) and len(v) == len(first) else v for n, v in inputs.items()}
        try:
            call(session.candidate, one)
        except IndexError as error:
            if code := learners_line(error):
                said = (
                    f"With {len(first)} samples it runs, with one it stops with IndexError: {error}. {STOPS_AT}{code}"
                )
                yield Finding(MISTAKES["B26"], said, fix=ONE_SAMPLE)
                return
        except Exception:  # it may be called with several only, as it is called here
            continue


ONE_SAMPLE = "Read no second sample where there need be none: x[0] is there in every batch, x[1] is not."


def _with_another(value: Any, samples: int) -> Any:
    is_of_samples = isinstance(value, Tensor) and value.dim() > 0 and len(value) == samples
    return torch.cat((value, value[-1:])) if is_of_samples else value


def in_a_batch(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P4, of what is right for a sentence, (T, d): in a batch, (1, T, d), all its tokens may get the first row.

    Or what its own check says of such.
    """
    output = session.in_a_batch
    if output is None:
        return
    result, shape = session.ran[0], session.candidate.documented_batch_first()
    probe = result.probe
    if isinstance(output, Exception) and (sizes := checked.failed(output)):
        said = f"A batch does not pass its own check: {sizes}. {STOPS_AT}{learners_line(output)}"
        if shape:
            yield Finding(MISTAKES["B26"], f"It says that it takes {shape}. {said}", explains=True)
        else:
            session.candidate.limits.append(said)
    elif isinstance(output, Exception) and shape:
        why = f"{type(output).__name__}: {in_one_line(output)}. {STOPS_AT}{learners_line(output)}"
        session.candidate.limits.append(f"It says that it takes {shape}. With a batch it stops with {why}")
    if best is None or not isinstance(output, Tensor) or distance(output, result.output, probe) <= ROUNDED or shape:
        return
    if distance(output, session.variant(best.recipe.with_(FIRST_ROW), probe), probe) <= ROUNDED:
        said = "It is right for a sentence that is no batch; in a batch of one, all tokens of it get the first row."
        yield Finding(MISTAKES["P4"], said, IN_A_BATCH, FIRST_ROW)
    else:
        session.candidate.limits.append("Of a sentence in a batch of one it gives other numbers than without.")


def rows_of_their_own(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """R9, of a rotation that takes positions (B, T), or (B, 1, T): the first row's may be every sample's."""
    result = next((r for r in session.ran if r.output is not None), None)
    if best is None or result is None or result.output is None:
        return
    x, positions = result.probe.inputs["x"], result.probe.inputs["positions"]
    rows = torch.stack([positions + 2 * sample for sample in range(len(x))])
    later = call(session.candidate, {"x": x, "positions": positions + 2})
    if distance(later, result.output, result.probe) <= ROUNDED:
        return  # it listens to none
    for shaped in (rows, rows[:, None]):
        try:
            output = call(session.candidate, {"x": x, "positions": shaped})
        except Exception:  # it need not take positions of this shape
            continue
        right = torch.cat([session.module(best.recipe)(one[None], row) for one, row in zip(x, rows, strict=True)])
        is_right = distance(output, right, result.probe) <= ROUNDED
        if not is_right and distance(output, result.output, result.probe) <= ROUNDED:
            shape = tuple(shaped.shape)
            said = f"With positions {shape} whose rows differ, its output is that of the first row for all samples."
            yield Finding(MISTAKES["R9"], said, FIRST_ROWS)
            return


SAMPLES = (
    (("B26",), of_three_samples),
    (("B26",), of_one_sample),
    (("P4", "B26"), in_a_batch),
    (("R9",), rows_of_their_own),
)
