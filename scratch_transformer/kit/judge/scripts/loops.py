"""T14 to T17 by reading: what a loop that trains does with gradients and losses, and with the mode of its model."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from scratch_transformer.kit.judge.scripts.flow import Script, argument
from scratch_transformer.kit.judge.scripts.losses import Found
from scratch_transformer.kit.syntax import last_name, nodes_in

ZEROES = re.compile(
    r"zero_?grad|set_to_none|\.zero_\(|\.grad\b[^=\n]*=(?!=)|autograd\.grad\b|functional_call|accumul", re.IGNORECASE
)
"""In the text of what sets gradients to zero, or sums them up on purpose."""
TIMED = re.compile(r"\btimeit\b|\bnvtx\b|benchmark", re.IGNORECASE)
"""In the text of what only takes times of steps."""
OF_TORCH = re.compile(r"\b(optim\.\w+|AdamW?|SGD|RMSprop|Adagrad|[NR]Adam|Adamax|Adadelta)\(")
OPTIMIZES = re.compile(r"opt(im\w*)?$|solver|scaler", re.IGNORECASE)
"""What has the steps that change weights; those of a schedule are others."""
DROPS = re.compile(r"drop_?(out|path)|batch_?norm|nn\.Transformer|MultiheadAttention\(", re.IGNORECASE)
"""In the text of a model that is another one in evaluation."""
RATE = re.compile(r"drop\w*(?:\s*:\s*float)?\s*[=:(]\s*(?:p\s*=\s*)?([\d.]+)", re.IGNORECASE)
CLIPS = re.compile(r"clip_grad\w*|gradient_clip\w*|clip_gradients?")
FREES = re.compile(r"\.item\(|\.detach\(|^float\(|\.data\b|\.tolist\(|\.numpy\(")
DEPTH = 3
"""Functions of the file that are followed, from one to the next."""


def added_up(script: Script) -> Found:
    """T14: loss.backward() and optimizer.step() in a loop, and nothing anywhere that sets gradients to zero."""
    if any(map(ZEROES.search, _texts(script))) or TIMED.search(script.text):
        return
    for backward in _backwards(script):
        loops, scope = script.loops_around(backward)
        steps = [call for call in nodes_in(scope, ast.Call) if _is_step(call)]
        if not steps or next(_turns(script, backward), None) is None:
            continue
        optimizers = {last_name(one) for call in steps for one in (_receiver(call), *call.args[:1])}
        made = [node for node in nodes_in(script.tree, ast.Assign) if optimizers & {*map(last_name, node.targets)}]
        if any(OF_TORCH.search(ast.unparse(node.value)) for node in made) and not {*made} & {
            *nodes_in(loops[:1], ast.Assign)
        }:
            said = "Nothing in the file sets gradients to zero: each step is by the sum of those of all steps so far."
            yield "T14", backward, said


def kept_in_evaluation(script: Script) -> Found:
    """T15: what trains is put into evaluation mode, in a turn of its loop or before it, and nothing puts it back."""
    if not any(map(_drops, _texts(script))):
        return
    for backward in _backwards(script):
        for loop in _turns(script, backward):
            calls = [*_calls(script, loop, {})]
            trained = {one.of for one in calls if one.node.func is one.subject}
            modes = [one for one in calls if one.of in trained and one.mode is not None]
            if any(one.mode for one in modes):
                continue
            if wrong := [one for one in modes if not _is_left(script, one.node)]:
                said = f"The loop at line {loop.lineno} trains it, and has {ast.unparse(wrong[0].node)} in each turn, "
                yield "T15", wrong[0].node, f"{said}but no {wrong[0].of}.train()."
                return
            before = [one for one in _before(script, loop) if one.of in trained]
            if not modes and before and before[-1].mode is False:
                said = f"So it is when the loop at line {loop.lineno} trains it: there is no {before[-1].of}.train()."
                yield "T15", before[-1].node, said
                return


def clipped_in_vain(script: Script) -> Found:
    """T16: gradients are clipped after the step, before they are computed, or while they are scaled up."""
    for clip in script.calls():
        scope = script.loops_around(clip)[1]
        calls = nodes_in(scope, ast.Call) if CLIPS.fullmatch(last_name(clip.func)) else []
        backwards = [call.lineno for call in calls if last_name(call.func) == "backward"]
        steps = [call.lineno for call in calls if _is_step(call)]
        if not backwards or not steps:
            continue
        if max(backwards) <= min(steps) <= max(steps) < clip.lineno:
            yield "T16", clip, "By then the step has been taken, by gradients that nothing has clipped."
        elif clip.lineno < min(backwards) <= min(steps):
            yield "T16", clip, "The gradients of this step are computed after it, and nothing clips those."
        elif "scaler.scale(" in ast.unparse(scope) and "unscale_(" not in script.text:
            said = "They are still multiplied by the scaler's factor, 65536 at first, for nothing calls unscale_."
            yield "T16", clip, said


def keeping_graphs(script: Script) -> Found:
    """T17: total += loss, or losses.append(loss), of the loss that gradients are computed of."""
    backwards = [*_backwards(script)]
    summed = {ast.unparse(_loss(backward)) for backward in backwards}
    for backward in backwards:
        loss = ast.unparse(_loss(backward))
        for node, keeper, value in _kept(script.loops_around(backward)[0][-1:]):
            if loss in _bare(value) and keeper not in summed and not _is_free(script, loss, node):
                yield "T17", node, f"{loss} has the graph of its step, and {keeper} keeps that of every one."


def _kept(loops: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, str, ast.expr]]:
    """What is added to a sum or a list in a loop: where, to what, and what."""
    for added in nodes_in(loops, ast.AugAssign):
        yield added.value, ast.unparse(added.target), added.value
    for call in nodes_in(loops, ast.Call):
        if last_name(call.func) == "append" and call.args:
            yield call, ast.unparse(_receiver(call)), call.args[0]


def _loss(backward: ast.Call) -> ast.expr:
    """loss in loss.backward(), and in scaler.scale(loss).backward()."""
    of = _receiver(backward)
    return of.args[0] if isinstance(of, ast.Call) and of.args else of


def _bare(value: ast.expr) -> set[str]:
    """The names in loss * n, and none of loss.item()."""
    if isinstance(value, ast.BinOp):
        return _bare(value.left) | _bare(value.right)
    return {ast.unparse(value)} if isinstance(value, (ast.Name, ast.Attribute)) else set()


def _is_free(script: Script, loss: str, node: ast.expr) -> bool:
    """Whether a loss has no graph by then: it is a number, or cut off, or nothing is recorded there."""
    origin = script.assigned(loss, node)
    withs = [one for one in script.around(node) if isinstance(one, ast.With)]
    nothing = any(re.search("no_grad|inference_mode", ast.unparse(item)) for one in withs for item in one.items)
    return nothing or (origin is not None and FREES.search(ast.unparse(origin)) is not None)


class _Call(NamedTuple):
    """A call in a turn of a loop.

    subject: what it is of, model in model(x) and in model.eval(). of: the name of that where the loop is, which is
    another one in a function that is given it.
    """

    node: ast.Call
    subject: ast.expr
    of: str

    @property
    def mode(self) -> bool | None:
        """Whether it puts what it is of into training mode, or into evaluation; None for neither."""
        if self.node.func is self.subject or last_name(self.node.func) not in ("train", "eval"):
            return None
        told = [ast.unparse(one) for one in self.node.args]
        return last_name(self.node.func) == "train" and told != ["False"]


def _calls(script: Script, within: ast.AST, given: Mapping[str, str], depth: int = DEPTH) -> Iterator[_Call]:
    """The calls in a tree, and in the functions of the file that are called there. given: what names stand for."""
    for node in nodes_in(within, ast.Call):
        method = isinstance(node.func, ast.Attribute) and node.func.attr in ("train", "eval")
        subject = node.func.value if method and isinstance(node.func, ast.Attribute) else node.func
        name = ast.unparse(subject)
        yield _Call(node, subject, given.get(name, name))
        for function in script.functions(last_name(node.func)) if depth else ():
            names = {arg.arg: argument(arg.arg, function, node) for arg in function.args.args}
            texts = {name: ast.unparse(value) for name, value in names.items() if value is not None}
            texts = {name: given.get(text, text) for name, text in texts.items()}
            yield from _calls(script, function, texts, depth - 1)


def _turns(script: Script, backward: ast.Call) -> Iterator[ast.For | ast.While]:
    """The loops in which a gradient is computed, the innermost first; then those that call the function it is in."""
    at: list[ast.AST] = [backward]
    for _ in range(DEPTH):
        for node in at:
            yield from script.loops_around(node)[0]
        names = {script.function_of(node) for node in at} - {""}
        at = [call for call in script.calls() if last_name(call.func) in names]


def _before(script: Script, loop: ast.stmt) -> list[_Call]:
    """The calls that set a mode, each a statement of its own, beside a loop and before it."""
    lists = [getattr(node, "body", []) for node in script.around(loop)]
    beside = next((body for body in lists if isinstance(body, list) and loop in body), [])
    values = [one.value for one in beside if isinstance(one, ast.Expr) and one.lineno < loop.lineno]
    calls = [_Call(one, _receiver(one), ast.unparse(_receiver(one))) for one in values if isinstance(one, ast.Call)]
    return [one for one in calls if one.mode is not None]


def _is_left(script: Script, node: ast.AST) -> bool:
    """Whether the branch that something is in leaves its loop or function."""
    branches = [one for one in script.around(node) if isinstance(one, ast.If)]
    return any(isinstance(one.body[-1], (ast.Break, ast.Return, ast.Raise)) for one in branches)


def _backwards(script: Script) -> Iterator[ast.Call]:
    """Where autograd computes gradients: loss.backward(), and no backward(dy) of one's own."""
    for call in script.calls():
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and not call.args:
            yield call


def _is_step(call: ast.Call) -> bool:
    """optimizer.step(), scaler.step(optimizer), self.opt.step()."""
    return last_name(call.func) == "step" and bool(OPTIMIZES.search(last_name(_receiver(call))))


def _receiver(call: ast.Call) -> ast.expr:
    """model in model.eval(); of any other call, what is called."""
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _texts(script: Script) -> list[str]:
    """Of the file, and of the classes that it knows from others."""
    return [script.text, *map(ast.unparse, script.classes.values())]


def _drops(text: str) -> bool:
    """Whether what a text makes is another one in evaluation: not with dropout = 0.0 alone."""
    rates = RATE.findall(text)
    return DROPS.search(text) is not None and (not rates or any(rate.strip("0.") for rate in rates))
