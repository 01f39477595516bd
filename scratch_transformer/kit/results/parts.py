"""What was found out about a part, as far as it is true in the whole that has it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from torch import nn

from scratch_transformer.kit.definitions import is_own, nodes_of, source_of
from scratch_transformer.kit.kind import NO_MASK, Diagnosis, Finding
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.trials.probing import masks_come_together, never_called
from scratch_transformer.kit.results.locating import modules_of

OVERWRITTEN = "A29"
"""What shows where both masks are given at once."""
KEPT_AS = ("A30", "B10", "B32", "P5")
"""Mistakes in how an attribute is kept: if mask: self.mask = …, some of a class have it, and others do not."""
OF_ATTRIBUTES = re.compile(r"self\.(\w+(?:\.\w+)*)")
GIVEN_MASKS = ("A8", "A24", "A31", "A32")
"""Mistakes with a mask that is given; what makes its own blocks with a number (A8) whatever it is given."""
OF_DROPOUT = ("A17", "A40", "B6", "B24", "B34")
"""What is wrong with where a part drops out."""
OF_MASKS, OF_PADDING = re.compile(r"(?i)mask|tril|triu|causal"), re.compile(r"(?i)mask|pad")


class Parts(NamedTuple):
    """What was found out about the parts of a whole: of all, of those with a report of their own, of the others."""

    every: tuple[Diagnosis, ...]
    within: tuple[Diagnosis, ...]
    silent: tuple[Diagnosis, ...]


def parts_of(value: Any, one: Resolved | None, diagnosis: Diagnosis, library: Library) -> Parts:
    """Of a class or function, as it was resolved, with what was found out about it."""
    if one is None:
        return Parts((), (), ())
    idle = never_called(one) if diagnosis.verdict == "unknown mismatch" else ()
    every = library.parts_of(one.made, idle)
    no_mask = _hands_no_mask_on(value, diagnosis)
    within, silent = list[Diagnosis](), list[Diagnosis]()
    for part in every:
        known = _as_made(part, value, one, library)
        is_silent = any(part is other for other in library.silent)
        (silent if is_silent else within).append(_but_for_given_masks(known) if no_mask else known)
    return Parts(every, tuple(within), tuple(silent))


def owner_of(found: Diagnosis | Finding, library: Library) -> Any:
    """The class or function about which something was found out; None if that is not known."""
    known = library.diagnoses.items()
    return next((thing for thing, one in known if one is found or any(f is found for f in one.findings)), None)


def of_part(finding: Finding, library: Library) -> Finding:
    """What numbers say of a part, and not of the whole in which it is told; its line is the part's own."""
    owner = owner_of(finding, library)
    name = getattr(owner, "__name__", "part")
    said = f"Of its {name} by itself: {finding.evidence}" if finding.evidence else ""
    return replace(finding, evidence=said, owner=owner)


def _as_made(part: Diagnosis, value: Any, whole: Resolved, library: Library) -> Diagnosis:
    """What was found out about a class, without what none of those has, or shows, which a whole makes of it."""
    cls = owner_of(part, library)
    own = [module for module in modules_of(whole.made) if type(module) is cls]
    asked = [(f, OF_ATTRIBUTES.match(f.evidence) if f.mistake.id in KEPT_AS else None) for f in part.findings]
    lacking = [f for f, said in asked if own and said and not any(_has(module, said[1]) for module in own)]
    lost = [f for f in part.findings if f.mistake.id == OVERWRITTEN and own and not f.name]
    if lost and not masks_come_together(whole, type(own[0])):
        lacking += lost
    dropped = [f for f in part.findings if f.mistake.id in OF_DROPOUT]
    if dropped and _never_drops(value, whole):
        lacking += dropped
    return replace(part, findings=tuple(f for f in part.findings if f not in lacking)) if lacking else part


def _classes_within(module: nn.Module) -> Iterator[type]:
    """The learner's classes of a module's own parts, those in lists among them, that drop out."""
    for part in module.children():
        if not is_own(type(part)):
            yield from _classes_within(part)
        elif any(isinstance(inner, nn.Dropout) for inner in part.modules()):
            yield type(part)


def _has(module: nn.Module, path: str) -> bool:
    """Whether a module has an attribute, or a part of it has: 0.mask."""
    kept: Any = module
    for name in path.split("."):
        kept = getattr(kept, name, None)
    return kept is not None


def _hands_no_mask_on(value: Any, diagnosis: Diagnosis) -> bool:
    """Whether a whole takes no mask, and makes none that it could give its parts."""
    return NO_MASK in diagnosis.limits and not names_any(OF_MASKS, value)


def names_any(pattern: re.Pattern[str], value: Any) -> bool:
    """Whether a pattern fits a name in something's code; mask=None names none."""
    nodes = nodes_of(value)
    nones = [node for node in nodes if isinstance(node, ast.keyword) and ast.unparse(node.value) == "None"]
    named = (getattr(node, field, None) for node in nodes if node not in nones for field in ("id", "attr", "arg"))
    return any(pattern.search(name) for name in named if isinstance(name, str))


def _but_for_given_masks(part: Diagnosis) -> Diagnosis:
    """What was found out about a part, as far as it is true of a whole that gives it no mask."""
    of_given = GIVEN_MASKS if "mask" in KINDS[part.kind].inputs else GIVEN_MASKS[1:]
    return replace(part, findings=tuple(f for f in part.findings if f.mistake.id not in of_given))


def _never_drops(value: Any, whole: Resolved) -> bool:
    """Whether a whole takes no dropout, and leaves that of the parts that it makes at their default, which is 0."""
    module = whole.module
    cls: Any = type(whole.made)
    drops = [part.p for part in (module.modules() if module is not None else ()) if isinstance(part, nn.Dropout)]
    if not drops or any(drops) or any("drop" in source_of(one).lower() for one in (value, cls)):
        return False
    calls = [node.func for one in (value, cls) for node in nodes_of(one, ast.Call)]
    made = {ast.unparse(func).rpartition(".")[2] for func in calls}
    if module is not None and any(part.__name__ not in made for part in _classes_within(module)):
        return False  # it is given that part: how much that drops is up to who makes it
    try:
        whole.rebuild(dropout=0.5)
    except KeyError:  # it has no such setting
        return True
    except Exception:  # the learner's code may raise anything
        return False
    return False
