"""B26: code that stops whatever it is given: a misspelt name, nn.LayerNorm(), a list where torch wants modules."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, ModuleType, NoneType

from torch import nn

from scratch_transformer.kit.definitions import is_own, meant_by, nodes_of, text_of_file
from scratch_transformer.kit.discover.load import LEFT_OUT, REPAIRED
from scratch_transformer.kit.discover.repair import unbound
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.judge.frames import (
    STOPS_AT,
    CalledOtherwise,
    frames_of,
    line_of,
    nodes_at,
    nodes_on,
    parsed,
)
from scratch_transformer.kit.judge.stops import (
    answered,
    attributes,
    handed,
    inverted,
    meant,
    miscut,
    misplaced,
    quotients,
    reordered,
    told_in_vain,
    tuples,
    uncalled,
    unguarded,
    unpacked,
)
from scratch_transformer.kit.judge.stops.refused import (
    no_argument,
    no_constant,
    no_function,
    no_method,
    no_second_mask,
    no_tensor,
)
from scratch_transformer.kit.judge.stops.written_positions import no_length
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import (
    OF_BOOLEANS,
    OF_BOTH_MASKS,
    OF_CALLS,
    OF_MODULES,
    OF_QUOTIENTS,
    OF_SEVERAL,
    OF_SHAPES,
)
from scratch_transformer.kit.syntax import is_open

NOTHING = ("", "")
MISFIT = re.compile(
    r"\(\) (missing \d+ required|got an unexpected keyword|got multiple values|takes .* positional argument)"
)
REGISTERED = re.compile(
    r"(?P<of>ModuleList|ModuleDict|ParameterList)\.\w+ should be called with|"
    r"cannot assign '.*' (object to|as) (buffer|parameter) '(?P<what>\w+)'|"
    r"(?P<sort>list|tuple) is not a Module subclass|"
    r"\W*attribute '(?P<taken>\w+)' already exists"
)
"""What torch says of a list of parts that is none, of a buffer or parameter that is no tensor, and of one of whose name
there is something: self.pe = pe before self.register_buffer("pe", pe)."""
GIVEN_PARTS = re.compile(r"Module\.__init__\(\) takes 1 positional argument")
NO_CONSTRUCTOR = re.compile(r"(?<!Module)\.__init__\(\) takes 1 positional argument")
"""What nn.Module says of arguments to a class of modules that has no constructor of its own."""
LOCAL = re.compile(r"local variable '(\w+)'")
NO_SUCH = re.compile(r"module 'torch[\w.]*' has no attribute")


def finding(error: BaseException | None, is_one_of_many: bool = False) -> Finding | None:
    """What an error says that nothing defines, if the learner's own code shows that it is so.

    is_one_of_many: what some way to build or call it stops with, not the likeliest: then the code alone must show it.
    """
    if error is None:
        return None
    if (found := answered.finding(error) or reordered.finding(error)) is not None:
        return found
    for look_at in (tuples.finding, uncalled.finding):
        said, name, line = look_at(error)
        if said:
            return Finding(MISTAKES["B26"], f"{said} {STOPS_AT}{line}", name)
    frame = next(reversed(frames_of(error)), None)
    while frame is not None and {"torch", "precision", "toy", "supplied"} & set(
        (frame.f_globals.get("__name__") or "").split(".")
    ):
        is_call = (
            "kit" in frame.f_globals["__name__"]
            or isinstance(error, AttributeError)
            or frame.f_code.co_name in ("_call_impl", "_wrapped_call_impl")
            or NO_CONSTRUCTOR.search(str(error)) is not None
        )
        is_call = is_call or _is_refused(error)
        frame = frame.f_back if is_call else None
    if error is not None and GIVEN_PARTS.match(str(error)):
        frame = _making_a_module(error)
    elif error is not None:
        frame = told_in_vain.frame_of(error) or frame
    if frame is None or error is None:
        return None
    notes, left_out = (frame.f_globals.get(name, "") for name in (REPAIRED, LEFT_OUT))
    unread = _unread(error, notes) if notes else None
    if unread is not None or (notes and not left_out):
        return unread
    for look_first in (handed.finding, unguarded.finding) if not is_one_of_many and not notes else ():
        if (given := look_first(error, frame)) is not None:
            return given
    said, name, fix = *NOTHING, ""
    looks = (
        attributes.of_itself,
        _of_class,
        _of_file,
        _name,
        told_in_vain.base,
        _call,
        _registration,
        *OF_VALUES,
        no_argument,
        no_constant,
        no_length,
        no_tensor,
        no_second_mask,
        quotients.no_integer,
        inverted.no_booleans,
        misplaced.no_axis,
        misplaced.no_array,
        miscut.no_fit,
        unpacked.no_pair,
    )
    for look in (attributes.of_itself, _name) if notes else looks:
        if is_one_of_many and look in OF_VALUES and not NO_SUCH.match(str(error)):
            continue
        if not said:
            said, name = look(error, frame)
            fix = FIXES.get(look, "") or (meant.fix(error, frame, name) if look in NAMED else "")
    if notes and re.search(rf"\b({name.rpartition('.')[2]}|setattr|__dict__|globals|exec)\b|import +\*", left_out):
        return None  # the lines that were left out may set it
    line = linecache.getline(frame.f_code.co_filename, line_of(error, frame)).strip()
    return Finding(MISTAKES["B26"], f"{said} {STOPS_AT}{line}", name, fix=fix) if said else None


def _making_a_module(error: BaseException) -> FrameType | None:
    """Where nn.Module itself is given something: whoever else may watch its constructor."""
    frames = reversed(frames_of(error))
    calls = ((frame, node.func) for frame in frames for node in nodes_at(error, frame, ast.Call))
    return next((frame for frame, name in calls if ast.unparse(name).rpartition(".")[2] == "Module"), None)


def _unread(error: BaseException, notes: Sequence[str]) -> Finding | None:
    """What a line would have defined that Python cannot read: the file stops there, whoever runs it."""
    found, local = attributes.read_in_vain(error)[1], LOCAL.search(str(error))
    own = (local[1] if local else str(error.name)) if isinstance(error, NameError) else ""
    name = f"self.{found}" if found else own
    needed = rf"\b{name}\s*(=|:)" if found else rf"^{name} \(.*left out$|^Python cannot read .*['\"]{name}\s*="
    said = next((note for note in notes if name and re.search(needed, note)), "")
    return Finding(MISTAKES["B26"], f"{said}; it is needed.", name) if said else None


def _of_class(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """Config.SOS_IDX, where neither the class, nor any line of its file and of this one, ever sets it."""
    found = OF_CLASSES.match(str(error)) if isinstance(error, AttributeError) else None
    for node in nodes_at(error, frame, ast.Attribute) if found else ():
        cls = frame.f_globals.get(ast.unparse(node.value))
        is_one = isinstance(cls, type) and (cls.__name__, node.attr) == found.groups()  # type: ignore[union-attr]
        if not is_one or cls.__bases__ != (object,) or not _is_as_written(cls) or not attributes.text_of(cls):  # type: ignore[union-attr, arg-type]
            continue
        texts = (attributes.text_of(cls), text_of_file(frame.f_code.co_filename))  # type: ignore[arg-type]
        if not any({node.attr, "setattr"} & attributes.told_in(text) for text in texts):
            name = ast.unparse(node)
            return f"It reads {name}, which nothing in {node.value.id} or its file sets.", name
    return NOTHING


def _name(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """A global name that nothing in the file defines or imports, by no star either."""
    name, module = getattr(error, "name", None), sys.modules.get(frame.f_globals.get("__name__") or "")
    absent = never_defined(module) if type(error) is NameError and name and module is not None else set()
    if name not in absent:
        return NOTHING
    others = [one for one in dict.fromkeys(frame.f_code.co_names) if one in absent and one != name]
    nor = f"; nor {' or '.join(others)}" if others else ""
    return f"It uses {name}, which nothing in its file defines or imports{nor}.", name


def never_defined(module: ModuleType) -> set[str]:
    """The global names that a file reads and that nothing in it, and no star import, defines: nobody can run that."""
    file = getattr(module, "__file__", None)
    text = text_of_file(file)
    told = attributes.told_globally(text) if text else set()
    if not text or re.search(r"import\s+\*", text) or "setattr" in told:
        return set()
    return set(unbound(Source(str(file), text), module)) - told


def _call(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """A call of a class or function by its name, in a learner's file, that leaves out or adds an argument."""
    if not _is_of_a_call(error):
        return NOTHING
    line, path = line_of(error, frame), frame.f_code.co_filename
    if frame.f_globals.get("__file__") != path or "scratch_transformer.kit" in frame.f_globals.get("__name__", ""):
        return NOTHING
    called = str(error).partition("()")[0].removesuffix(".__init__").rpartition(".")[2]
    if is_of_later(str(error).partition("()")[0], line, path):
        return NOTHING
    for node in nodes_on(path, line, ast.Call):
        if is_open(node):
            continue
        name = ast.unparse(node.func)
        thing = _named(name, frame)
        # nn.Dropout has its base's constructor
        lineage = thing.__mro__ if isinstance(thing, type) and thing.__module__.startswith("torch.nn.") else ()
        is_called = called in (name.rpartition(".")[2], *(cls.__name__ for cls in lineage))
        is_own = (is_it(name, str(error).partition("()")[0], frame) for is_it in (_is_method, _is_own_part))
        if (is_called and _is_as_written(thing)) or any(is_own):
            return f"It calls {name} with arguments that do not fit: {error}.", name
    return NOTHING


