"""T22 by reading: the best weights, kept as what training goes on to change."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scratch_transformer.kit.judge.scripts.flow import Script
from scratch_transformer.kit.judge.scripts.losses import Found
from scratch_transformer.kit.judge.scripts.turns import OPTIMIZERS, backwards_of, is_left, turns_of
from scratch_transformer.kit.syntax import is_stored, last_name, nodes_in

OF_SHALLOW_COPIES = ("copy.copy", "dict", "OrderedDict", "collections.OrderedDict")
"""What makes another dictionary of the same tensors."""
IN_PLACE_OF = re.compile(r"\.data = |\.grad = (?!None)|swap_tensors|assign=True")
"""In the text of what gives a model other tensors: then those that were kept stay what they were."""


def by_reference(script: Script) -> Found:
    """T22: best = model.state_dict() in a loop that trains it, and model.load_state_dict(best) behind that loop."""
    if any(map(IN_PLACE_OF.search, script.texts)) or not OPTIMIZERS.search(script.text):
        return
    turns = [loop for backward in backwards_of(script) for loop in turns_of(script, backward)]
    for kept in nodes_in(script.tree, ast.Assign):
        loop = next((one for one in script.around(kept) if isinstance(one, (ast.For, ast.While))), None)
        model = _model_of(kept.value)
        if loop not in turns or loop is None or model is None or not _is_left_behind(script, kept, loop):
            continue
        if not _is_trained(script, model) or any(is_stored(node, ast.unparse(model)) for node in ast.walk(loop)):
            continue
        name = ast.unparse(kept.targets[0])
        uses = [*_uses(script, name, kept)]
        loaded = [use for use in uses if _is_loaded(script, use) and use.lineno > (loop.end_lineno or loop.lineno)]
        if loaded and all(use in loaded or isinstance(next(script.around(use)), (ast.Compare, ast.If)) for use in uses):
            said = f"{name} is the weights themselves, which the next step changes: "
            yield "T22", kept.value, f"{said}line {loaded[0].lineno} loads the last ones."


def _model_of(value: ast.expr) -> ast.expr | None:
    """model in model.state_dict(), copied as a dictionary or not; None for all that copies tensors."""
    while isinstance(value, ast.Call):
        if last_name(value.func) == "state_dict" and not value.args and isinstance(value.func, ast.Attribute):
            return value.func.value
        if last_name(value.func) == "copy" and not value.args and isinstance(value.func, ast.Attribute):
            value = value.func.value
        elif ast.unparse(value.func) in OF_SHALLOW_COPIES and len(value.args) == 1:
            value = value.args[0]
        else:
            break
    return None


def _is_left_behind(script: Script, kept: ast.Assign, loop: ast.AST) -> bool:
    """Whether that is of some turns, the best, after which it trains on."""
    branches = [one for one in script.around(kept) if isinstance(one, ast.If) and loop in script.around(one)]
    return len(kept.targets) == 1 and bool(branches) and not is_left(script, kept)


def _is_trained(script: Script, model: ast.expr) -> bool:
    """Whether an optimizer has its parameters: the shadow that averages a model's is another one."""
    return any(ast.unparse(call) == f"{ast.unparse(model)}.parameters()" for call in script.calls)


def _uses(script: Script, name: str, kept: ast.Assign) -> Iterator[ast.expr]:
    """Where what is kept is read: a name in its function, an attribute anywhere."""
    for node in nodes_in(script.tree, ast.expr):
        is_here = "." in name or script.function_of(node) == script.function_of(kept)
        if is_here and isinstance(getattr(node, "ctx", None), ast.Load) and ast.unparse(node) == name:
            yield node


def _is_loaded(script: Script, use: ast.expr) -> bool:
    around = next(script.around(use))
    return isinstance(around, ast.Call) and use in around.args and last_name(around.func) == "load_state_dict"
