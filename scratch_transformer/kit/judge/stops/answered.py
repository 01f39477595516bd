"""B26: an object where a tensor is needed: logits = self(ids), whose forward returns an object with logits in it."""

from __future__ import annotations

import linecache
import re
from types import FrameType
from typing import Any

from scratch_transformer.kit.judge.frames import STOPS_AT, frames_of, learners_frame, line_of
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

OF_SEVERAL = re.compile(r"(list|tuple) indices must be|unhashable type: 'slice'|^\(?slice\(")
"""What is said of something that is read by a name or a number, and is asked for rows."""


def finding(error: BaseException | None) -> Finding | None:
    """Of what writes text with its own model, and stops with what that returns."""
    frame = learners_frame(error) if isinstance(error, (TypeError, AttributeError, KeyError)) else None
    made = _answer(frame) if frame is not None else None
    if error is None or frame is None or made is None:
        return None
    is_own_list = str(error).startswith("list") and frames_of(error)[-1] is frame  # of ids: no answer is one
    several = OF_SEVERAL.search(str(error)) if not is_own_list else None
    is_of_it = re.search(rf"\b{made.cls.__name__}\b", str(error)) or several
    is_absent = isinstance(error, AttributeError) and error.name in made.fields
    if not is_of_it or is_absent:
        return None
    sort = (
        "a dictionary" if made.cls is dict else "a tuple" if made.cls is tuple else f"an object, {made.cls.__name__}(…)"
    )
    said = f"Its model's forward returns {sort}, and a tensor is needed: {type(error).__name__}: {error}."
    code = linecache.getline(frame.f_code.co_filename, line_of(error, frame)).strip()
    return Finding(MISTAKES["B26"], f"{said} {STOPS_AT}{code}", fix=made.fix)


def _answer(frame: FrameType) -> Any:
    """What the model of a writer gives, whose frame it is: the toy that stands for it knows."""
    models = [value for value in frame.f_locals.values() if type(value).__name__ == "ToyModel"]
    return next((one.answers for one in models if one.answers is not None), None)
