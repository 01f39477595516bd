"""Numbers that are written in, where a size should be asked for: right for the heads of one width."""

from __future__ import annotations

import re
from dataclasses import replace

from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.recipe import RIGHT

WIDTHS = (8, 16, 32, 64, 128)
"""Of heads, as people write them in."""
NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*")


def right_width(session: Session) -> int:
    """The width of heads for which a core's scale is right that is written in, scores / sqrt(64); 0 without one."""
    if session.kind.name != "ScaledDotProductAttention" or not session.ran:
        return 0
    written = {float(number) for number in NUMBER.findall(session.candidate.text)}
    name = session.ran[0].probe.name
    for width in WIDTHS:
        if not {width, width**0.5, width**-0.5} & written:
            continue
        probes = session.kind.probes({**session.settings, "d_k": width}, 0)
        probe = replace(next(one for one in probes if one.name == name), name=f"{name}, heads of {width}")
        try:
            output = call(session.candidate, probe.inputs)
        except Exception:  # the learner's code may raise anything
            return 0
        if distance(output, session.builtin(RIGHT, probe), probe) <= ROUNDED:
            return width
    return 0
