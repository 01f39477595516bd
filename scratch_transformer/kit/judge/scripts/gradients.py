"""T14 and T16 to T18 by reading: gradients that add up, clipping in vain, graphs that are kept, steps that are none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from scratch_transformer.kit.judge.scripts.flow import Script
from scratch_transformer.kit.judge.scripts.losses import Found
from scratch_transformer.kit.judge.scripts.turns import (
    OPTIMIZERS,
    backwards_of,
    is_optimizer,
    is_step,
    is_unrecorded,
    loss_of,
    receiver_of,
    turns_of,
)
from scratch_transformer.kit.syntax import last_name, nodes_in, sums_in

ZEROES = re.compile(
    r"zero_?grad|set_to_none|\.zero_\(|\.grad\b[^=\n]*=(?!=)|autograd\.grad\b|functional_call|accumul", re.IGNORECASE
)
"""In the text of what sets gradients to zero, or sums them up on purpose."""
TIMED = re.compile(r"\btimeit\b|\bnvtx\b|benchmark", re.IGNORECASE)
"""In the text of what only takes times of steps."""
STEPS = re.compile(r"\.step\(|\.fit\(|\.train\(\w|step_and|_step\(|closure")
"""In the text of what may take a step."""
CLIPS = re.compile(r"clip_grad\w*|gradient_clip\w*|clip_gradients?")
FREES = re.compile(r"\.item\(|\.detach\(|^float\(|\.data\b|\.tolist\(|\.numpy\(")


def added_up(script: Script) -> Found:
    """T14: loss.backward() and optimizer.step() in a loop, and nothing anywhere that sets gradients to zero."""
    if any(map(ZEROES.search, script.texts)) or TIMED.search(script.text):
        return
    for backward in backwards_of(script):
        loops, scope = script.loops_around(backward)
        steps = [call for call in nodes_in(scope, ast.Call) if is_step(call)]
        if not steps or next(turns_of(script, backward), None) is None:
            continue
        stepping = {last_name(one) for call in steps for one in (receiver_of(call), *call.args[:1])}
        made = [node for name, node in _optimizers(script) if name in stepping]
        if made and not {*made} & {*nodes_in(loops[:1], ast.Assign)}:
            said = "Nothing in the file sets gradients to zero: each step is by the sum of those of all steps so far."
            yield "T14", backward, said


def zeroed_before_the_step(script: Script) -> Found:
    """T18: zero_grad() between the one backward() and the one step() of a turn."""
    for backward in backwards_of(script):
        calls = nodes_in(script.loops_around(backward)[1], ast.Call)
        steps = [call for call in calls if is_step(call)]
        if len(steps) != 1 or [last_name(call.func) for call in calls].count("backward") != 1:
            continue
        stepping = {*map(ast.unparse, (receiver_of(steps[0]), *steps[0].args[:1]))}
        for zero in (call for call in calls if last_name(call.func) == "zero_grad"):
            is_between = backward.lineno < zero.lineno < steps[0].lineno
            is_anothers = is_optimizer(receiver_of(zero)) and ast.unparse(receiver_of(zero)) not in stepping
            if is_between and not is_anothers and _branches(script, zero) == _branches(script, backward):
                yield "T18", zero, "It sets to zero what backward() has just computed, and the step comes behind it."


def never_stepping(script: Script) -> Found:
    """T18: an optimizer that only ever sets gradients to zero, in a file that computes them in a loop."""
    if STEPS.search(script.text) or not any(any(turns_of(script, backward)) for backward in backwards_of(script)):
        return
    uses = [node for node in nodes_in(script.tree, ast.expr) if isinstance(getattr(node, "ctx", None), ast.Load)]
    for name, made in _optimizers(script):
        if all(_is_only_zeroed(script, one) for one in uses if last_name(one) == name):
            yield "T18", made.value, f"Gradients are computed in a loop, and {name}.step() is called nowhere."


def _branches(script: Script, node: ast.AST) -> list[ast.AST]:
    return [one for one in script.around(node) if isinstance(one, ast.If)]


def _optimizers(script: Script) -> list[tuple[str, ast.Assign]]:
    """The names of what is made as an optimizer, by torch or a class of that name, and where."""
    made = [node for node in nodes_in(script.tree, ast.Assign) if OPTIMIZERS.search(ast.unparse(node.value))]
    return [(last_name(target), node) for node in made for target in node.targets]


def _is_only_zeroed(script: Script, name: ast.expr) -> bool:
    """Whether a name stands in optimizer.zero_grad(), or is only looked at: optimizer.param_groups."""
    around = next(script.around(name))
    return isinstance(around, ast.Attribute) and around.attr in ("zero_grad", "param_groups", "state_dict")


def clipped_in_vain(script: Script) -> Found:
    """T16: gradients are clipped after the step, before they are computed, or while they are scaled up."""
    for clip in script.calls:
        scope = script.loops_around(clip)[1]
        calls = nodes_in(scope, ast.Call) if CLIPS.fullmatch(last_name(clip.func)) else []
        turns = [call.lineno for call in calls if _takes_a_turn(script, call)]
        backwards = turns + [call.lineno for call in calls if last_name(call.func) == "backward"]
        steps = turns + [call.lineno for call in calls if is_step(call)]
        if not backwards or not steps:
            continue
        if max(backwards) <= min(steps) <= max(steps) < clip.lineno:
            yield "T16", clip, "By then the step has been taken, by gradients that nothing has clipped."
        elif clip.lineno < min(backwards) <= min(steps):
            yield "T16", clip, "The gradients of this step are computed after it, and nothing clips those."
        elif "scaler.scale(" in ast.unparse(scope) and "unscale_(" not in script.text:
            said = "They are still multiplied by the scaler's factor, 65536 at first, for nothing calls unscale_."
            yield "T16", clip, said


def _takes_a_turn(script: Script, call: ast.Call) -> bool:
    """Whether a call is of a function of the file that computes gradients and takes the step, and clips none."""
    written = script.functions.get(last_name(call.func), [])
    inner = nodes_in(written, ast.Call) if len(written) == 1 else []
    names = {last_name(one.func) for one in inner}
    return "backward" in names and any(map(is_step, inner)) and not any(map(CLIPS.fullmatch, names))


def keeping_graphs(script: Script) -> Found:
    """T17: total += loss, or losses.append(loss), of the loss that gradients are computed of."""
    backwards = [*backwards_of(script)]
    summed = {ast.unparse(loss_of(backward)) for backward in backwards}
    for backward in backwards:
        loss = ast.unparse(loss_of(backward))
        for node, keeper, value in _kept(script.loops_around(backward)[0][-1:]):
            if loss in _bare(value) and keeper not in summed and not _is_free(script, loss, node):
                yield "T17", node, f"{loss} has the graph of its step, and {keeper} keeps that of every one."


def _kept(loops: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, str, ast.expr]]:
    """What is added to a sum or a list in a loop: where, to what, and what."""
    for added in nodes_in(loops, ast.AugAssign):
        yield added.value, ast.unparse(added.target), added.value
    for kept in nodes_in(loops, ast.Assign):  # total = total + loss
        keeper, terms = ast.unparse(kept.targets[0]), [*sums_in([kept.value])][:1]
        for first, second in [*terms, *(term[::-1] for term in terms)]:
            if ast.unparse(first) == keeper:
                yield second, keeper, second
    for call in nodes_in(loops, ast.Call):
        if last_name(call.func) == "append" and call.args:
            yield call, ast.unparse(receiver_of(call)), call.args[0]


def _bare(value: ast.expr) -> set[str]:
    """The names in loss * n, and none of loss.item()."""
    if isinstance(value, ast.BinOp):
        return _bare(value.left) | _bare(value.right)
    return {ast.unparse(value)} if isinstance(value, (ast.Name, ast.Attribute)) else set()


def _is_free(script: Script, loss: str, node: ast.expr) -> bool:
    """Whether a loss has no graph by then: it is a number, or cut off, or nothing is recorded there."""
    origin = script.assigned(loss, node)
    is_cut_off = origin is not None and FREES.search(ast.unparse(origin)) is not None
    return is_cut_off or is_unrecorded(script, node)
