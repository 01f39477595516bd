"""P5, A30, B32: tables, masks and other tensors that a move of the module to another device forgets."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_own, namespace_of, nodes_of, source_of
from scratch_transformer.kit.judge import elsewhere, neighbours
from scratch_transformer.kit.judge.detectors.inventory import plain_weights
from scratch_transformer.kit.judge.elsewhere import Left
from scratch_transformer.kit.judge.frames import DONE_AT, STOPS_AT, nodes_on
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.uncomputed import is_triangle
from scratch_transformer.kit.kind import Candidate, Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import NOWHERE_ELSE
from scratch_transformer.kit.mistakes.masks import TOLD_DEVICE
from scratch_transformer.kit.syntax import Function, is_stored, nodes_in


def left_behind(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P5, A30, B32: a table of positions, a mask or another tensor that is on the CPU wherever the module is."""
    fresh = _made_again(session)
    width = session.settings.get("d_model")
    plain = [*_plain_tensors(session.candidate if fresh is None else fresh)]
    names = {id(value): f"self.{path}.{name}" if path else f"self.{name}" for path, name, value, _ in plain}
    ran = session.ran[0].probe.inputs if session.ran else None
    counts = session.candidate.gives_positions_for
    stopping, is_whole = elsewhere.left(fresh, ran, names, counts) if fresh and ran else ([], False)
    known, own = {one.name for one in stopping}, [one for one in stopping if not one.name]
    found, weights = set[str](), plain_weights(session, best)  # B10 says of weights that they are not moved
    of_parts = [name for name in session.candidate.unregistered if "." in name]  # of the part, too
    for path, name, value, owner in plain:
        full = names[id(value)]
        if full.removeprefix("self.") in (*weights, *of_parts):
            continue
        if getattr(value, "is_given", False) or (fresh is None and not _is_made_first(name, owner)):
            continue  # where it is, is its maker's affair
        is_table = value.dim() >= 2 and value.is_floating_point() and value.shape[-1] == width
        is_told, mistake = _is_told_where(name, owner), "A30" if is_triangle(value) else "P5" if is_table else ""
        mistake = mistake if mistake in session.kind.ids else ""
        if mistake and full not in known and (is_whole or path or _moves(name, owner)):
            continue  # of a part it is found out on its own
        if mistake and mistake not in found:
            found.add(mistake)
            said = f"{full}, of shape {tuple(value.shape)}, is neither a parameter nor a buffer."
            yield Finding(MISTAKES[mistake], said, TOLD_DEVICE if is_told else full, name=full)
        elif not mistake and not is_told:
            own += [one for one in stopping if one.name == full]
    if own and "B32" in session.kind.ids:
        yield from of_calls([one for one in stopping if one in own])


def of_calls(stopping: list[Left]) -> Iterator[Finding]:
    """B32, of what a call makes on the CPU, and of attributes that are neither a table nor a mask."""
    first, others = stopping[0], len({(one.file, one.line) for one in stopping}) - 1
    texts = [*neighbours.codes(Path(first.file))]
    if any(map(DEFAULT_DEVICE.search, texts)) or (first.is_returned and any(map(MOVED_BY_ITS_CALLER.search, texts))):
        return
    code = linecache.getline(first.file, first.line).strip()
    unnamed = "A tensor is put" if first.is_sent else "A tensor is made"
    made = f"{first.name}, which no move of the module moves, is used" if first.name else unnamed
    more = f" So {'are' if others > 1 else 'is'} {others} more." if others else ""
    form = "" if first.is_sent or any(OF_DEVICES.search(_without_unused(text)) for text in texts) else NOWHERE_ELSE
    if first.name:  # it is to be kept in another way, wherever it is used
        at, name = f", in {code}" if code else "", first.name.rpartition(".")[2]
        fix = f"self.register_buffer({name!r}, {name}, persistent=False): a buffer moves with the module."
        yield Finding(MISTAKES["B32"], f"{made} on the CPU{at}.{more}", form, name=first.name, fix=fix)
    elif first.is_returned:
        said = f"{made} on the CPU, and returned: what adds it to embeddings on a GPU stops."
        yield Finding(MISTAKES["B32"], f"{said} {DONE_AT}{code}", form, fix=_told_where(first))
    else:
        at = f" {STOPS_AT}{code}" if code else ""
        yield Finding(MISTAKES["B32"], f"{made} on the CPU.{more}{at}", form, fix=_told_where(first))


def _without_unused(text: str) -> str:
    """Without what says nothing of a device: device=None, and dictionaries that are made and not read."""
    return TOLD_NONE.sub("", TOGETHER.sub(lambda one: one[0] if _is_read(one[1], text) else "", text))


def _is_read(name: str, text: str) -> bool:
    """Whether a name that dictionaries are given stands anywhere else."""
    return re.search(rf"\b{name}\b(?!\s*=\s*\{{)", text) is not None


SIZES = re.compile(r"(?i)len|size|num|max|dim|count|steps|offset|start|^[nt]$|^seq_?l")
"""In the name of a parameter that is a number."""


