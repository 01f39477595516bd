"""A16 by what the file makes: masks of True and False, where its attention adds whatever mask it is given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from scratch_transformer.kit.kind import Candidate, Diagnosis, Finding
from scratch_transformer.kit.mistakes import MISTAKES

ELSEWHERE = re.compile(
    r"\binf\b|\de\d|- ?\d{4}|finfo|masked_fill|where\(|MultiheadAttention|nn\.Transformer|F\.scaled_dot|mask\w*\.log"
)
"""In the text of a file that may turn masks into what can be added, or that makes them for other attention."""
INLINE = re.compile(r"^\s*(?P<name>\w*mask\w*) *= *torch\.(?P<half>tril|triu)\(torch\.ones\(.*", re.MULTILINE)
KEPT, BLOCKED = "1 = keep is added", "1 = blocked is added"
Made = tuple[str, Candidate, Diagnosis]


def with_added(candidate: Candidate, diagnosis: Diagnosis, text: str, made: Iterable[Made]) -> Diagnosis:
    """The diagnosis of attention that adds its mask, with A16 where its file makes no mask that may be added.

    text: of its file. made: the functions of the file that make masks: names, and what was found out about them.
    """
    is_asked = candidate.adds_masks and diagnosis.kind.endswith("Attention") and "A16" not in diagnosis.ids
    if not is_asked or diagnosis.verdict in ("unknown mismatch", "crashed") or ELSEWHERE.search(_code(text)):
        return diagnosis
    makers = [one for one in made if one[1].makes in ("boolean", "numbers")]
    found = [(f"{name}() makes", BLOCKED if of.recipe.blocked_is == "True" else KEPT) for name, _, of in makers]
    inline = INLINE.finditer(_code(text))
    found += [(f"«{one[0].strip()}» makes", KEPT if one["half"] == "tril" else BLOCKED) for one in inline]
    if not found:
        return diagnosis
    what = f"{found[0][0]} a mask of 0 and 1, True and False, and nothing in the file makes 0 and -∞ of it"
    said = f"{what}: what is added is 1 or 0. With a mask of 0 and -∞, its numbers are right."
    finding = Finding(MISTAKES["A16"], said, found[0][1])
    return replace(diagnosis, findings=(finding, *diagnosis.findings), verdict="mistake")


def _code(text: str) -> str:
    """Without comments."""
    return "\n".join(line.partition("#")[0] for line in text.splitlines())
