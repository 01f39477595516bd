"""Which mistakes of the catalogue are offered."""

import re

import pytest

from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.recipe import Recipe
from scratch_transformer.translation.config import Model
from scratch_transformer.view import mistakes
from scratch_transformer.view.bundle import ASSETS

FORWARD = ("LN", "E", "P", "A", "B", "D")
RECIPE = (ASSETS / "recipe.js").read_text(encoding="utf-8")


def test_every_mistake_that_changes_the_forward_pass_is_offered_or_excused():
    offered = {entry["id"] for entry in mistakes.offered(Model())}
    for id, mistake in MISTAKES.items():
        if mistake.changes and id.rstrip("0123456789") in FORWARD:
            assert (id in offered) != (id in mistakes.NOT_HERE or id == "B1"), (
                id
            )  # B1 is another design, not this model's
    assert len(offered) > 40


def test_excuses_are_needed():
    for id in mistakes.NOT_HERE:
        assert MISTAKES[id].changes
    for id, form in mistakes.NO_FORMS:
        assert form in MISTAKES[id].changes


def test_texts_are_the_catalogues():
    for entry in mistakes.offered(Model()):
        for name in ("title", "does", "expected", "fix", "mathematics", "severity"):
            assert entry[name] == getattr(MISTAKES[entry["id"]], name)


def test_javascript_knows_every_choice():
    """Each entry that a mistake changes is one of the recipe's, here and there, with the same right value."""
    right = Recipe()
    for entry in mistakes.offered(Model()):
        for change in entry["forms"].values():
            for name, value in change.items():
                assert hasattr(right, name)
                assert re.search(rf"^  {name}: ", RECIPE, re.MULTILINE), name
                if isinstance(value, str):
                    assert f'"{value}"' in RECIPE, (entry["id"], value)


@pytest.mark.parametrize(
    ("model", "id", "forms"),
    [
        (Model(norm="post"), "B4", ["final norms after post-norm"]),
        (Model(norm="pre"), "B4", ["pre-norm without final norms"]),
        (Model(attention_bias=False), "A14", []),
        (Model(positions="learned"), "P2", []),
        (Model(positions="learned"), "P10", [""]),
    ],
)
def test_only_what_differs_from_the_model(model, id, forms):
    assert list(mistakes.forms_of(id, model)) == forms
