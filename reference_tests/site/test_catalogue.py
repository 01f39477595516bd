"""The mathematics of the catalogue can be set by the site: seen here in a second, in its build after minutes."""

import re

import pytest

pytest.importorskip("sphinx", reason="the site's own packages: tox -e docs")

from docutils.utils.math import MathError

from docs.site.catalogue import mathematics
from docs.site.mathml import mathml
from scratch_transformer.kit.mistakes import MISTAKES

WRITTEN = {id: mistake.mathematics for id, mistake in MISTAKES.items() if mistake.mathematics}


def unset(text):
    """The formulas of a text that cannot be set."""
    made = re.findall(r":math:`(.*?)`", mathematics(text))
    return [formula for formula in made if not is_set(formula)]


def is_set(formula):
    try:
        return bool(mathml(formula))
    except MathError:
        return False


def test_the_mathematics_of_every_mistake_can_be_set():
    assert {id: unset(text) for id, text in WRITTEN.items() if unset(text)} == {}
    assert WRITTEN


def test_what_cannot_be_set_is_seen():
    assert unset("y = x_(a ⋈ b) + 1") == [r"y=x_{a ⋈ b} + 1"]


@pytest.mark.parametrize("sign", ["≤", "≥", "≠", "∈", "→"])
def test_an_index_may_be_compared(sign):
    assert unset(f"Σ_(s {sign} t) L_s = 1") == []
