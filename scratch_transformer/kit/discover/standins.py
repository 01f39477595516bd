"""Small packages that models are written with, in place of absent ones: einops computes, jaxtyping only describes.

For the child process only, and only where the package itself is not installed.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from scratch_transformer.kit.discover import hyperparameters
from scratch_transformer.kit.discover.silent import SILENT, contents, tqdm, without_profiler

REDUCTIONS = {"mean": "mean", "sum": "sum", "max": "amax", "min": "amin", "prod": "prod"}
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
Groups = list[list[str]]
"""The axes of one side of a pattern: "b (h d)" is [["b"], ["h", "d"]]."""

# ---- einops ----


def transformed(x: Any, pattern: str, reduction: str, sizes: dict[str, int]) -> Any:
    """x with its axes split, moved, joined, repeated or reduced as a pattern says: "b t (h d) -> b h t d", h=8."""
    import torch

    x = torch.stack(list(x)) if isinstance(x, (list, tuple)) else x
    left, right = _sides(pattern, x.dim())
    if len(left) != x.dim():
        raise ValueError(f"{pattern!r} is for a tensor of {len(left)} dimensions, this one has {x.dim()}")
    sizes = {**{number: int(number) for number in re.findall(r"\b\d+\b", pattern)}, **sizes}
    for group, size in zip(left, x.shape, strict=True):
        sizes |= _measured(group, int(size), sizes, pattern)
    names, wanted = ([name for group in side for name in group if name != "1"] for side in (left, right))
    x = x.reshape([sizes[name] for name in names])
    for name in [name for name in names if name not in wanted]:
        x = _reduced(x, names.index(name), reduction, pattern)
        names.remove(name)
    x = x.permute([names.index(name) for name in wanted if name in names])
    for place, name in enumerate(wanted):
        x = x if name in names else x.unsqueeze(place)
    x = x.expand([sizes[name] for name in wanted])
    return x.reshape([_product(group, sizes) for group in right])


def _sides(pattern: str, dimensions: int) -> tuple[Groups, Groups]:
    first, arrow, second = pattern.partition("->")
    if not arrow:
        raise ValueError(f"{pattern!r} has no ->")
    left, right = (
        [(inside or alone).split() for inside, alone in re.findall(r"\(([^)]*)\)|([^\s()]+)", side)]
        for side in (first, second)
    )
    dots = [f"dots{number}" for number in range(dimensions - len(left) + 1)]
    if ["..."] in left:
        at = left.index(["..."])
        left[at : at + 1] = [[dot] for dot in dots]
    if ["..."] in right:
        at = right.index(["..."])
        right[at : at + 1] = [[dot] for dot in dots]
    joined = [[name for part in group for name in (dots if part == "..." else [part])] for group in right]
    return left, joined


def _measured(group: list[str], size: int, known: dict[str, int], pattern: str) -> dict[str, int]:
    """The size of the one axis of a group that nobody gave."""
    unknown = [name for name in group if name not in known]
    given = _product([name for name in group if name in known], known)
    if len(unknown) > 1 or size % given or (not unknown and size != given):
        raise ValueError(f"{pattern!r}: {' '.join(group)} has the size {size}, which does not fit {known}")
    return dict.fromkeys(unknown, size // given)


def _product(names: Sequence[str], sizes: dict[str, int]) -> int:
    product = 1
    for name in names:
        product *= sizes[name]
    return product


def _reduced(x: Any, axis: int, reduction: str, pattern: str) -> Any:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{pattern!r} loses an axis, and does not say how")
    return getattr(x, REDUCTIONS[reduction])(axis)


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """einops.rearrange."""
    return transformed(tensor, pattern, "", axes_lengths)


def repeat(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """einops.repeat."""
    return transformed(tensor, pattern, "", axes_lengths)


def reduce(tensor: Any, pattern: str, reduction: str, **axes_lengths: int) -> Any:
    """einops.reduce."""
    return transformed(tensor, pattern, reduction, axes_lengths)


def einsum(*tensors_and_pattern: Any) -> Any:
    """einops.einsum, whose pattern is the last argument, and fancy_einsum's, whose pattern is the first."""
    import torch

    pattern = next(given for given in tensors_and_pattern if isinstance(given, str))
    tensors = [given for given in tensors_and_pattern if not isinstance(given, str)]
    letters: dict[str, str] = {}

    def shortened(part: str) -> str:
        names = part.split()
        return "".join(n if n == "..." else letters.setdefault(n, LETTERS[len(letters)]) for n in names)

    inputs, arrow, output = pattern.partition("->")
    short = ",".join(map(shortened, inputs.split(",")))
    return torch.einsum(short + (f"->{shortened(output)}" if arrow else ""), *tensors)


