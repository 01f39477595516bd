"""The fix of a mistake in the names of the code that it was found in: its tables, its norms, its words."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import torch
from torch import nn

from scratch_transformer.kit.definitions import lines_of, nodes_of
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.blocks import UNUSED_NORMS
from scratch_transformer.kit.mistakes.embedding import DIVIDED
from scratch_transformer.kit.report.sums import NORM, made_of
from scratch_transformer.kit.syntax import assignments


class Fix(NamedTuple):
    """text: in words. put: what should stand in the place of the line, as far as that is known."""

    text: str
    put: list[str]


def fitting(id: str, form: str, file: str, line: int, modules: Iterable[nn.Module]) -> Fix | None:
    """The fix of a mistake at a line of one of these modules' classes; None if the catalogue's is as good."""
    find = FITTING.get(id)
    for module in modules if find is not None else ():
        cls: type = type(module)
        try:
            lines, start = lines_of(cls)
            is_there = inspect.getsourcefile(cls) == file and start <= line < start + len(lines)
        except (OSError, TypeError):
            continue
        if is_there and find is not None:
            return find(module, form, lines[line - start].rstrip("\n"))
    return None


def _of_positions(module: nn.Module, form: str, line: str) -> Fix | None:
    """P4: the rows of a table (length, 1, d_model) are turned to (1, length, d_model)."""
    own = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False)), **vars(module)}
    tables = {
        n: t for n, t in own.items() if isinstance(t, torch.Tensor) and t.dim() == 3 and re.search(rf"\b{n}\b", line)
    }
    name = next((name for name, table in tables.items() if table.shape[1] == 1 < table.shape[0]), None)
    if name is None:
        return None
    taken = re.compile(rf"self\.{name}\[: ?(\w+)\.(?:size\(0\)|shape\[0\])(?:, ?:)*\]")
    put = taken.sub(rf"self.{name}[: \1.size(1)].transpose(0, 1)", line)
    said = f"x + self.{name}[: x.size(1)].transpose(0, 1) for x of shape (batch, length, d_model), as the table is "
    return Fix(
        f"{said}(length, 1, d_model); and batch_first=True in torch.nn's attention.", [put] if put != line else []
    )


def _of_norms(module: nn.Module, form: str, line: str) -> Fix | None:
    """B15: norms that are made already, else another one like the one there is."""
    cls = type(module)
    norms = sorted(name for name in made_of(cls, NORM) if name.startswith("self."))
    called = [name for name in norms if f"{name}(" in line]
    used = {ast.unparse(node.func) for node in nodes_of(cls, ast.Call)}
    idle = [name for name in norms if name not in used]
    if form == UNUSED_NORMS and idle:
        put = [line.replace(f"{called[0]}(", f"{idle[0]}(")] if len(called) == len(idle) == 1 else []
        verb = "is" if len(idle) == 1 else "are"
        return Fix(f"{' and '.join(idle)} {verb} made, and never called: each sublayer is to call its own.", put)
    made = {ast.unparse(target): ast.unparse(value) for target, value in assignments(nodes_of(cls))}
    if len(called) != 1 or form not in MISTAKES["B15"].changes:
        return None
    both = "; ".join(f"{called[0]}{n} = {made[called[0]]}" for n in (1, 2))
    return Fix(f"{both}, one for each sublayer, in place of {called[0]}.", [])


def _of_words(module: nn.Module, form: str, line: str) -> Fix | None:
    """E2: the words' table knows its own width, also one within a part."""
    tables = {path.split(".")[0]: path for path, part in module.named_modules() if isinstance(part, nn.Embedding)}
    name = next((name for name in tables if f"self.{name}(" in line), None)
    if name is None:
        return None
    width = f"self.{tables[name]}.embedding_dim"
    scaled = re.sub(rf"(self\.{name}\([\w.]*\))(?![.\[(]| ?\*\*)", rf"\1 * {width} ** 0.5", line)
    if form == DIVIDED:
        scaled = re.sub(
            rf"(self\.{name}\([\w.]*\)) ?/ ?(?=\(?[\w.]*sqrt\(|[\w.]+ ?\*\* ?\(?(?:0?\.5|1 ?/ ?2))", r"\1 * ", line
        )
    put = [scaled] if form in ("not scaled", DIVIDED) and scaled != line else []
    if tables[name] != name and form != "not scaled":
        put = []
    return Fix(f"self.{name}(…) * {width} ** 0.5.", put)


FITTING: Mapping[str, Callable[[nn.Module, str, str], Fix | None]] = {
    "P4": _of_positions,
    "B15": _of_norms,
    "E2": _of_words,
}
