"""R1 of what is right with a table for its own pairs of features, where its file makes one for the other pairs."""

from __future__ import annotations

from collections.abc import Iterator

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES


def mixed_with_its_file(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """R1: what turns queries and keys by cosines and sines that it is given, with those that its file makes."""
    if best is None or best.ids:
        return
    ran = session.ran[0]
    recipe = best.recipe.with_(MISTAKES["R1"].changes[""])
    mixed = session.kind.build(session.settings, recipe)(**ran.probe.inputs)
    outputs = dict(session.candidate.turned_by_its_file(**ran.probe.inputs))
    if any(distance(output, ran.output, ran.probe) <= ROUNDED for output in outputs.values()):
        return  # one of several is its own
    for maker, output in outputs.items():
        if distance(output, mixed, ran.probe) <= ROUNDED:
            said = f"With a table for its own pairs it is right, but {maker} of its file makes one for the other pairs"
            yield Finding(MISTAKES["R1"], f"{said}: with that one, the two features of a pair get different angles.")
            return


TABLES_OF_FILES = ((("R1",), mixed_with_its_file),)