def _is_of_a_call(error: BaseException) -> bool:
    """Whether it says that arguments do not fit."""
    return type(error) in (TypeError, CalledOtherwise) and MISFIT.search(str(error)) is not None


def is_of_later(called: str, line: int, path: str) -> bool:
    """Whether a later cell of a notebook defines it anew: where the call stands, it was another one, which may fit."""
    if not path.endswith(".ipynb"):
        return False
    name, sorts = called.partition(".")[0], (ast.ClassDef, ast.FunctionDef)
    lines = [node.lineno for node in parsed(path) if isinstance(node, sorts) and node.name == name]
    return bool(lines) and min(lines) < line < max(lines)


def _of_file(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """sublayers.Attention, of a file of the learner's that defines no such thing."""
    found = OF_FILES.match(str(error)) if type(error) is AttributeError else None
    for node in nodes_at(error, frame, ast.Attribute) if found else ():
        module = frame.f_globals.get(ast.unparse(node.value))
        if not isinstance(module, ModuleType) or (module.__name__, node.attr) != found.groups():  # type: ignore[union-attr]
            continue
        text = text_of_file(module.__file__)
        is_whole = text and "site-packages" not in str(module.__file__) and not getattr(module, REPAIRED, ())
        if is_whole and not re.search(rf"\b({node.attr}|setattr|__getattr__|globals|vars|exec)\b|import +\*", text):
            name = ast.unparse(node)
            return f"It reads {name}, which nothing in {Path(module.__file__ or '').name} defines.", name
    return NOTHING


OF_FILES = re.compile(r"module '([\w.]+)' has no attribute '(\w+)'")
OF_CLASSES = re.compile(r"type object '(\w+)' has no attribute '(\w+)'")
FIXES = {
    quotients.no_integer: OF_QUOTIENTS,
    inverted.no_booleans: OF_BOOLEANS,
    unpacked.no_pair: OF_SEVERAL,
    no_second_mask: OF_BOTH_MASKS,
    told_in_vain.base: OF_MODULES,
    _call: OF_CALLS,
    no_argument: OF_CALLS,
    miscut.no_fit: OF_SHAPES,
    miscut.no_rows: OF_SHAPES,
}
"""What mends what is no name that nothing defines."""
OF_VALUES = (no_function, no_method, attributes.of_a_part, attributes.of_the_model, misplaced.no_answer, miscut.no_rows)
"""What may be so because of what is given to a call, as far as the line alone shows."""


def _is_refused(error: BaseException | None) -> bool:
    is_said = type(error) in (TypeError, KeyError) and REGISTERED.match(str(error)) is not None
    return is_said or (type(error) is TypeError and (quotients.is_one(error) or misplaced.is_said(error)))


def _registration(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """What a constructor makes of numbers alone and registers, and torch refuses, whatever the numbers are."""
    found, code, owner = REGISTERED.match(str(error)), frame.f_code, frame.f_locals.get("self")
    is_making = code.co_name == "__init__" and frame.f_globals.get("__file__") == code.co_filename
    if found is None or not _is_refused(error) or not is_making or not isinstance(owner, nn.Module):
        return NOTHING
    given = [frame.f_locals.get(name) for name in code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]]
    if "scratch_transformer.kit" in str(error) or not all(
        isinstance(one, (int, float, str, NoneType)) for one in given
    ):
        return NOTHING
    names = {ast.unparse(node.value) for node in nodes_at(error, frame, ast.Assign)}
    if names & set(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]):
        return NOTHING  # what it is given, it does not make: self.linear.weight = shared_weights
    return f"torch refuses what it makes: {error.args[0]}.", next(filter(None, found.groupdict().values()))


