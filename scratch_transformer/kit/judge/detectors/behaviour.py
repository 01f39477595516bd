"""What repeated calls, training mode and other precisions show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from scratch_transformer import masks
from scratch_transformer.kit.judge.evidence import share
from scratch_transformer.kit.judge.frames import DONE_AT, STOPS_AT, learners_line, learners_place, line_now
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance, in_precision
from scratch_transformer.kit.judge.stops.crashes import explain_crash, fix_of
from scratch_transformer.kit.judge.variants import call, copies, is_float
from scratch_transformer.kit.kind import NETWORKS, Finding, Inputs, Probe
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import OF_COUNTS, ONE_COUNT
from scratch_transformer.kit.mistakes.masks import BESIDE_FLAG
from scratch_transformer.kit.recipe import RIGHT


def input_changed(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A12."""
    result = next((result for result in session.ran if result.changed), None)
    if result is not None:
        inputs, name = copies(result.probe.inputs), result.changed[0]
        with torch.no_grad(), Changes(inputs) as changes:
            session.candidate(**inputs)
        at = f" {DONE_AT}{changes.lines[name]}" if changes.lines.get(name) else ""
        yield Finding(MISTAKES["A12"], f"After a call, {name} has other values than before.{at}")


class Changes(TorchFunctionMode):
    """At which lines of a learner's tensors are first changed in place, by their names."""

    def __init__(self, tensors: Inputs) -> None:
        super().__init__()
        self.tensors = {name: value for name, value in tensors.items() if isinstance(value, Tensor)}
        self.versions = {name: value._version for name, value in self.tensors.items()}
        self.lines: dict[str, str] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for name in [name for name, value in self.tensors.items() if value._version != self.versions[name]]:
            self.versions[name] = self.tensors[name]._version
            self.lines.setdefault(name, line_now())
        return output


