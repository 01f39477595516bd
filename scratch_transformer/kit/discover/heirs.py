"""What a base sets nowhere, as the classes of files beside its own that inherit from it do: self._forward(…)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from scratch_transformer.kit.definitions import file_of, text_of_file
from scratch_transformer.kit.discover.target import files_beside
from scratch_transformer.kit.syntax import Function, last_name, nodes_in, tree_from


def fill_in(cls: type, name: str) -> bool:
    """Whether a class that inherits from one, in another file of its folder, has a method or an attribute of a name."""
    return any(name in _given_by(heir) for heir in _heirs(cls))


def _heirs(cls: type) -> list[ast.ClassDef]:
    own = Path(file_of(cls))
    named = re.compile(rf"^class \w+\(.*\b{re.escape(cls.__name__)}\b", re.MULTILINE)
    found: list[ast.ClassDef] = []
    for path in files_beside(own) if own.is_file() else ():
        text = text_of_file(path)
        classes = nodes_in(tree_from(text), ast.ClassDef) if named.search(text) and own.stem in text else []
        found += [one for one in classes if cls.__name__ in map(last_name, one.bases)]
    return found


def _given_by(heir: ast.ClassDef) -> set[str]:
    """The methods of a class, and what it stores."""
    stored = (node.attr for node in nodes_in(heir, ast.Attribute) if isinstance(node.ctx, ast.Store))
    names = (node.id for node in nodes_in(heir.body, ast.Name) if isinstance(node.ctx, ast.Store))
    return {*stored, *names, *(node.name for node in heir.body if isinstance(node, Function))}