NAMED = (attributes.of_itself, _name, _registration)
"""What a name close by, or one of another file, may mend."""


def _is_method(name: str, called: str, frame: FrameType) -> bool:
    """Whether self.name is a method that the class itself has: def causal_mask(length), without self."""
    owner, (first, _, attribute) = frame.f_locals.get("self"), name.partition(".")
    method = getattr(type(owner), attribute, None) if first == "self" and owner is not None else None
    is_written = inspect.isfunction(method) and attribute not in getattr(owner, "__dict__", ())
    return is_written and method.__qualname__ == called and _is_as_written(method)  # type: ignore[union-attr]


def _is_own_part(name: str, called: str, frame: FrameType) -> bool:
    """Whether self.part, self.layers[i] or a layer of self.layers is what the class makes, forward being called so."""
    owner, (first, _, attribute) = frame.f_locals.get("self"), name.partition(".")
    if not isinstance(owner, nn.Module):
        return False
    attribute, _, place = attribute.partition("[")
    part = getattr(owner, attribute, None) if first == "self" else frame.f_locals.get(name)
    if place:
        part = next(iter(part), None) if isinstance(part, nn.ModuleList) else None
    cls = getattr(part, "stands_for", None) or type(part)
    if part is None or called != f"{cls.__qualname__}.forward" or not _is_as_written(cls):
        return False
    nodes = nodes_of(type(owner))
    made = _made_as(name, nodes) if first == "self" and not place else _made_in_lists(owner, part, nodes)
    classes = [meant_by(ast.unparse(one.func), frame.f_globals) for one in made if isinstance(one, ast.Call)]
    return len(classes) == len(made) > 0 and all(one is cls for one in classes)


