"""What a constructor does with its parameters, read from its source: what no name tells, their use may tell.

`parent.n_heads` wants an object with settings, `config["dim"]` a dictionary, `norm(dim)` a class, `nn.Dropout(rate)` a
dropout, `range(count)` a number of layers; what is handed on to another class is used as that one does.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_module_class, tree_of
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.syntax import is_of_self, is_text, nodes_in

MOST_DEEP = 4
LISTS = (nn.ModuleList, list, tuple, enumerate, zip)
TENSORS = ("tensor", "as_tensor", "LongTensor", "IntTensor", "FloatTensor")
"""What makes a tensor of numbers: of range(count), which are positions then."""
OF_TEXTS = ("lower", "upper", "casefold", "strip", "title", "capitalize")
"""What makes another spelling of a word, before it is compared: kind.lower() == "gelu"."""
OF_DICTIONARIES = ("get", "items", "keys", "values", "pop", "update", "copy", "setdefault", "__dict__")


@dataclass
class Use:
    """attributes, keys: that are read from it. meant: settings that its use suggests.

    called: whether it makes something, like a class. listed: whether it is gone through, like a list.
    """

    attributes: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    meant: list[str] = field(default_factory=list)
    called: bool = False
    listed: bool = False
    applied: bool = False
    """Whether a method calls it, like a module."""
    measured: bool = False
    """Whether its length is taken."""
    optional: set[str] = field(default_factory=set)
    """Of the keys those that have a default."""
    compared: list[Any] = field(default_factory=list)
    """What it is compared with: mode == "sum"."""
    checked: type | None = None
    """The class of modules that it must be of: assert isinstance(layer, EncoderLayer)."""
    handed: set[str] = field(default_factory=set)
    """The names of the learner's parameters that it is handed on for."""
    places: dict[int, list[str]] = field(default_factory=dict)
    """The numbers of its entries that are taken out of it -> names that they are given: max_len = shape[1]."""
    paired: bool = False
    """Whether a method takes the first of what it returns: x, weights = self.attention(x), or self.attention(x)[0]."""
    flags: list[bool] = field(default_factory=list)
    """The defaults of the learner's parameters, True or False, that it is handed on for."""
    kept: str = ""
    """The name of the attribute that a constructor keeps it as: self.encoder = enc."""

    @property
    def is_config(self) -> bool:
        """Whether it is read like an object or dictionary of hyperparameters."""
        return any(settings_of(name) for name in self.attributes | self.keys)

    def add(self, other: Use) -> None:
        self.attributes |= other.attributes
        self.keys |= other.keys
        self.optional |= other.optional
        self.meant += other.meant
        self.handed |= other.handed
        self.flags += other.flags
        self.called |= other.called
        self.applied |= other.applied
        self.listed |= other.listed
        self.measured |= other.measured
        self.compared += other.compared
        self.checked = self.checked or other.checked
        self.placed({place: [*names] for place, names in other.places.items()})
        self.paired |= other.paired

    def placed(self, places: Mapping[int, Sequence[str]]) -> None:
        """Note what entries are given as."""
        for place, names in places.items():
            self.places.setdefault(place, []).extend(names)


def uses_of(thing: Any) -> dict[str, Use]:
    """For every parameter of a constructor or function what is done with it; {} if the source cannot be read."""
    return _uses(thing, 0)


@functools.lru_cache(maxsize=512)
def _uses(thing: Any, depth: int) -> dict[str, Use]:
    function = _constructor(thing)
    tree = _tree(thing)
    if function is None or tree is None or depth > MOST_DEEP:
        return {}
    reader = _Reader(getattr(inspect.unwrap(function), "__globals__", {}), depth, _base_of(thing))
    reader.read(tree, getattr(function, "__name__", ""))
    return reader.found


def _constructor(thing: Any) -> Any:
    if isinstance(thing, type):
        return getattr(thing, "__init__", None)
    return thing if inspect.isfunction(thing) else None


def _base_of(thing: Any) -> Any:
    """The learner's class whose constructor super().__init__ is, or None."""
    if not isinstance(thing, type):
        return None
    own = [base for base in thing.__mro__ if "__init__" in vars(base)]
    base = own[1] if len(own) > 1 else None
    return None if base in (nn.Module, object) else base


def _tree(thing: Any) -> ast.AST | None:
    """Of a class with its own constructor or of a function; of a class without one the first that it inherits."""
    owner = thing
    if isinstance(thing, type):
        owner = next((base for base in thing.__mro__ if "__init__" in vars(base)), thing)
        if owner is nn.Module or owner is object:
            return None
    return tree_of(owner)


