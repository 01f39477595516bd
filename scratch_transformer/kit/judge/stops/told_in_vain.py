"""B26: a constructor that hands on what it is told to nn.Module's, which takes nothing: super().__init__(d_model)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from types import FrameType

from torch import nn

from scratch_transformer.kit.judge.frames import frames_of, nodes_at

SAID = re.compile(r"__init__\(\) (takes 1 positional argument|got an unexpected keyword argument)")
CALL = re.compile(r"super\(.*\)\.__init__|(\w+\.)*Module\.__init__")


def base(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """What is said of it, and how it calls its base; "" twice where another base may take that, or it is *args."""
    for call, given in calls(error, frame):
        shown = ", ".join(map(ast.unparse, given))
        open_ones = [one for one in given if isinstance(one, ast.Starred) or getattr(one, "arg", "") is None]
        if given and not open_ones:
            return f"It hands {shown} to nn.Module's constructor, which takes nothing: {error}.", ast.unparse(call.func)
    return "", ""


def frame_of(error: BaseException) -> FrameType | None:
    """That of such a call; whoever else may watch nn.Module's constructor, as torch.compile does, is further in."""
    is_said = SAID.search(str(error)) is not None
    return next((frame for frame in reversed(frames_of(error)) if is_said and any(calls(error, frame))), None)


def calls(error: BaseException, frame: FrameType) -> Iterator[tuple[ast.Call, list[ast.expr | ast.keyword]]]:
    """The calls of nn.Module's constructor at which one of a class of modules stops, and what each is given."""
    owner, code = frame.f_locals.get("self"), frame.f_code
    lineage = type(owner).__mro__ if isinstance(owner, nn.Module) else ()
    makers = [cls for cls in lineage if "__init__" in vars(cls)]
    codes = [getattr(vars(cls)["__init__"], "__code__", None) for cls in makers]
    is_said = isinstance(error, TypeError) and SAID.search(str(error)) is not None
    if not is_said or code not in codes or makers[codes.index(code) + 1 :][:1] != [nn.Module]:
        return
    for call in nodes_at(error, frame, ast.Call):
        name = ast.unparse(call.func)
        if CALL.fullmatch(name):
            yield call, [*call.args[not name.startswith("super") :], *call.keywords]