def parse_shape(x: Any, pattern: str) -> dict[str, int]:
    """einops.parse_shape: the sizes of the axes that have names."""
    names = pattern.split()
    if "..." in names:
        at = names.index("...")
        names[at : at + 1] = ["_"] * (len(x.shape) - len(names) + 1)
    if len(names) != len(x.shape):
        raise ValueError(f"{pattern!r} is for a tensor of {len(names)} dimensions, this one has {len(x.shape)}")
    return {name: int(size) for name, size in zip(names, x.shape, strict=True) if name != "_"}


def _layer(function: Callable[..., Any], arguments: int) -> type:
    """einops.layers.torch.Rearrange("b t e -> b e t") and Reduce."""
    import torch

    class Layer(torch.nn.Module):
        def __init__(self, *given: Any, **axes_lengths: int) -> None:
            super().__init__()
            self.given, self.axes_lengths = given[:arguments], axes_lengths

        def forward(self, x: Any) -> Any:
            return function(x, *self.given, **self.axes_lengths)

    return Layer


# ---- einx ----


def _bare(pattern: str) -> str:
    """A pattern without brackets, which say what is summed over or worked on."""
    return re.sub(r"[\[\]]", "", pattern)


def _over(function: str, keeps: bool) -> Callable[..., Any]:
    """einx.mean("b t [e]", x) and einx.softmax("b t [e]", x): of the axes in brackets."""

    def applied(pattern: str, x: Any, **options: Any) -> Any:
        axes, _, _ = pattern.partition("->")
        names = re.findall(r"\[[^\]]*\]|\S+", axes)
        places = [i - len(names) if "..." in names[:i] else i for i, name in enumerate(names) if name.startswith("[")]
        return getattr(x, function)(places[0] if keeps else tuple(places))

    return applied


def _several(function: Callable[..., Any]) -> Callable[..., Any]:
    """For rearrange("seq -> batch... seq", x, batch=[1, 1]): as many axes as sizes are given."""

    def applied(pattern: str, x: Any, **sizes: Any) -> Any:
        for name, given in [(n, s) for n, s in sizes.items() if isinstance(s, (list, tuple))]:
            parts = {f"{name}{number}": size for number, size in enumerate(given)}
            pattern = re.sub(rf"\b{name}\b(\.\.\.)?", " ".join(parts), pattern)
            sizes = {**{n: s for n, s in sizes.items() if n != name}, **parts}
        return function(x, pattern, **sizes)

    return applied


def _joined(pattern: str, *tensors: Any, **sizes: Any) -> Any:
    """einx.rearrange; rearrange("... h, ... h -> ... (h (1 + 1))", x, y) joins tensors of one form."""
    import torch

    if len(tensors) == 1:
        return _several(rearrange)(pattern, tensors[0], **sizes)
    left, _, right = pattern.partition("->")
    forms = {" ".join(form.split()) for form in left.split(",")}
    one_each = re.escape(" + ".join("1" * len(tensors)))
    if len(forms) > 1 or len(re.findall(rf"\({one_each}\)", right)) != 1:
        raise ValueError(f"{pattern!r} joins tensors in a way that is not known here")
    right = re.sub(rf"\({one_each}\)", "joined", right)
    return rearrange(torch.stack(tensors, -1), f"{forms.pop()} joined -> {right}", **sizes)


def get_at(pattern: str, tensor: Any, indices: Any) -> Any:
    """einx.get_at("c [pos] half, ... -> c ... half", table, positions): what stands at these places of one axis."""
    first, _, rest = pattern.partition(",")
    of_indices, _, output = rest.partition("->")
    names, places = first.split(), of_indices.split()
    bracketed = [i for i, name in enumerate(names) if name.startswith("[")]
    if len(bracketed) != 1 or set(names) & set(places) or ("..." in names) or not output:
        raise ValueError(f"{pattern!r} asks for places in a way that is not known here")
    chosen = tensor.movedim(bracketed[0], 0)[indices]
    return rearrange(chosen, f"{' '.join([*places, *(n for n in names if not n.startswith('['))])} -> {output}")


def _einx() -> dict[str, Any]:
    return {
        "get_at": get_at,
        "dot": lambda pattern, *tensors, **sizes: einsum(_bare(pattern), *tensors),
        "multiply": lambda pattern, *tensors, **sizes: einsum(_bare(pattern), *tensors),
        **dict.fromkeys(("rearrange", "id"), _joined),
        **{name: _over(name, False) for name in ("mean", "sum")},
        **{name: _over(of, False) for name, of in (("max", "amax"), ("min", "amin"))},
        **{name: _over(name, True) for name in ("softmax", "log_softmax")},
    }