class _Reader(ast.NodeVisitor):
    """Collects into `found`. names: of variables -> the parameter that they hold; self.x too, as "self.x"."""

    def __init__(self, namespace: Mapping[str, Any], depth: int, base: Any = None) -> None:
        """base: the class that super() is."""
        self.namespace, self.depth, self.base = namespace, depth, base
        self.found: dict[str, Use] = {}
        self.names: dict[str, str] = {}
        self.tables: dict[str, ast.expr] = {}
        """Dictionaries that are written out."""
        self.positions: list[ast.AST] = []
        """Calls of range that count no layers."""
        self.is_constructor = False

    def read(self, tree: ast.AST, name: str) -> None:
        functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        first = next((function for function in functions if function.name == name), None)
        if first is None:
            return
        arguments = first.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if one.arg != "self":
                self.found[one.arg] = Use()
                self.names[one.arg] = one.arg
        if arguments.kwarg is not None:
            self.found[f"**{arguments.kwarg.arg}"] = Use()
            self.names[arguments.kwarg.arg] = f"**{arguments.kwarg.arg}"
        self.is_constructor = True
        self.visit(first)
        self.is_constructor = False
        own = {name: held for name, held in self.names.items() if name.startswith("self.")}
        for function in functions:
            if function is not first:  # self.config.n_head in forward
                self.names = dict(own)
                self.visit(function)

    def held(self, node: ast.AST | None) -> str | None:
        """The parameter that an expression is."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if is_of_self(node):
            return self.names.get(f"self.{node.attr}")
        return None

    def use(self, node: ast.AST | None) -> Use | None:
        name = self.held(node)
        return self.found.get(name) if name else None

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Dict):
            self.tables |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
        if any(isinstance(target, ast.Tuple) and len(target.elts) == 2 for target in node.targets):
            self._paired(node.value)
        if self.is_constructor:
            self._taken_apart(node)
        held = self.held(node.value), [self.held(part) for part in getattr(node.value, "elts", ())]
        self.generic_visit(node)
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            return  # if it is given one: self.dropout = dropout; else: self.dropout = None
        for target in node.targets:
            if isinstance(target, ast.Tuple) and len(target.elts) == len(held[1]):
                for part, one in zip(target.elts, held[1], strict=True):
                    self._named(part, one)
            else:
                self._named(target, held[0])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:  # self.rope: nn.Module = rope
            self.visit_Assign(ast.Assign([node.target], node.value))

    def _taken_apart(self, node: ast.Assign) -> None:
        """The names of a parameter's entries: self.max_len = shape[1]; B, T, E = shape."""
        for target in node.targets:
            self._placed(node.value, _name_of(target))
            use = self.use(node.value) if isinstance(target, (ast.Tuple, ast.List)) else None
            if use is not None and not any(isinstance(part, ast.Starred) for part in target.elts):  # type: ignore[attr-defined]
                use.placed({place: [_name_of(part)] for place, part in enumerate(target.elts)})  # type: ignore[attr-defined]

    def _placed(self, node: ast.expr, name: str) -> None:
        """An entry of a parameter goes by this name, if an expression is one."""
        use = self.use(node.value) if isinstance(node, ast.Subscript) else None
        place = _number(node.slice) if isinstance(node, ast.Subscript) else None
        if use is not None and place is not None:
            use.placed({place: [name]})

    def _named(self, target: ast.expr, held: str | None) -> None:
        """A variable, or an attribute, is what a parameter holds, or something else."""
        if isinstance(target, ast.Name) and held:
            self.names[target.id] = held
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            attribute = f"{target.value.id}.{target.attr}"
            self.names.pop(attribute, None)  # self.dropout = dropout, and then nn.Dropout(self.dropout)
            self.names |= {attribute: held} if held else {}
            if held in self.found and self.is_constructor:
                self.found[held].kept = target.attr

    def visit_Attribute(self, node: ast.Attribute) -> None:
        use = self.use(node.value)
        if use is not None:
            use.attributes |= {node.attr}.difference(OF_DICTIONARIES, OF_TEXTS)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        looked_up = self.use(_spelled(node.slice))
        if looked_up is not None:
            looked_up.compared += self._words(node.value)
        if isinstance(node.slice, ast.Constant) and node.slice.value == 0:
            self._paired(node.value)
        use = self.use(node.value)
        if use is not None and not isinstance(node.ctx, ast.Store):  # kwargs["heads"] = 4 asks for nothing
            if is_text(node.slice):
                use.keys.add(node.slice.value)
            else:
                use.listed = True
                place = _number(node.slice)
                use.placed({place: []} if self.is_constructor and place is not None else {})
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            self._meant(node.left, "d_model")
            self._meant(node.right, "num_heads")
        if isinstance(node.op, ast.Pow):
            self._raised(node.left, node.right)
        self.generic_visit(node)

    def _raised(self, base: ast.AST, exponent: ast.AST) -> None:
        """base ** (i / d_model): what is raised to a fraction of variables is the base of positions."""
        is_divided = any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div) for part in ast.walk(exponent))
        if is_divided and any(isinstance(part, (ast.Name, ast.Attribute)) for part in ast.walk(exponent)):
            self._meant(base, "rope_base")

    def visit_Compare(self, node: ast.Compare) -> None:
        use = self.use(_spelled(node.left))
        if use is not None:
            values = [part for other in node.comparators for part in getattr(other, "elts", [other])]
            use.compared += [part.value for part in values if isinstance(part, ast.Constant) and part.value is not None]
            use.compared += [word for part in values for word in self._words(part)]
        elif isinstance(node.ops[0], (ast.Eq, ast.NotEq)) and not self.is_constructor:
            self._meant(node.comparators[0], "pad")  # ids != self.blank
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._gone_through(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._gone_through(node.iter)
        self.generic_visit(node)

    def _gone_through(self, node: ast.expr) -> None:
        use = self.use(node)
        if use is not None:
            use.listed = True

    def _paired(self, node: ast.expr) -> None:
        use = self.use(node.func) if isinstance(node, ast.Call) else None
        if use is not None:
            use.paired = True

    def _meant(self, node: ast.AST, setting: str) -> None:
        use = self.use(node)
        if use is not None:
            use.meant.append(setting)

    def visit_Call(self, node: ast.Call) -> None:
        called = self.use(node.func)
        if called is not None and isinstance(node.func, ast.Name):
            called.called = True
        elif called is not None:
            called.applied = True
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop") and node.args:
            use, key = self.use(node.func.value), node.args[0]
            looked_up = self.use(_spelled(key))
            if looked_up is not None:
                looked_up.compared += self._words(node.func.value)
            if use is not None and isinstance(key, ast.Constant):
                use.keys.add(str(key.value))
                use.optional |= {str(key.value)} if len(node.args) > 1 else set()
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in ("pow", "power") and len(node.args) == 2:
            self._raised(*node.args)
        if name in TENSORS and node.args:
            self.positions += nodes_in(node.args[0], ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            use, cls = self.use(node.args[0]), self._value(node.args[-1])
            if use is not None and is_module_class(cls):
                use.checked = cls
        if isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
            use = self.use(node.args[0])
            if use is not None:
                use.measured = True
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            for one in node.args:
                self._meant(one, "max_len" if node in self.positions else "num_layers")
        else:
            self._handed_on(node)
        self.generic_visit(node)

    def _handed_on(self, node: ast.Call) -> None:
        """To a class of torch or of the learner's: what its parameter of this place means."""
        callee = self.base if ast.unparse(node.func).startswith("super(") else self._value(node.func)
        use = self.use(node.args[0]) if node.args and callee in LISTS else None
        if use is not None:
            use.listed = True
        if not isinstance(callee, type) and not inspect.isfunction(callee):
            return
        try:
            parameters = inspect.signature(callee).parameters
        except (TypeError, ValueError):
            return
        names = [n for n in parameters if n != "self"]
        given = {**dict(zip(names, node.args, strict=False)), **{k.arg: k.value for k in node.keywords if k.arg}}
        is_torch = (getattr(callee, "__module__", "") or "").startswith("torch")
        others = {} if is_torch else _uses(callee, self.depth + 1)
        for name, value in given.items():
            if self.is_constructor:
                self._placed(value, name)
            use = self.use(value)
            if use is not None:
                use.meant += settings_of(name)
                if name in others:
                    use.handed.add(name)
                    use.flags += _flag(parameters[name])
                    use.add(others[name])

    def _words(self, node: ast.expr) -> list[str]:
        """The texts in a dictionary or list: {"relu": nn.ReLU}, ACTIVATIONS, list(ACTIVATIONS.keys())."""
        while isinstance(node, ast.Call):  # of .keys(), list()
            node = next(
                iter(node.args), node.func.value if isinstance(node.func, ast.Attribute) else ast.Constant(None)
            )
        if isinstance(node, ast.Name) and node.id in self.tables:
            node = self.tables[node.id]
        if isinstance(node, ast.Dict):
            return [key.value for key in node.keys if is_text(key)]
        value = self._value(node)
        is_table = isinstance(value, (Mapping, list, tuple, set))
        return [word for word in value if isinstance(word, str)] if is_table else []

    def _value(self, node: ast.expr) -> Any:
        """The class or function that an expression names."""
        if isinstance(node, ast.Name):
            return self.namespace.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return getattr(owner, node.attr, None) if inspect.ismodule(owner) else None
        return None


def _flag(parameter: inspect.Parameter) -> list[bool]:
    """What it is by default, of a parameter that is True or False; False where it must be given; [] of any other."""
    if parameter.default is parameter.empty:
        return [False] if parameter.annotation in (bool, "bool") else []
    return [parameter.default] if isinstance(parameter.default, bool) else []


def _name_of(target: ast.expr) -> str:
    """Of a variable or an attribute; "" for anything else."""
    return str(getattr(target, "id", getattr(target, "attr", "")))


def _spelled(node: ast.expr) -> ast.expr:
    """The word whose other spelling an expression is: kind, of kind.strip().lower()."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OF_TEXTS:
        node = node.func.value
    return node


def _number(node: ast.expr) -> int | None:
    """What is written as a whole number, also below 0."""
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return sign * value.value if isinstance(value, ast.Constant) and type(value.value) is int else None
