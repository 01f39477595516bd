"""The turns of a loop that trains: where gradients are computed, what is called there, and where steps are taken."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from scratch_transformer.kit.judge.scripts.flow import Script, argument
from scratch_transformer.kit.syntax import last_name, nodes_in

OPTIMIZES = re.compile(r"opt(im\w*)?$|solver|scaler", re.IGNORECASE)
"""What has the steps that change weights; those of a schedule are others."""
OPTIMIZERS = re.compile(r"\b(optim\.\w+|AdamW?|SGD|RMSprop|Adagrad|[NR]Adam|Adamax|Adadelta)\(")
"""In the text of what makes one, by torch or by a class of that name."""
NO_GRAD = re.compile(r"no_grad|inference_mode|set_grad_enabled\((mode=)?False\)")
DEPTH = 3
"""Functions of the file that are followed, from one to the next."""


def backwards_of(script: Script) -> Iterator[ast.Call]:
    """Where autograd computes gradients: loss.backward(), and no backward(dy) of one's own."""
    for call in script.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and not call.args:
            yield call


def turns_of(script: Script, backward: ast.Call) -> Iterator[ast.For | ast.While]:
    """The loops in which a gradient is computed, the innermost first; then those that call the function it is in."""
    at: list[ast.AST] = [backward]
    for _ in range(DEPTH):
        for node in at:
            yield from script.loops_around(node)[0]
        names = {script.function_of(node) for node in at} - {""}
        at = [call for call in script.calls if last_name(call.func) in names]


def loss_of(backward: ast.Call) -> ast.expr:
    """loss in loss.backward(), and in scaler.scale(loss).backward()."""
    of = receiver_of(backward)
    return of.args[0] if isinstance(of, ast.Call) and of.args else of


def is_left(script: Script, node: ast.AST) -> bool:
    """Whether the branch that something is in leaves its loop or function."""
    branches = [one for one in script.around(node) if isinstance(one, ast.If)]
    return any(isinstance(one.body[-1], (ast.Break, ast.Return, ast.Raise)) for one in branches)


def is_unrecorded(script: Script, node: ast.AST) -> bool:
    """Whether autograd records nothing there: in with torch.no_grad(), or in a function that is so decorated."""
    for one in script.around(node):
        if isinstance(one, ast.With) and any(NO_GRAD.search(ast.unparse(item)) for item in one.items):
            return True
        if isinstance(one, ast.FunctionDef):
            return any(NO_GRAD.search(ast.unparse(decorator)) for decorator in one.decorator_list)
    return False


def is_step(call: ast.Call) -> bool:
    """optimizer.step(), scaler.step(optimizer), self.opt.step()."""
    return last_name(call.func) == "step" and is_optimizer(receiver_of(call))


def is_optimizer(node: ast.expr) -> bool:
    """Whether a name is that of an optimizer, or of the scaler that steps in its place."""
    return OPTIMIZES.search(last_name(node)) is not None


def receiver_of(call: ast.Call) -> ast.expr:
    """model in model.eval(); of any other call, what is called."""
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


class Call(NamedTuple):
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


def calls_in(script: Script, within: ast.AST, given: Mapping[str, str], depth: int = DEPTH) -> Iterator[Call]:
    """The calls in a tree, and in the functions of the file that are called there. given: what names stand for."""
    for node in nodes_in(within, ast.Call):
        method = isinstance(node.func, ast.Attribute) and node.func.attr in ("train", "eval")
        subject = node.func.value if method and isinstance(node.func, ast.Attribute) else node.func
        name = ast.unparse(subject)
        yield Call(node, subject, given.get(name, name))
        for function in script.functions.get(last_name(node.func), ()) if depth else ():
            names = {arg.arg: argument(arg.arg, function, node) for arg in function.args.args}
            texts = {name: ast.unparse(value) for name, value in names.items() if value is not None}
            texts = {name: given.get(text, text) for name, text in texts.items()}
            yield from calls_in(script, function, texts, depth - 1)