def _made_as(name: str, nodes: list[ast.AST]) -> list[ast.expr | None]:
    """What a class assigns to self.part."""
    given = [node for node in nodes if isinstance(node, (ast.Assign, ast.AnnAssign))]
    return [
        node.value
        for node in given
        if name in map(ast.unparse, getattr(node, "targets", [getattr(node, "target", None)]))
    ]


def _made_in_lists(owner: nn.Module, part: object, nodes: list[ast.AST]) -> list[ast.expr]:
    """What a class makes the lists of that have this part: nn.ModuleList([Layer() for …]), append(Layer()).

    Of lists of lists, nn.ModuleList([nn.ModuleList([Attention(), FeedForward()]) for …]), what has its place in them.
    """
    lists = {name: [*one] for name, one in owner.named_children() if isinstance(one, nn.ModuleList)}
    made: list[ast.expr] = []
    for name, parts in lists.items():
        within = next((one for one in parts if isinstance(one, nn.ModuleList) and part in [*one]), None)
        if part not in parts and within is None:
            continue
        elements = [element for value in _made_as(f"self.{name}", nodes) for element in _elements(value)]
        calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
        adding = re.compile(rf"self\.{name}\.(append|insert|add_module)")
        elements += [node.args[-1] for node in calls if adding.fullmatch(ast.unparse(node.func))]
        if within is not None:
            rows = [_elements(element) for element in elements]
            number = [*within].index(part)
            elements = [row[number] if len(row) == len(within) else ast.List([]) for row in rows]
        made += elements
    return made


def _elements(value: ast.expr | None) -> list[ast.expr]:
    """Of nn.ModuleList([…]); itself, where that is written in another way."""
    if not isinstance(value, ast.Call) or ast.unparse(value.func).rpartition(".")[2] != "ModuleList":
        return [] if value is None else [value]
    inner = value.args[0] if value.args else ast.List([])
    if isinstance(inner, (ast.ListComp, ast.GeneratorExp)):
        return [inner.elt]
    return inner.elts if isinstance(inner, (ast.List, ast.Tuple)) else [inner]


def _named(name: str, frame: FrameType) -> object:
    """What a global name, a name in a global module, or of a function that is defined inside this one stands for."""
    first, *rest = name.split(".")
    if first in frame.f_locals and frame.f_locals is not frame.f_globals:
        own, code = frame.f_locals[first], frame.f_code
        is_given = first in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return own if inspect.isfunction(own) and "<locals>" in own.__qualname__ and not is_given and not rest else None
    return meant_by(name, frame.f_globals)


def _is_as_written(thing: object) -> bool:
    """Whether it is a class or function of Python's, torch's or the learner's, which nothing stands in for.

    What another package asks for may be otherwise in the release that the learner has.
    """
    is_known = isinstance(thing, type) or inspect.isfunction(thing)
    if not is_known or (thing.__module__ or "scratch_transformer.kit").startswith("scratch_transformer.kit"):
        return False
    root = thing.__module__.partition(".")[0]
    return is_own(thing) or root in (*sys.stdlib_module_names, "torch", "numpy")
