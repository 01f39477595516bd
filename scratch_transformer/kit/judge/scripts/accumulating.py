"""T23 by reading: gradients of several batches, added up for one step, and not divided by how many they are."""

from __future__ import annotations

import ast
import re

from scratch_transformer.kit.judge.scripts.flow import Script
from scratch_transformer.kit.judge.scripts.losses import Found
from scratch_transformer.kit.judge.scripts.turns import backwards_of, is_step, loss_of
from scratch_transformer.kit.syntax import last_name, nodes_in

SUMS = re.compile(r"\.sum\(|reduction=['\"](sum|none)|\.grad\b|no_sync|deepspeed|\bdiv_?\(|\bmul_?\(")
"""In the text of what adds up over tokens, or divides in another way: gradients, or by hand."""
BATCHES = re.compile(r"accum|micro", re.IGNORECASE)
"""In the name of the number of batches of one step."""
SCALES = (ast.Div, ast.Mult)


def undivided(script: Script) -> Found:
    """T23: backward() in each turn, step() and zero_grad() in every n-th, and nothing that divides by n."""
    backwards = [*backwards_of(script)]
    if len(backwards) != 1 or any(map(SUMS.search, script.texts)):
        return
    (backward,) = backwards
    count = _every(script, backward) or _of_an_inner_loop(script, backward)
    loss = loss_of(backward)
    made = [loss, *(one for one in [script.source_of(loss, backward)] if one is not loss)]
    changed = [node for node in nodes_in(script.tree, ast.AugAssign) if ast.unparse(node.target) == ast.unparse(loss)]
    is_plain = not changed and isinstance(loss, (ast.Name, ast.Attribute)) and not nodes_in(made, ast.BinOp)
    if count is not None and is_plain and not _is_one(script, count) and not _is_scaled_by(script, count):
        said = f"A step is taken by the gradients of {ast.unparse(count)} batches, and nothing divides by that."
        yield "T23", backward, said


def _every(script: Script, backward: ast.Call) -> ast.expr | None:
    """n, where a loop computes gradients in each turn, and steps and sets them to zero where i % n is some number."""
    loops = script.loops_around(backward)[0]
    gates = [gate for gate in nodes_in(loops[:1], ast.If) if _has_both(gate.body)]
    outside = [call for call in nodes_in(loops[:1], ast.Call) if is_step(call) or last_name(call.func) == "zero_grad"]
    if len(gates) != 1 or gates[0] in script.around(backward):
        return None
    rests = [node for node in nodes_in(gates[0].test, ast.BinOp) if isinstance(node.op, ast.Mod)]
    counted = [ast.unparse(node.target) for node in nodes_in(gates[0].body, ast.AugAssign)]
    is_all = all(gates[0] in script.around(call) for call in outside)
    is_one = len(rests) == 1 and not any(ast.unparse(one) in counted for one in nodes_in(rests[0].left, ast.expr))
    return rests[0].right if is_one and is_all else None


def _of_an_inner_loop(script: Script, backward: ast.Call) -> ast.expr | None:
    """n of for micro in range(n), in a loop that steps and sets gradients to zero beside it."""
    loops = script.loops_around(backward)[0]
    if len(loops) < 2 or not isinstance(loops[0], ast.For) or not isinstance(loops[0].iter, ast.Call):
        return None
    told = loops[0].iter
    beside = [one for one in loops[1].body if one is not loops[0]]
    is_counted = last_name(told.func) == "range" and len(told.args) == 1 and BATCHES.search(last_name(told.args[0]))
    return told.args[0] if is_counted and _has_both(beside) and not _has_any(loops[0]) else None


def _has_both(body: list[ast.stmt]) -> bool:
    calls = nodes_in(body, ast.Call)
    return any(map(is_step, calls)) and any(last_name(call.func) == "zero_grad" for call in calls)


def _has_any(loop: ast.For) -> bool:
    return any(is_step(call) or last_name(call.func) == "zero_grad" for call in nodes_in(loop, ast.Call))


def _is_one(script: Script, count: ast.expr) -> bool:
    """Whether each batch has a step of its own unless another number is asked for: n = 1, "n": 1, "--n", default=1."""
    name = str(last_name(count) or getattr(getattr(count, "slice", None), "value", ""))
    told = rf"\b{re.escape(name)}\b[^\n\w]*(: ?int *|type=int\W*)?(default)?[^\n\w]*\b1\b(?!\.)"
    return bool(name) and any(re.search(told, text) for text in script.texts)


def _is_scaled_by(script: Script, count: ast.expr) -> bool:
    """Whether anything is divided by a number, or multiplied, or the number is handed to what may do so."""
    name = last_name(count) or ast.unparse(count)
    for node in ast.walk(script.tree):
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, SCALES):
            sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
        elif isinstance(node, ast.Call) and last_name(node.func) not in ("range", "print", "max", "add_argument"):
            sides = [*node.args, *(word.value for word in node.keywords)]
        else:
            continue
        if any(name in (last_name(one), ast.unparse(one)) for side in sides for one in nodes_in(side, ast.expr)):
            return True
    return False
