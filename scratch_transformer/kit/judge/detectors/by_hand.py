"""B33: a backward pass that is written by hand, and gives other gradients than PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator

from scratch_transformer.kit.judge.by_hand import compared
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import AVERAGED, STOPS


def other_gradients(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """The input's first, as what lies behind it depends on that; an average, which may be meant, last."""
    found = compared(session, best)
    wrong = sorted(found.wrong.items(), key=lambda one: one[1][0] in (AVERAGED, STOPS)) if found is not None else []
    for name, (form, evidence) in wrong[:1]:
        others = [other for other, (its_form, _) in wrong if other != name and its_form == form]
        more = f" So it does for {', '.join(others)}." if others else ""
        yield Finding(MISTAKES["B33"], evidence + more, form, name=name)


BY_HAND = ((("B33",), other_gradients),)
