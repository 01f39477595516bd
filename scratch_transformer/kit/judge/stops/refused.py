"""B26: what Python and torch refuse, whatever it is given: a number that is called, torch.rand(n, bias=False)."""

from __future__ import annotations

import ast
import inspect
import re
from types import FrameType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import meant_by, nodes_of
from scratch_transformer.kit.judge.frames import function_of, in_one_line, nodes_at
from scratch_transformer.kit.judge.stops.handed import CALLED, handed
from scratch_transformer.kit.syntax import is_of_self, is_open, is_stored, nodes_in

NOTHING = ("", "")
METHOD = re.compile(r"'builtin_function_or_method'|'method'")
MISSING = re.compile(r"(?:'Tensor' object|module '(?P<module>torch[\w.]*)') has no attribute '(?P<name>\w+)'")
KEYWORD = re.compile(r"(\w+)\(\) (?:got an unexpected keyword argument '(\w+)'|received an invalid combination of arg)")
PLACES = re.compile(r"(\w+)\(\) takes (\d+) positional arguments? but \d+ (?:was|were) given")
LACKS = re.compile(r"^(\w+)\(\) (missing \d+ required positional arguments?: \".*)")
"""What torch says of a call without arguments, in quotes that Python has not."""
NO_TENSOR = re.compile(r"(\w+)\(\): argument '(\w+)' \(position (\d+)\) must be Tensor, not (int|float)")
BOTH_MASKS = "attn_mask should not be set when is_causal=True"
OF_SIZES = ("zeros", "ones", "rand", "randn", "empty")
"""What takes any number of sizes, and says this of arguments that are none."""
NUMBERS = (int, float, bool)


