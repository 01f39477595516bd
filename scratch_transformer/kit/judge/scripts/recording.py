"""T25 by reading: what validates or writes, and has autograd record what nothing will ask for."""

from __future__ import annotations

import ast
import re

from scratch_transformer.kit.judge.scripts.flow import Script
from scratch_transformer.kit.judge.scripts.losses import Found
from scratch_transformer.kit.judge.scripts.turns import DEPTH, NO_GRAD, is_unrecorded, receiver_of
from scratch_transformer.kit.syntax import FUNCTIONS, inside, last_name, nodes_in

OTHERWISE = re.compile(
    r"set_grad_enabled|requires_grad|autograd|functional_call|\.grad\b|tensorflow|\bmlx\b|\bjax\b|tinygrad|hook"
)
"""In the text of what may switch recording off in another way, asks for gradients there, or has another autograd."""
MODES = ("train", "eval")
OF_TORCH = re.compile(r"\b(import|from) torch\b")


def needlessly(script: Script) -> Found:
    """T25: model.eval(), and then a loop that calls the model, where no torch.no_grad() is around it."""
    if any(map(OTHERWISE.search, script.texts)) or not OF_TORCH.search(script.text):
        return
    for scope in (script.tree, *nodes_in(script.tree, ast.FunctionDef)):
        calls = [node for node in inside(scope) if isinstance(node, ast.Call)]
        trained = [call.lineno for call in calls if last_name(call.func) == "backward"]
        if not trained and not _is_recorded(script, scope):
            continue
        for call in sorted(calls, key=lambda one: one.lineno):
            name, loops = ast.unparse(call.func), script.loops_around(call)[0]
            modes = [last_name(one.func) for one in _switches(calls, name) if one.lineno < call.lineno]
            is_meant = modes[-1:] == ["eval"] and loops and not is_unrecorded(script, call)
            if is_meant and (not trained or ("train" in modes and _is_behind(loops[0], trained))):
                yield "T25", call, f"{name} is in evaluation mode, and no torch.no_grad() is around the loop."
                break


def _switches(calls: list[ast.Call], name: str) -> list[ast.Call]:
    """Where a model is put into a mode, in the order of the text."""
    found = [one for one in calls if last_name(one.func) in MODES and ast.unparse(receiver_of(one)) == name]
    return sorted(found, key=lambda one: one.lineno)


def _is_behind(loop: ast.For | ast.While, trained: list[int]) -> bool:
    """Whether a loop comes after all gradients that are computed: what is drawn before them, they may be of."""
    return max(trained) < loop.lineno


def _is_recorded(script: Script, scope: ast.AST, depth: int = DEPTH) -> bool:
    """Whether autograd is known to record a function: so are all of its calls, from the top of the file on."""
    if isinstance(scope, ast.Module):
        return True
    if not isinstance(scope, ast.FunctionDef) or NO_GRAD.search(ast.unparse(scope)) or not depth:
        return False
    calls = [call for call in script.calls if last_name(call.func) == scope.name and scope not in script.around(call)]
    return bool(calls) and all(
        not is_unrecorded(script, call) and _is_recorded(script, _function_around(script, call), depth - 1)
        for call in calls
    )


def _function_around(script: Script, node: ast.AST) -> ast.AST:
    return next((one for one in script.around(node) if isinstance(one, FUNCTIONS)), script.tree)