# ---- Packages ----


class Described:
    """jaxtyping's Float[Tensor, "batch time"], which says something to people and computes nothing."""

    def __class_getitem__(cls, key: Any) -> Any:
        return key[0] if isinstance(key, tuple) else cls


def _same(function: Any = None, **options: Any) -> Any:
    """A decorator that does nothing, with and without arguments."""
    return function if callable(function) else _same


def _einops() -> dict[str, Any]:
    return {"rearrange": rearrange, "repeat": repeat, "reduce": reduce, "einsum": einsum, "parse_shape": parse_shape}


def _einops_layers() -> dict[str, Any]:
    return {"Rearrange": _layer(rearrange, 1), "Reduce": _layer(reduce, 2)}


def _jaxtyping() -> dict[str, Any]:
    types_ = ("Float", "Int", "Bool", "Num", "Shaped", "Inexact", "Integer", "UInt", "Complex", "Real", "Float32",
              "Float16", "BFloat16", "Float64", "Int64", "Int32", "Int8", "UInt8", "Key", "PyTree", "Array", "Scalar",
              "ScalarLike", "ArrayLike")  # fmt: skip
    return {**dict.fromkeys(types_, Described), "jaxtyped": lambda *_, **__: _same, "install_import_hook": _same}


def _pydantic() -> dict[str, Any]:
    """Models that hold what they are given, and check nothing."""

    class BaseModel:
        def __init_subclass__(cls, **options: Any) -> None:
            for name in inspect.get_annotations(cls):
                if isinstance(default := cls.__dict__.get(name), (list, dict, set)):
                    setattr(cls, name, dataclasses.field(default_factory=functools.partial(copy.copy, default)))
            dataclasses.dataclass(cls, kw_only=True)

        def model_dump(self, include: Any = None, exclude: Any = (), **options: Any) -> dict[str, Any]:
            values = dataclasses.asdict(self)  # type: ignore[call-overload]
            return {n: v for n, v in values.items() if (include is None or n in include) and n not in (exclude or ())}

        def model_copy(self, update: Any = None, **options: Any) -> Any:
            return dataclasses.replace(self, **(update or {}))  # type: ignore[type-var]

        dict = model_dump

    def field(default: Any = ..., *, default_factory: Any = None, **options: Any) -> Any:
        if default_factory is not None:
            return dataclasses.field(default_factory=default_factory)
        return dataclasses.field() if default is ... else dataclasses.field(default=default)

    return {
        "BaseModel": BaseModel,
        "BaseSettings": BaseModel,
        "Field": field,
        "ConfigDict": dict,
        "__path__": [],
        "dataclass": dataclasses.dataclass,
        "__getattr__": lambda name: _same,
    }


CONTENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "einops": _einops,
    "einops.layers": dict,
    "einops.layers.torch": _einops_layers,
    "fancy_einsum": lambda: {"einsum": einsum},
    "einx": _einx,
    "jaxtyping": _jaxtyping,
    "beartype": lambda: {"beartype": _same},
    **dict.fromkeys(("pydantic", "pydantic.dataclasses", "pydantic_settings"), _pydantic),
    "typeguard": lambda: {"typechecked": _same},
    **dict.fromkeys(("tqdm", "tqdm.auto", "tqdm.notebook", "tqdm.autonotebook"), tqdm),
    **hyperparameters.PACKAGES,
}


def _contents(name: str) -> Callable[[], dict[str, Any]] | None:
    """What makes the contents of a module, if there is a stand-in for it."""
    return contents if name.partition(".")[0] in SILENT else CONTENTS.get(name)


def _is_package(name: str) -> bool:
    return any(other.startswith(f"{name}.") for other in CONTENTS)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Asked last, so only for what is not installed. used: the packages that were stood in for."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if _contents(fullname) is None:
            return None
        self.used.add(fullname.partition(".")[0])
        return importlib.machinery.ModuleSpec(fullname, self, is_package=_is_package(fullname))

    def exec_module(self, module: types.ModuleType) -> None:
        make = _contents(module.__name__)
        assert make is not None
        vars(module).update(make())


_FINDER = _Finder()


def install() -> None:
    """Makes the packages importable where they are absent, and what only a GPU's profiler reads do nothing."""
    without_profiler()
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)


def used() -> list[str]:
    """The packages that were stood in for so far."""
    return sorted(_FINDER.used)