def no_function(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """A call of a number."""
    found = CALLED.search(str(error)) if type(error) is TypeError else None
    for node in nodes_at(error, frame, ast.Call) if found else ():
        sort, callee, written = found[1].rpartition(".")[2], node.func, ast.unparse(node.func)  # type: ignore[index]
        if isinstance(callee, (ast.BinOp, ast.Constant)) or _is_plain(callee, sort):
            return f"It calls {written}, which is no function: {sort}.", written
        elif sort == "module" and isinstance(_of_globals(callee, frame), ModuleType):
            return f"It calls {written}, which is a module of Python's.", written
        elif _is_own_number(written, frame):
            return f"It calls {written}, which is a number: {sort}.", written
        elif isinstance(callee, ast.Name) and (given := _handed_number(written, error, frame)):
            return f"It calls {written}, which is {given}, a number: {sort}.", written
    return NOTHING


def no_second_mask(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """attn_mask=mask, is_causal=True: PyTorch takes one; up to 2.13 both on a CPU, without dropout."""
    for call in nodes_at(error, frame, ast.Call) if BOTH_MASKS in str(error) else ():
        told = {word.arg: ast.unparse(word.value) for word in call.keywords}
        if told.get("is_causal") == "True" and told.get("attn_mask", "None") != "None":
            return f"It gives {ast.unparse(call.func)} attn_mask={told['attn_mask']} and is_causal=True.", ""
    return NOTHING


def no_method(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """x.size[0], x.size - 1: a method of tensors that is not called; and methods that tensors and torch do not have."""
    if type(error) is TypeError and METHOD.search(str(error)):
        every = [node for node in nodes_at(error, frame, ast.Attribute) if callable(getattr(Tensor, node.attr, None))]
        called = {id(node.func) for node in nodes_at(error, frame, ast.Call)}
        used = {id(n) for one in nodes_at(error, frame, (ast.Subscript, ast.BinOp)) for n in ast.iter_child_nodes(one)}
        for node in every:
            if id(node) not in called and id(node) in used:
                return f"It does not call {ast.unparse(node)}: the parentheses are missing.", ast.unparse(node)
    found = MISSING.search(str(error)) if type(error) is AttributeError else None
    for node in nodes_at(error, frame, ast.Attribute) if found else ():
        is_computed = isinstance(node.value, COMPUTED) or found["module"]  # type: ignore[index]
        is_computed = is_computed or _is_computed(node.value, frame) or kept(node.value, frame) is not None
        if node.attr == found["name"] and is_computed:  # type: ignore[index]
            owner = found["module"] or "a tensor"  # type: ignore[index]
            return f"It asks {owner} for {node.attr}, which torch {torch.__version__} does not have.", node.attr
    return NOTHING


COMPUTED = (ast.Call, ast.BinOp)


def _is_computed(node: ast.expr, frame: FrameType) -> bool:
    """Whether a function gives a name, so far, what torch computes, and nothing else: scores = torch.matmul(q, k)."""
    function = function_of(frame)
    if function is None or not isinstance(node, ast.Name):
        return False
    inside = list(ast.walk(function))
    around = [n for n in inside if isinstance(n, (ast.For, ast.While)) and _covers(n, node)]
    earlier = [n for n in inside if _line(n) < node.lineno or any(_covers(loop, n) for loop in around)]
    stored = [n for n in earlier if is_stored(n, node.id)]
    values = [n.value for n in earlier if isinstance(n, ast.Assign) and [*map(ast.unparse, n.targets)] == [node.id]]
    is_own = node.id not in {n.arg for n in inside if isinstance(n, ast.arg)}
    is_all = is_own and 0 < len(values) == len(stored)
    return is_all and all(_is_of_tensors(value, node.id, frame) for value in values)


def _covers(loop: ast.AST, node: ast.AST) -> bool:
    """Whether a node is on the lines of a loop, and so comes before itself."""
    return _line(loop) < _line(node) <= (getattr(loop, "end_lineno", None) or 0)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def kept(node: ast.expr, frame: FrameType) -> Tensor | None:
    """The buffer or parameter of the module that it is, or is a piece of: self.pe[:, : x.size(1)]; else None."""
    owner = frame.f_locals.get("self")
    while isinstance(node, ast.Subscript):
        node = node.value
    if not is_of_self(node) or not isinstance(owner, nn.Module):
        return None
    held = (owner._buffers.get(node.attr), owner._parameters.get(node.attr))
    return next((value for value in held if isinstance(value, Tensor)), None)


def _of_a_tensor(callee: ast.expr, frame: FrameType) -> bool:
    """Whether it is a method that tensors have, of a tensor: (x - 1).mean, x.mean of the x that a module is given.

    What a function is given may be meant to be an array of NumPy's.
    """
    if not isinstance(callee, ast.Attribute) or not hasattr(Tensor, callee.attr):
        return False
    owner, is_module = callee.value, isinstance(frame.f_locals.get("self"), nn.Module)
    is_one = isinstance(owner, ast.Name) and isinstance(frame.f_locals.get(owner.id), Tensor)
    return is_module and (is_one or isinstance(owner, ast.BinOp) or _is_computed(owner, frame))


def _is_of_tensors(value: ast.expr, name: str, frame: FrameType) -> bool:
    """A sum or product, or what a function of torch's, a method that tensors have, or one of its own gives."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.BinOp)
    method = value.func if isinstance(value.func, ast.Attribute) else None
    is_method = method is not None and (hasattr(Tensor, method.attr) or ast.unparse(method.value) == name)
    return is_method or _of_torch(value.func, frame) is not None


def no_argument(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """What a function of torch or a method of tensors does not take: torch.sin(x, y), x.mean(-1, keep_dim=True)."""
    many = PLACES.search(str(error)) if type(error) is TypeError else None
    for node in nodes_at(error, frame, ast.Call) if many else ():
        name, is_one = ast.unparse(node.func), _of_torch(node.func, frame) is not None
        is_one = is_one and name.rpartition(".")[2] not in OF_SIZES
        if is_one and name.rpartition(".")[2] == many[1] and len(node.args) > int(many[2]):  # type: ignore[index]
            return f"It gives {name} {len(node.args)} arguments, which takes {many[2]}.", name  # type: ignore[index]
    left = LACKS.match(str(error)) if type(error) is TypeError else None
    for node in nodes_at(error, frame, ast.Call) if left else ():
        name = ast.unparse(node.func)
        if name.rpartition(".")[2] == left[1] and not is_open(node):  # type: ignore[index]
            return f"It calls {name} without what that must be given: {left[2]}.", name  # type: ignore[index]
    found = KEYWORD.search(str(error)) if type(error) is TypeError else None
    for node in nodes_at(error, frame, ast.Call) if found else ():
        name = ast.unparse(node.func)
        is_one = _of_torch(node.func, frame) is not None or _of_a_tensor(node.func, frame)
        if not is_one or name.rpartition(".")[2] != found[1]:  # type: ignore[index]
            continue
        said = str(error).partition("got (")[2].partition("\n *")[2]
        for word in node.keywords:
            is_named = word.arg is not None and found[2] == word.arg  # type: ignore[index]
            if is_named or (word.arg and said and not re.search(rf"\b{word.arg}\b", said)):
                return f"It gives {name} the argument {word.arg}, which that does not take.", name
    return NOTHING


def no_constant(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """What torch refuses of constants alone: torch.zeros(1, dtype=torch.long, requires_grad=True)."""
    if type(error) not in (RuntimeError, TypeError, ValueError) or "memory" in str(error):
        return NOTHING  # another machine may have as much
    for node in nodes_at(error, frame, (ast.Assign, ast.Expr, ast.Return)):
        names = [one.id for one in nodes_in(node.value, ast.Name)]
        known = [frame.f_globals.get(name) for name in names if name not in frame.f_locals]
        is_call = isinstance(node.value, ast.Call) and len(known) == len(names) > 0
        if is_call and all(_is_of_torch(one) for one in known):
            written = ast.unparse(node.value)
            text = in_one_line(error, 120)
            return f"torch refuses {written}: {text}.", ast.unparse(node.value.func)
    return NOTHING


def no_tensor(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """A number where torch wants a tensor: torch.sin(math.pi), torch.outer(m, theta) of def table(theta=10000.0)."""
    found = NO_TENSOR.match(str(error)) if type(error) is TypeError else None
    for node in nodes_at(error, frame, ast.Call) if found else ():
        name, place = ast.unparse(node.func), int(found[3]) - 1  # type: ignore[index]
        if _of_torch(node.func, frame) is None or name.rpartition(".")[2] != found[1]:  # type: ignore[index]
            continue
        named = {word.arg: word.value for word in node.keywords}
        given = node.args[place] if place < len(node.args) else named.get(found[2])  # type: ignore[index]
        if given is not None and _is_always_a_number(given, frame):
            return f"It gives {name} the number {ast.unparse(given)}, where that takes a tensor.", name
    return NOTHING


def _is_always_a_number(node: ast.expr, frame: FrameType) -> bool:
    """Whether it is one by what is written, whoever calls: 2 * 0.5, math.sqrt(…), x.shape[1], a parameter that is."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.BinOp):
        return all(_is_always_a_number(side, frame) for side in (node.left, node.right))
    if isinstance(node, ast.UnaryOp):
        return _is_always_a_number(node.operand, frame)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).startswith("math.") or ast.unparse(node.func) in ("len", "int", "float")
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.Attribute):
        return _is_own_number(ast.unparse(node), frame)
    return isinstance(node, ast.Name) and _is_number_by_name(node.id, frame)


def _is_number_by_name(name: str, frame: FrameType) -> bool:
    """Whether a name is a parameter that is a number, and is given nothing else in the function."""
    function = function_of(frame)
    if function is None or any(is_stored(one, name) for one in ast.walk(function)):
        return False
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    defaults = function.args.defaults
    missing = [None] * (len(every) - len(defaults) - len(function.args.kwonlyargs))
    for one, default in zip(every, [*missing, *defaults, *function.args.kw_defaults], strict=True):
        is_said = one.annotation is not None and ast.unparse(one.annotation) in ("int", "float")
        is_default = isinstance(default, ast.Constant) and type(default.value) in (int, float)
        if one.arg == name:
            return is_said or is_default
    return False


def _is_plain(callee: ast.expr, sort: str) -> bool:
    """Whether it is an attribute of tensors that holds a value of this sort: x.requires_grad, x.shape."""
    value = getattr(torch.zeros(1), callee.attr, None) if isinstance(callee, ast.Attribute) else None
    return value is not None and not callable(value) and type(value).__name__ == sort


def _is_own_number(written: str, frame: FrameType) -> bool:
    """Whether self.name is nothing but a parameter of the constructor that is a number by default or annotation."""
    owner, (first, _, name) = frame.f_locals.get("self"), written.partition(".")
    if first != "self" or not isinstance(owner, nn.Module) or not isinstance(getattr(owner, name, None), NUMBERS):
        return False
    try:
        known = inspect.signature(type(owner)).parameters
    except (TypeError, ValueError):
        return False
    values = [node.value for node in nodes_of(type(owner), ast.Assign) if written in map(ast.unparse, node.targets)]
    return bool(values) and all(isinstance(one, ast.Name) and _is_number(known.get(one.id)) for one in values)


def _is_number(parameter: inspect.Parameter | None) -> bool:
    is_said = parameter is not None and parameter.annotation in (int, float, bool, "int", "float", "bool")
    return is_said or (parameter is not None and isinstance(parameter.default, NUMBERS))


def _handed_number(name: str, error: BaseException, frame: FrameType) -> str:
    """What a learner's own call hands to a parameter, a number by default: attention(…, dropout=self.dropout)."""
    for node, found, caller in handed(name, error, frame):
        is_call_of_it = ast.unparse(node.func).rpartition(".")[2] == frame.f_code.co_name
        written = ast.unparse(found) if found is not None else ""
        if is_call_of_it and _is_own_number(written, caller) and not any(isinstance(n, ast.Starred) for n in node.args):
            return written
    return ""


def _is_of_torch(thing: Any) -> bool:
    name = getattr(thing, "__name__" if inspect.ismodule(thing) else "__module__", None) or ""
    return name.partition(".")[0] == "torch"


def _of_globals(callee: ast.expr, frame: FrameType) -> Any:
    """What a name of the file's, or an attribute of one, stands for; None for what a function has itself."""
    path = ast.unparse(callee)
    return None if path.partition(".")[0] in frame.f_locals else meant_by(path, frame.f_globals)


def _of_torch(callee: ast.expr, frame: FrameType) -> Any:
    """The function of torch, torch.rand or F.softmax, that is called by its global name; None for anything else."""
    thing = _of_globals(callee, frame)
    module = getattr(thing, "__module__", None) or ("torch" if inspect.isbuiltin(thing) else "")
    is_one = (inspect.isbuiltin(thing) or inspect.isfunction(thing)) and module.partition(".")[0] == "torch"
    return thing if is_one else None
