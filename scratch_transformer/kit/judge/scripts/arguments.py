"""B26 by reading: what a script's own lines, which are never run here, call with an argument that nothing takes."""

from __future__ import annotations

import ast

from scratch_transformer.kit.judge.scripts.flow import Script
from scratch_transformer.kit.judge.scripts.losses import Found
from scratch_transformer.kit.syntax import Function, inside


def unknown(script: Script) -> Found:
    """AdamW(params, alpha=0.1), of a class of the file whose constructor takes lr, and no alpha."""
    for call in (node for node in inside(script.tree) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        taken = _taken(name, script.tree) if isinstance(call.func, ast.Name) else []
        wrong = [word.arg for word in call.keywords if word.arg and word.arg not in taken]
        if taken and wrong:
            said = f"It calls {name} with {' and '.join(wrong)}, which that does not take: it takes {', '.join(taken)}."
            yield "B26", call, said


def _taken(name: str, tree: ast.Module) -> list[str]:
    """What a class or function of the file can be told by name; [] of what is not plain to see."""
    # what a star brings along may be of any name
    made = [node for node in ast.walk(tree) if {name, "*"} & _names(node)]
    one = made[0] if len(made) == 1 and made[0] in tree.body else None
    if isinstance(one, ast.ClassDef):
        own = [part for part in one.body if isinstance(part, Function) and part.name in ("__init__", "__new__")]
        is_plain = len(own) == 1 and own[0].name == "__init__" and not one.decorator_list and not one.keywords
        one = own[0] if is_plain else None
    if not isinstance(one, Function) or one.decorator_list or one.args.kwarg is not None:
        return []
    return [arg.arg for arg in (*one.args.args, *one.args.kwonlyargs) if arg.arg != "self"]


def _names(node: ast.AST) -> set[str]:
    """The names that a node gives something to: that of a definition, of an import, of an assignment."""
    if isinstance(node, ast.ClassDef | Function):
        return {node.name}
    if isinstance(node, ast.alias):
        return {(node.asname or node.name).partition(".")[0]}
    return {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)) else set()
