"""What hides the future itself does with padding, which its kind has no input for."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding, Probe
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import SPREADS

GIVEN = "Given its "
"""How it is said that a mask was given which the kind has no input for."""


def beside_the_future(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A7, of attention that hides the future itself and can be given a mask of padding: words behind padding tell.

    Right is what the sentence gives alone; on the queries, the mask leaves it as it is without, and padding's own rows
    not. Rows that are always the same are no such: what is made of padding may be thrown away.
    """
    candidate = session.candidate
    if best is None or not candidate.masks_left or best.recipe.causal != "lower":
        return
    x = session.ran[0].probe.inputs["x"]
    keep = torch.ones(x.shape[:2], dtype=torch.bool)
    keep[-1, :PADS] = False
    alone, seen = call(candidate, {"x": x[-1:, PADS:]})[0], call(candidate, {"x": x})[-1]
    found: dict[str, Tensor] = {}
    for form, output in candidate.with_padding(keep, x=x.clone()):
        if isinstance(output, Exception):
            continue
        last = output[-1]
        if _alike(last[PADS:], alone):
            return
        if _alike(last[PADS:], seen[PADS:]) and not _alike(last[:PADS], seen[:PADS]):
            found[form] = last[:PADS]
    others = dict(candidate.with_padding(keep, x=-x)) if found else {}
    rows_of = {form: other[-1, :PADS] for form, other in others.items() if isinstance(other, Tensor)}
    for form in [form for form, rows in found.items() if form in rows_of and not _alike(rows_of[form], rows)][:1]:
        said = (
            f"{GIVEN}{form}, it gives the words behind padding what it gives them without, and padding something else."
        )
        yield Finding(MISTAKES["A7"], said, "queries instead of keys")


def rows_of_padding(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A11, of a language model that hides padding by itself: behind a sentence it makes NaN of the words before it.

    Whatever its id is: every one is tried, behind other words twice, of which one may be that of padding.
    """
    candidate, ids = session.candidate, session.ran[0].probe.inputs.get("ids")
    if best is None or not candidate.speaks_of_padding or "mask" in session.kind.inputs or not isinstance(ids, Tensor):
        return
    words = int(session.settings["vocab_size"])
    last = torch.arange(words)[:, None]
    behind = [torch.cat(((last + n) % words, (last + n + 1) % words, last, last), 1) for n in (1, 3)]
    spoilt = [call(candidate, {"ids": some})[:, :2].isnan().flatten(1).any(1) for some in behind]
    found = (spoilt[0] & spoilt[1]).nonzero().flatten().tolist()
    if len(found) == 1:
        said = f"Behind the words of a sentence, id {found[0]} makes NaN of their outputs, though they do not see it."
        yield Finding(MISTAKES["A11"], said, SPREADS)


PADS = 2
"""Tokens of padding in front of a sentence."""


def _alike(output: Tensor, expected: Tensor) -> bool:
    return distance(output, expected, Probe("", {})) <= ROUNDED


FUTURE = ((("A7",), beside_the_future), (("A11",), rows_of_padding))
