"""What mends a stop (B26, LN8) in one way and no other, in memory alone: a misspelt name, a missing import or super.

repair_of(…) finds it, install(…) lets the loaded code run as if it had been made. The learner's file stays as it is.
"""

from __future__ import annotations

from scratch_transformer.kit.judge.frames import learners_frame
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.repair import attributes, kept, keywords, methods, names, positions, twice
from scratch_transformer.kit.repair.edits import Repair
from scratch_transformer.kit.repair.install import Undo, install, run, show

__all__ = ["Repair", "Undo", "install", "repair_of", "run", "show"]


def repair_of(thing: object, finding: Finding, error: BaseException | None, load: names.Load) -> Repair | None:
    """The repair of what a class or function stops with; None if nothing is meant for sure.

    load: what a file defines.
    """
    if finding.mistake.id == "LN8" and isinstance(thing, type):
        return methods.of_base(thing)
    if finding.mistake.id != "B26" or finding.severity != "mistake" or error is None:
        return None
    if isinstance(thing, type) and (found := methods.of_forward(thing)) is not None:
        return found
    frame = learners_frame(error)
    if frame is None or not finding.form:
        return None
    owner = type(frame.f_locals.get("self"))
    looks = (
        lambda: methods.of_constructor(owner, finding.form),
        lambda: twice.of_two(error, frame, finding.form),
        lambda: attributes.of_itself(error, frame, finding.form),
        lambda: attributes.of_others(error, frame, finding.form),
        lambda: attributes.of_shapes(error, frame, finding.form),
        lambda: attributes.of_modules(error, frame, finding.form),
        lambda: names.of_name(error, frame, finding.form, load),
        lambda: kept.of_parameter(error, frame, finding.form),
        lambda: keywords.of_base(error, frame, finding.form),
        lambda: keywords.of_argument(error, frame, finding.form),
        lambda: positions.of_written(error, frame, finding.form),
    )
    return next((found for look in looks if (found := look()) is not None and (found.edits or found.brought)), None)
