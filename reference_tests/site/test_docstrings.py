"""Docstrings become reStructuredText: formulas are found in the sentences around them, and nothing else is markup."""

import pytest

from docs.site.docstrings import inline, restructured

SENTENCES = {
    "relu(x) = max(0, x), with derivative 0 at x = 0.": 2,
    "y = x · m / (1 - p) with m ~ Bernoulli(1 - p) for every element": 2,
    "PE(pos, 2i) = sin(pos), PE(pos, 2i+1) = cos(pos).": 2,
    "betas: (β₁, β₂), the decay of the means per step.": 1,
    "divides by n, not by n - 1": 1,
    # no formulas: shapes, arguments, half of something
    "x: (*, in_features) or (N, C, L).": 0,
    "True = may attend, and 1 = keep": 0,
    "betas=(0.9, 0.98), eps=1e-9": 0,
    "averages are kept: running ← (1 - m) running + m batch, for": 0,
    "ids (B, S) -> (B, 1, 1, S)": 0,
    "and/or, well-known, the norm_type-norm": 0,
}


@pytest.mark.parametrize("text", SENTENCES)
def test_the_formulas_of_a_sentence(text):
    assert inline(text).count(":math:") == SENTENCES[text]


def test_nothing_else_is_markup():
    assert inline("in *args and x_ and |y|: `code`s") == r"in \*args and x\_ and \|y\|: ``code``\ s"


def test_lines_of_equations_stand_below_each_other():
    made = restructured(["The means:", "", "    m = β m + g    of the gradients", "    v = β v + g²", "", "End."])
    assert [line[:2] for line in made if ":math:" in line] == ["| ", "| "]


def test_code_stays_as_it_is():
    assert "   for batch in batches:" in restructured(["So:", "", "    for batch in batches:", "        step(batch)"])


def test_a_table_is_a_table():
    assert ".. list-table::" in restructured(["| a | b |", "|---|---|", "| `c` | 1 |"])


def test_sections_are_left_to_napoleon():
    lines = ["Words.", "", "Args:", "    x: (*, n).", "", "Raises:", "    ValueError: n = 0."]
    assert [line for line in restructured(lines) if line.endswith(":")] == ["Args:", "Raises:"]


def test_code_over_two_lines_is_joined():
    assert "``a b``" in "\n".join(restructured(["See `a", "b`."]))
