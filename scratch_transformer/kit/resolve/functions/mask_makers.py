"""What makes masks, whatever it is called: told by what it is given, and by what its code does with that."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import leads_to, names_in, nodes_of, parameters_called
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.functions import of_heads
from scratch_transformer.kit.resolve.functions.mask_functions import OF_IDS
from scratch_transformer.kit.resolve.names.inputs import LENGTHS, input_of
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

SAYS = re.compile(r"mask|causal|future|look_?ahead|subsequent", re.IGNORECASE)
TRIANGLE = {"tril", "triu", "tril_", "triu_", "tril_indices", "triu_indices"}
EQUAL = {"eq", "ne", "not_equal"}
OTHERWISE = re.compile(r"softmax|dropout|loss|linear|embedding|parameter|multinomial|^rand|backward|read|open", re.I)
"""Names in what does something else than to make a mask."""


def kind_of(thing: Any) -> str:
    """The kind of mask that a function makes, or a class whose forward is given the same; "" of anything else."""
    if not _says(thing) and not _returns_one(thing):
        return ""
    if isinstance(thing, type) and _returns_several(thing):
        return ""
    own = [thing, *_called(thing)]
    names = frozenset[str]().union(*map(names_in, own))
    if any(map(OTHERWISE.search, names)):
        return ""
    given = {*roles_by_name(thing).values()}
    nodes = [node for one in own for node in nodes_of(one)]
    hides = bool(names & TRIANGLE) or ("arange" in names and any(map(_orders, nodes)))
    if "ids" not in given:
        return "CausalMask" if hides and "size" in given else ""
    if not _says(thing):
        return ""
    if any(map(_compared, own)):
        return "TargetMask" if hides else "PaddingMask"
    return "CausalMask" if hides and "pad" not in given else ""


RETURNED = re.compile(
    r"(~|[\w.]*\b(from_numpy|tensor|as_tensor|FloatTensor|BoolTensor|Tensor)\()?\w*(mask|causal)\w*"
    r"(\.(bool|float|to|long|int|unsqueeze|view|astype|type|expand)\([^()]*\)|\[[^\]]*\]| *[=!]= *[\w.]+)*\)?"
)


def _returns_one(thing: Any) -> bool:
    """Whether a function returns what it calls a mask, and nothing else: allowed_positions(length)."""
    returned = [node.value for node in nodes_of(thing, ast.Return)]
    return (
        inspect.isfunction(thing)
        and bool(returned)
        and all(value is not None and RETURNED.fullmatch(ast.unparse(value)) for value in returned)
    )


def _returns_several(cls: Any) -> bool:
    """Whether a call of it gives a tuple of masks: its methods are judged then."""
    nodes = nodes_of(cls.forward if hasattr(cls, "forward") else vars(cls)["__call__"])
    return any(isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) for node in nodes)


def _called(thing: Any) -> list[Any]:
    """The learner's functions that it calls, and methods of its class."""
    owner = getattr(thing, "of_class", None)
    methods = vars(owner) if owner is not None else {}
    own = [getattr(methods[name], "__func__", methods[name]) for name in names_in(thing) if name in methods]
    return [one for one in (*leads_to(thing), *own) if inspect.isfunction(one)]


def _says(thing: Any) -> bool:
    owner: Any = getattr(thing, "of_class", None)
    is_of_masks = owner is not None and not issubclass(owner, nn.Module)  # class Masks, def padding(self, ids)
    name = f"{owner.__name__}.{thing.__name__}" if is_of_masks else getattr(thing, "__name__", "")
    return (inspect.isfunction(thing) or _has_forward(thing)) and bool(SAYS.search(name))


def _has_forward(thing: Any) -> bool:
    return isinstance(thing, type) and any(name in vars(thing) for name in ("forward", "__call__"))


def roles_by_name(thing: Any) -> dict[str, str]:
    """What it must be given: ids, sizes, padding, a device; {} if there is something of which nobody knows.

    What is compared, and all that it is given beside the padding's id, is ids.
    """
    required = [p.name for p in parameters_called(thing) if p.default is p.empty]
    roles = {name: role(name) for name in required}
    unknown = [name for name in required if not roles[name]]
    if len(unknown) == 1 and not {"ids", "size"} & {*roles.values()} and unknown[0] in _compared(thing):
        roles[unknown.pop()] = "ids"
    return {} if unknown else roles


def _compared(thing: Any) -> dict[str, list[ast.expr]]:
    """The parameters that its code compares for equality, and with what: ids == pad, ids.ne(pad)."""
    given = {p.name for p in parameters_called(thing)}
    found: dict[str, list[ast.expr]] = {}
    for node in nodes_of(thing):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in EQUAL:
            sides = [*([node.func.value] if isinstance(node.func, ast.Attribute) else []), *node.args]
        for side in sides:
            name = ast.unparse(side).partition(".data")[0].partition("[")[0]
            if name in given:
                found.setdefault(name, []).extend(other for other in sides if other is not side)
    return found


def role(name: str) -> str:
    """What a parameter of this name takes: "pad", "device", "heads", "batch", "size", "ids"; "" if nobody knows."""
    word, settings = plain(name), settings_of(name)
    if LENGTHS.search(word):  # of every sentence
        return ""
    if "pad" in settings[:1] or re.match(r"pad", word):
        return "pad"
    if word in ("device", "dtype"):
        return "device"
    if of_heads.is_of_heads(name):
        return "heads"
    if "batch" in word and word != "batch":
        return "batch"
    if input_of(name, ("length",)) or "max_len" in settings[:1] or SIZE.search(word):
        return "size"
    return "ids" if input_of(name, ("ids", "src", "tgt")) or OF_IDS.match(word) else ""


SIZE = re.compile(r"(len|length|size|sz)(q|k|\d)?$")


def written_id(thing: Any) -> int | None:
    """The id that it compares ids with, where that is written in, and nothing tells it another: ids != 1."""
    owner = getattr(thing, "of_class", None)
    told = [*parameters_called(thing), *(parameters_of(owner) if owner is not None else ())]
    if any(role(p.name) == "pad" for p in told):
        return None
    values = [value for one in (thing, *_called(thing)) for values in _compared(one).values() for value in values]
    found = {one.value for one in values if isinstance(one, ast.Constant) and type(one.value) is int}
    return found.pop() if len(found) == 1 else None


def _orders(node: ast.AST) -> bool:
    """arange(T)[:, None] >= arange(T)."""
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
