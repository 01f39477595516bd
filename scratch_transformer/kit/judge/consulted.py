"""Outputs by what of a recipe was asked for to compute them: recipes that agree in that give the same output.

On a probe without a mask, every mistake in masking gives the numbers of the right design. A search asks for thousands
of outputs, and about every second one is known so without computing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from scratch_transformer.kit.recipe import Recipe

Way = tuple[tuple[str, ...], ...]
"""From a recipe to that of a part: what `within` is given, one time after the other."""


class Consulted:
    """Stands for a recipe in the modules that it governs; notes what they ask for, in that order.

    way: from the recipe of the whole to this one. asked: (way, entry) -> value, of all parts together.
    """

    def __init__(self, recipe: Recipe, way: Way = (), asked: dict[tuple[Way, str], Any] | None = None) -> None:
        vars(self).update({OWN: (recipe, way, {}), ASKED: {} if asked is None else asked})

    def __getattr__(self, name: str) -> Any:
        """Asked for once: what is kept is found without this."""
        recipe, way, _ = vars(self)[OWN]
        value = vars(self)[name] = vars(self)[ASKED][way, name] = getattr(recipe, name)
        return value

    def within(self, *path: str) -> Consulted:
        recipe, way, parts = vars(self)[OWN]
        other = recipe.within(*path)
        if other is recipe:
            return self
        if other not in parts:
            parts[other] = Consulted(other, (*way, path), vars(self)[ASKED])
        part: Consulted = parts[other]
        return part

    def with_(self, changes: Mapping[str, Any]) -> Recipe:
        """A recipe of which nothing is noted: so what is computed depends on every entry."""
        recipe: Recipe = vars(self)[OWN][0]
        for name in vars(recipe):
            getattr(self, name)
        return recipe.with_(changes)


OWN, ASKED = " own", " asked"
"""Where it keeps its own things: no entry has such a name."""


class KnownOutputs:
    """A tree: each node asks for one entry, each of its branches is for one value, and a leaf has an output.

    For recipes with parts of the same names: which parts of a module have one recipe is then the same for all of them.
    """

    def __init__(self) -> None:
        self.root = _Node()

    def of(self, recipe: Recipe) -> _Node | None:
        """The leaf with the output of a recipe; None if that is not known."""
        node = self.root
        ways: dict[Way, dict[str, Any]] = {(): vars(recipe)}
        while node.branches:
            if node.way not in ways:
                ways[node.way] = vars(_along(recipe, node.way))
            following = node.branches.get(ways[node.way][node.entry])
            if following is None:
                return None
            node = following
        return node if node.is_leaf else None

    def note(self, consulted: Consulted, output: Tensor | None) -> None:
        """What was computed with these entries. What asks otherwise the second time is none of this tree."""
        node = self.root
        for (way, entry), value in vars(consulted)[ASKED].items():
            if not node.entry:
                node.way, node.entry = way, entry
            if (node.way, node.entry) != (way, entry) or node.is_leaf:
                return
            node = node.branches.setdefault(value, _Node())
        if not node.branches:
            node.is_leaf, node.output = True, output


class _Node:
    __slots__ = ("branches", "entry", "is_leaf", "output", "way")

    def __init__(self) -> None:
        self.way: Way = ()
        self.entry = ""
        self.branches: dict[Any, _Node] = {}
        self.is_leaf = False
        self.output: Tensor | None = None


def _along(recipe: Recipe, way: Way) -> Recipe:
    for path in way:
        recipe = recipe.within(*path)
    return recipe