SENT = 'Leave .to("cpu") and .cpu() out of forward: what is on the device of x stays there.'


def _told_where(one: Left) -> str:
    """A fix for a method that is given no x: what else it is given, or its weights, are somewhere; else "".

    Or for what is put on the CPU.
    """
    if one.is_sent:
        return SENT
    around = [*nodes_on(one.file, one.line, Function)]
    method = max(around, key=lambda node: node.lineno, default=None)
    names = [argument.arg for argument in method.args.args] if method is not None else ["x"]
    given = [name for name in names if name != "self" and not SIZES.search(name)]
    if "x" in names or names[:1] != ["self"] or any(is_stored(node, "x") for node in nodes_in(method, ast.Name)):
        return ""
    told = next((name for name in given if "device" in name.lower()), "")  # which it does not use
    where = told or (f"{given[0]}.device" if given else "next(self.parameters()).device")
    return f"Tell it where: device={where}."


OF_DEVICES = re.compile(r"\bcuda\b|device(?!_type)|\bmps\b|lightning|accelerat")
MOVED_BY_ITS_CALLER = re.compile(r"(?i)(pos|enc|pe)\w*\([^\n]*\)\.(to|cuda|type_as)\(")
"""What moves the code of the positions itself, as it gets it."""
TOLD_NONE = re.compile(r"\bdevice\s*(:[^=,()]*)?=\s*None\b")
"""A parameter, or an argument, that says nothing of where."""
TOGETHER = re.compile(r"\b(\w+)\s*=\s*\{[^{}]*\}")
"""What is handed on together: kwargs = {"device": device, "dtype": dtype}."""
DEFAULT_DEVICE = re.compile(r"set_default_device|set_default_tensor_type|with torch\.device\(")
"""What makes all tensors elsewhere, unless they are told otherwise."""


def _made_again(session: Session) -> Candidate | None:
    """What the constructor makes, before any call keeps anything."""
    try:
        return session.candidate.rebuild()
    except Exception:  # it cannot be built again
        return None


def _plain_tensors(candidate: Candidate) -> Iterator[tuple[str, str, Tensor, type[nn.Module]]]:
    """Path, name, value and class of the tensors that are plain attributes of a module or of a part of it."""
    for path, part in () if candidate.module is None else candidate.module.named_modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, Tensor) and (not value.requires_grad or is_triangle(value)):
                yield path, name, value, type(part)


def _is_made_first(name: str, owner: type[nn.Module]) -> bool:
    """Whether the constructor makes an attribute: what a call makes is where its input is."""
    return name in getattr(owner.__init__, "__code__", _is_made_first.__code__).co_names


def _is_told_where(name: str, owner: type[nn.Module]) -> bool:
    """Whether the constructor puts an attribute, or what it is made of, where it is told: self.pe = pe.to(device)."""
    made: dict[str, list[ast.expr]] = {}
    for node in nodes_of(owner.__init__):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                made.setdefault(ast.unparse(target), []).append(node.value)
    waiting, seen = [f"self.{name}"], set[str]()
    while waiting:
        seen.add(one := waiting.pop())
        parts = [part for value in made.get(one, ()) for part in ast.walk(value)]
        calls = [part for part in parts if isinstance(part, ast.Call)]
        if any(_names_a_device(call) or _is_made_elsewhere(call, owner) for call in calls):
            return True
        waiting += [part.id for part in parts if isinstance(part, ast.Name) and part.id not in seen]
    return False


def _names_a_device(call: ast.Call, unless: Collection[str] = ()) -> bool:
    """Whether a call has device=device, or is .to(self.device) or table(length, device).

    "cuda" itself is a device that not everybody has. unless: names of parameters that say nothing.
    """
    given = [keyword.value for keyword in call.keywords if keyword.arg == "device"]
    given += [one for one in call.args if isinstance(one, (ast.Name, ast.Attribute))]
    given += call.args[:1] if isinstance(call.func, ast.Attribute) and call.func.attr == "to" else []
    named = [ast.unparse(value) for value in given if not isinstance(value, ast.Constant)]
    return any("device" in name.lower() and name not in unless for name in named)


def _is_made_elsewhere(call: ast.Call, owner: type[nn.Module]) -> bool:
    """Whether what is called, a function or method of the learner's, puts what it makes on a device of the file's."""
    name = ast.unparse(call.func)
    own = name.removeprefix("self.")
    called = getattr(owner, own, None) if own != name else namespace_of(owner).get(name)
    if not inspect.isfunction(called) or not is_own(called):
        return False
    return any(_names_a_device(one, inspect.signature(called).parameters) for one in nodes_of(called, ast.Call))


def _moves(name: str, owner: type[nn.Module]) -> bool:
    """Whether a method of the class moves the attribute, as far as its text tells; the constructor comes too early."""
    methods = [method for of, method in vars(owner).items() if inspect.isfunction(method) and of != "__init__"]
    return bool(re.search(rf"self\.{name}\b[^\n]*(\.to\(|\.cuda\(|type_as)", "".join(map(source_of, methods))))


DEVICES = ((("P5", "A30", "B32"), left_behind),)
