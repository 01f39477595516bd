"""What code makes of a mask that it asks whether it is true, if mask: a flag, or a mask that stops it."""

from __future__ import annotations

import ast
import linecache

from scratch_transformer.kit.judge.frames import learners_places

IS_ASKED = "Boolean value of Tensor"
"""In what torch says of a tensor of several numbers that is to be true or false."""


def is_computed_with(error: BaseException) -> bool:
    """Whether what the line of an error asks for is computed with where it is true: scores.masked_fill(mask == 0, …).

    Not where it is another by then: if mask: mask = torch.ones(n, n).triu(1), which is a flag.
    """
    own = learners_places(error)
    if not own:
        return False
    place = own[-1]
    try:
        tree = ast.parse("".join(linecache.getlines(place.filename)))
    except (SyntaxError, ValueError):
        return False
    asks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and node.test.lineno == place.lineno]
    for asked in asks:
        names = {node.id for node in ast.walk(asked.test) if isinstance(node, ast.Name)}
        for statement in asked.body:
            found = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id in names]
            if found:
                return any(isinstance(node.ctx, ast.Load) for node in found)
    return False