def other_in_training(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B11: without dropout, training mode computes something else: with a causal mask, or whatever it may be."""
    module = session.candidate.module
    if module is None or best is None or session.settings.get("dropout") or session.kind.name == "Dropout":
        return
    probe = session.ran[0].probe
    evaluated = call(session.candidate, probe.inputs)
    module.train()
    try:
        trained, again = (call(session.candidate, probe.inputs) for _ in range(2))
    finally:
        module.eval()
    inputs = dict(probe.inputs)
    if "mask" in inputs:
        length = inputs["x" if "x" in inputs else "ids"].shape[1]
        inputs["mask"] = masks.causal(length, length)[None, None]
    expected = session.variant(best.recipe.with_({"causal": RIGHT.causal}), Probe("causal", inputs))
    if distance(evaluated, trained, probe) > 1e-6 and distance(trained, expected, probe) <= ROUNDED:
        yield Finding(
            MISTAKES["B11"], "Without a mask, its output in training is that of causal attention; not after eval()."
        )
    elif distance(trained, again, probe) == 0 and not any(isinstance(part, BATCH_NORMS) for part in module.modules()):
        error = distance(trained, evaluated, probe)  # infinite for another shape: the last token alone, as it is needed
        if 1e-6 < error < float("inf"):
            said = f"Without any dropout, its output in training mode differs by {share(error)} from that after eval()."
            yield Finding(MISTAKES["B11"], said)


BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


def norm_of_the_batch(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """LN7 within a network, which after eval() computes as if there were no such norm."""
    parts = session.candidate.module.modules() if session.candidate.module is not None else ()
    found = next((part for part in parts if isinstance(part, BATCH_NORMS)), None)
    if found is not None and session.kind.name in NETWORKS:
        said = f"In training, its nn.{type(found).__name__} takes mean and variance over the tokens of the whole batch."
        yield Finding(MISTAKES["LN7"], said, "over the batch")


def refuses_masks(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A31, as far as resolving it showed."""
    are_moved = best is None or best.recipe.split != "behind the tokens"  # no mask of tokens fits scores of heads
    if session.candidate.refused is not None and are_moved:
        parameter, error = session.candidate.refused
        line = next(iter(str(error).splitlines()), "")[:200].rstrip(".")
        said = (
            f"Without {parameter} it computes; with it, in every usual form, it stops: {type(error).__name__}: {line}."
        )
        at = learners_line(error)
        evidence, fix = f"{said} {STOPS_AT}{at}" if at else said, fix_of("A31", error)
        yield Finding(MISTAKES["A31"], evidence, fix=fix, at=learners_place(error))


def refused_today(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A34, of what resolving it let pass."""
    ran = session.ran if session.candidate.used_old_masks else []
    found = {what: None for result in ran for what in session.candidate.old_masks(**result.probe.inputs)}
    if found:
        said = f"It uses {' and '.join(found)}, and stops there. All else was compared as if PyTorch took it."
        yield Finding(MISTAKES["A34"], said)


def one_length(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A35: it stops where queries and keys differ in number, and runs where they do not, whatever the number is."""
    pairs = {"key", "memory", "src"} & set(session.kind.inputs)
    # keys that are added to queries cannot differ in number, nor values that each query has one of, nor a token's heads
    is_one_each = best is not None and (
        "B23" in best.ids or best.recipe.summed == "own value" or best.recipe.split == "behind the tokens"
    )
    for result in session.crashes if best is not None and pairs and not is_one_each else ():
        free = {name: None if "mask" in name else value for name, value in result.probe.inputs.items()}
        without = _error(session, free) if session.candidate.accepts(free) else None
        words = (SPLIT if without is None else LENGTHS).search(str(without or result.error))
        if words and not any(_error(session, _cut(result.probe.inputs, length)) for length in (3, 4)):
            line = next(iter(str(without or result.error).splitlines()), "")
            said = f"With as many keys as queries it runs, whatever their number; with others it stops: {line}."
            code = learners_line(without or result.error)
            said += f" {STOPS_AT}{code}" if code else ""
            has_heads = session.kind.name != "ScaledDotProductAttention" and "mask" not in code
            does, fix = ("", "") if has_heads else (ONE_COUNT, OF_COUNTS)
            yield Finding(MISTAKES["A35"], said, does=does, fix=fix, at=learners_place(without or result.error))
            return


SPLIT = re.compile("is invalid for input of size")
LENGTHS = re.compile("is invalid for input of size|must match the (existing )?size")


def _error(session: Session, inputs: Inputs) -> RuntimeError | None:
    try:
        call(session.candidate, inputs)
    except RuntimeError as error:
        return error
    return None


def _cut(inputs: Inputs, length: int) -> Inputs:
    """The first tokens of each sequence, and of a mask in each axis that is of tokens."""
    masks = {n: m[..., :length, :length] for n, m in inputs.items() if "mask" in n and isinstance(m, Tensor)}
    cut = {n: x[:, :, :length] if x.dim() == 4 else x[:, :length] for n, x in inputs.items() if isinstance(x, Tensor)}
    return {**inputs, **cut, **masks}


def masks_overwritten(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A29, of what takes padding and future in a mask each."""
    result = next((r for r in session.ran if r.probe.name == "causal, padded"), None)
    if result is None or best is None:
        return
    probe = result.probe
    for output in session.candidate.apart(**probe.inputs):
        if distance(output, session.variant(best.recipe, probe), probe) <= ROUNDED:
            continue
        for form, entries in MISTAKES["A29"].changes.items():
            if distance(output, session.variant(best.recipe.with_(entries), probe), probe) <= ROUNDED:
                said = "With the padding in one mask and the future in the other, its output is that of one alone."
                yield Finding(MISTAKES["A29"], said, form, entries)
                return


def future_lost(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A29, of what hides the future with a flag, is_causal=True, and forgets it where it is given a mask of padding."""
    named = {probe.name: probe for probe in (*session.probes, *session.left_out)}
    probe, causal = named.get("causal, padded"), named.get("causal")
    if best is None or probe is None or causal is None:
        return
    alone = session.candidate.told_causal(**{**causal.inputs, "mask": None})
    if alone is None or distance(alone, session.variant(best.recipe, causal), causal) > ROUNDED:
        return
    both = session.candidate.told_causal(**{**probe.inputs, "mask": probe.inputs["mask"].any(-2, keepdim=True)})
    form = "the causal mask is lost"
    entries = MISTAKES["A29"].changes[form]
    right, lost = (session.variant(recipe, probe) for recipe in (best.recipe, best.recipe.with_(entries)))
    if distance(both, right, probe) > ROUNDED and distance(both, lost, probe) <= ROUNDED:
        said = "With its flag alone it hides the future; with a mask of padding besides, it hides the padding alone."
        yield Finding(MISTAKES["A29"], said, form, entries, name=BESIDE_FLAG)


def half_precision(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A8: a masked call in float16; of what is given a flag in place of a mask, with that."""
    module = session.candidate.module
    masked = [result.probe for result in session.ran if result.probe.has_mask]
    probe = masked[0] if masked else session.ran[0].probe
    inputs = {n: v.half() if is_float(v) else v for n, v in probe.inputs.items()}
    try:
        with nullcontext() if module is None else in_precision(session, module, torch.float16):
            call(session.candidate, inputs)
            if not masked:
                session.candidate.told_causal(**inputs)
    except Exception as error:  # the learner's code may raise anything
        if explain_crash(error) == "A8":
            line = str(error).splitlines()[0]
            yield Finding(MISTAKES["A8"], f"In float16 it stops with: {line}. In float32 it does not.")


def softmax_twice(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """T1, by the functions that are called: the results are those of one."""
    with Calls() as calls:
        call(session.candidate, session.ran[0].probe.inputs)
    if session.kind.name == "Loss" and calls.names_of_log_probabilities:
        names = " and ".join(sorted(calls.names_of_log_probabilities))
        said = f"What {names} gets are log-probabilities already: their exponentials sum to 1. The loss is the same."
        yield Finding(MISTAKES["T1"], said)


class Calls(TorchFunctionMode):
    """Which of torch's functions that take logits are called with log-probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.names_of_log_probabilities: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "").removesuffix("_loss")
        if name in ("log_softmax", "cross_entropy") and args and args[0].dim() == 2:
            sums = args[0].detach().double().logsumexp(-1)
            if bool((sums.abs() < 1e-6).all()):
                self.names_of_log_probabilities.add(name)
        return func(*args, **(kwargs or {}))


BEHAVIOUR = (
    (("A12",), input_changed),
    (("B11",), other_in_training),
    (("LN7",), norm_of_the_batch),
    (("A31",), refuses_masks),
    (("A34",), refused_today),
    (("A35",), one_length),
    (("A29",), masks_overwritten),
    (("A29",), future_lost),
    (("A8",), half_precision),
    (("T1",), softmax_twice),
)
