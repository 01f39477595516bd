"""What the text of a training script shows, without running it: what its loss is given, what it calls in vain,
what it does with gradients and modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scratch_transformer.kit.judge.scripts import (
    accumulating,
    arguments,
    gradients,
    kept,
    losses,
    modes,
    paddings,
    rates,
    recording,
    shifts,
)
from scratch_transformer.kit.judge.scripts.flow import Script, parsed
from scratch_transformer.kit.mistakes.construction import OF_CALLS
from scratch_transformer.kit.mistakes.training import OF_THE_SOURCE


@dataclass(frozen=True)
class Read:
    """A mistake in a script. function: that it is in, "" for the file itself. line: from 1.

    fix: in place of the mistake's own, where that does not fit. form: of the mistake, if it is not as bad as others.
    """

    id: str
    function: str
    line: int
    evidence: str
    fix: str
    form: str


READERS = (
    (losses.softmaxed, ""),
    (losses.counting_padding, ""),
    (paddings.ignoring_another, ""),
    (paddings.ignoring_the_sources, ""),
    (shifts.unshifted, ""),
    (shifts.unshifted_batches, shifts.ONE_LATER),
    (arguments.unknown, OF_CALLS),
    (gradients.added_up, ""),
    (modes.kept_in_evaluation, ""),
    (gradients.clipped_in_vain, ""),
    (gradients.keeping_graphs, ""),
    (gradients.zeroed_before_the_step, ""),
    (gradients.never_stepping, ""),
    (modes.dropping_in_evaluation, ""),
    (rates.once_an_epoch, ""),
    (rates.once_a_batch, rates.ONCE_AN_EPOCH),
    (rates.never_stepping, ""),
    (rates.before_the_optimizer, ""),
    (kept.by_reference, ""),
    (accumulating.undivided, ""),
    (recording.needlessly, ""),
)
FORMS = {paddings.ignoring_the_sources: OF_THE_SOURCE}


def read(text: str, others: Sequence[str] = ()) -> Iterator[Read]:
    """The mistakes that a file's text shows, each once in a function. others: files that define what it imports."""
    script = parsed(text)
    if script is None:
        return
    classes = {name: node for other in others if (more := parsed(other)) for name, node in more.classes.items()}
    script = Script(script.tree, script.text, {**classes, **script.classes})
    seen: set[tuple[str, str]] = set()
    for find, fix in READERS:
        for id, node, evidence in find(script):
            function = script.function_of(node)
            if (id, function) not in seen:
                seen.add((id, function))
                yield Read(id, function, node.lineno, evidence, fix, FORMS.get(find, ""))
