"""What is meant by a name that nothing defines: one like it that is set, or what a file beside this one defines."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from torch import nn

from scratch_transformer.kit.definitions import text_of_file
from scratch_transformer.kit.discover.target import python_files
from scratch_transformer.kit.judge.frames import nodes_at
from scratch_transformer.kit.judge.stops import attributes

ALIKE = 0.75
"""Share of equal letters from which a name may be another: n_heads, num_heads."""
MOST_NAMES = 8
"""Of what is told in one sentence."""
MOST_FILES, MOST_BYTES = 40, 200_000
OF_TENSORS = re.compile(r"cannot assign '(?:[\w.]+\.)?(\w+)' object to buffer '(\w+)'")


def fix(error: BaseException, frame: FrameType, name: str) -> str:
    """What to write in place of what an error names; "" where nothing is at hand."""
    if type(error) is NameError:
        found = import_of(name, frame)
        return f"{found}, at the beginning of the file." if found else _given(name, frame)
    if type(error) is AttributeError and name.startswith("self."):
        return among(name.removeprefix("self."), attributes.given_to(frame.f_locals.get("self")))
    if "is not a Module subclass" in str(error):
        calls = [ast.unparse(node.func) for node in nodes_at(error, frame, ast.Call)]
        if any(name.endswith("Sequential") for name in calls):
            return "nn.Sequential(first, second, third), or nn.Sequential(*layers): modules one by one, and no list."
        return "Its elements are modules: nn.ModuleList([Layer(…) for _ in range(n)]), the brackets around all of it."
    held = OF_TENSORS.search(str(error)) if type(error) is TypeError else None
    is_module = held is not None and issubclass(_class_of(held[1], frame), nn.Module)
    said = "a buffer is a tensor; a module is kept by being assigned."
    return f"self.{held[2]} = {held[1]}(…): {said}" if held is not None and is_module else ""


def among(name: str, own: Iterable[str]) -> str:
    """What to write in place of self.name, where a class sets these: the one that is most like it, else any."""
    found = next(iter(difflib.get_close_matches(name, sorted(own), 1, ALIKE)), "")
    if found:
        return f"self.{found}, which is set, in place of self.{name}, if that is what is meant."
    some = [f"self.{one}" for one in dict.fromkeys(own)][:MOST_NAMES]
    there = f", or read what is set there: {', '.join(some)}" if some else ""
    return f"Set self.{name} in __init__{there}."


def _given(name: str, frame: FrameType) -> str:
    """What a function has, where it reads what nothing defines; "" of what has nothing."""
    code = frame.f_code
    own = [one for one in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if one != "self"]
    has = f", or read what {code.co_name} is given: {', '.join(own[:MOST_NAMES])}" if own else ""
    return f"Define {name} before it is read{has}." if code.co_name.isidentifier() else ""


def import_of(name: str, frame: FrameType) -> str:
    """from layers import Attention: of what a file beside this one defines, as this file imports from there."""
    path = Path(frame.f_code.co_filename)
    text = text_of_file(path)
    file = next(iter(defining(name, path)), None)
    return f"from {_package(path, text)}{file.stem} import {name}" if file is not None else ""


def defining(name: str, path: Path) -> list[Path]:
    """The files beside one that define a class or function of this name, and can be imported."""
    defined, found = re.compile(rf"^(class|def) {re.escape(name)}\b", re.MULTILINE), []
    for file in python_files(path.parent)[:MOST_FILES] if path.is_file() else ():
        if file == path or file.stat().st_size > MOST_BYTES or not file.stem.isidentifier():
            continue
        found += [file] if defined.search(file.read_text("utf-8", "replace")) else []
    return found


def _package(path: Path, text: str) -> str:
    """What stands before the name of a file of its folder where one is imported: "", "." or "model."."""
    stems = "|".join(re.escape(file.stem) for file in python_files(path.parent)[:MOST_FILES])
    used = re.search(rf"^\s*from ([\w.]*\.)({stems}) import", text, re.MULTILINE)
    plain = re.search(rf"^\s*(from|import) ({stems})\b", text, re.MULTILINE)
    in_package = (path.parent / "__init__.py").exists() and not plain
    return used[1] if used else "." if in_package else ""


def _class_of(name: str, frame: FrameType) -> type:
    found = frame.f_globals.get(name)
    return found if isinstance(found, type) else object
