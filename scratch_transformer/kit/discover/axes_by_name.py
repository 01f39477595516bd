"""einops and einx in torch's operations: what their patterns, in which axes have names, say."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

REDUCTIONS = {"mean": "mean", "sum": "sum", "max": "amax", "min": "amin", "prod": "prod"}
BY_NUMBER = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "true_divide": "truediv", "equal": "eq",
    "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}  # fmt: skip
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
Groups = list[list[str]]
"""The axes of one side of a pattern: "b (h d)" is [["b"], ["h", "d"]]."""


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
    for side in (left, right):
        if ["..."] in side:
            at = side.index(["..."])
            side[at : at + 1] = [[dot] for dot in dots]
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


def layer(function: Callable[..., Any], arguments: int) -> type:
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


def _axes(form: str) -> list[str]:
    return re.findall(r"[^\s()\[\]]+", form)


def _written_out(pattern: str, *tensors: Any) -> str:
    """The pattern with names for the axes that "..." stands for."""
    forms = pattern.partition("->")[0].split(",")
    hidden = [
        tensor.dim() - len(re.sub(r"\([^()]*\)", "()", _bare(form)).split()) + 1
        for form, tensor in zip(forms, tensors, strict=True)
        if "..." in form
    ]
    return pattern.replace("...", " ".join(f"dots{i}" for i in range(max(hidden, default=0))))


def _over(function: str, keeps: bool) -> Callable[..., Any]:
    """einx.mean("b t [e]", x), einx.mean("b t e -> b t 1", x) and einx.softmax("b t [e]", x): over some of the axes."""

    def applied(pattern: str, x: Any, keepdims: bool = False, **sizes: Any) -> Any:
        left, arrow, right = _written_out(pattern, x).partition("->")
        worked = [axis for part in re.findall(r"\[[^\]]*\]", left) for axis in _axes(part)]
        worked = worked or [axis for axis in _axes(left) if arrow and axis not in _axes(right)]
        if not arrow:
            right = _bare(left) if keeps else re.sub(r"\[[^\]]*\]", "1" if keepdims else "", left)
        axes = _axes(left)
        x = rearrange(x, f"{_bare(left)} -> {' '.join(axes)}", **sizes)
        places = [axes.index(axis) for axis in worked]
        x = getattr(x, function)(places[0] if keeps else places)
        return rearrange(x, f"{' '.join(a for a in axes if keeps or a not in worked)} -> {right}", **sizes)

    return applied


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    """einx.add("b t e, e -> b t e", x, y): number by number, after axes of length 1 where a tensor has none."""

    def applied(pattern: str, *tensors: Any, **sizes: Any) -> Any:
        left, arrow, right = _written_out(_bare(pattern), *tensors).partition("->")
        forms = left.split(",")
        axes = _axes(right if arrow else max(forms, key=lambda form: len(_axes(form))))
        for form, x in zip(forms, tensors, strict=True):
            groups = re.findall(r"\([^)]*\)|\S+", form)
            sizes |= {
                axis: int(size)
                for axis, size in zip(groups, x.shape if groups else (), strict=True)
                if axis.isidentifier()
            }
        spread = [
            rearrange(x, f"{form} -> {' '.join(a if a in _axes(form) else '1' for a in axes)}", **sizes)
            if form.strip()
            else x
            for form, x in zip(forms, tensors, strict=True)
        ]
        result = function(*spread)
        return rearrange(result, f"{' '.join(axes)} -> {right}", **sizes) if "(" in right else result

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
    """einx.get_at("c [pos] half, ... -> c ... half", table, positions): what stands at these places of one axis.

    "... [vocabulary], ... -> ...": one place for each of the others.
    """
    first, _, rest = pattern.partition(",")
    of_indices, _, output = rest.partition("->")
    names, places = first.split(), of_indices.split()
    bracketed = [i for i, name in enumerate(names) if name.startswith("[")]
    if bracketed == [len(places)] and names[:-1] == places == output.split():
        return tensor.gather(-1, indices[..., None])[..., 0]
    if len(bracketed) != 1 or set(names) & set(places) or ("..." in names) or not output:
        raise ValueError(f"{pattern!r} asks for places in a way that is not known here")
    chosen = tensor.movedim(bracketed[0], 0)[indices]
    return rearrange(chosen, f"{' '.join([*places, *(n for n in names if not n.startswith('['))])} -> {output}")


def einx() -> dict[str, Any]:
    """What a module `einx` holds."""
    import torch

    over = {name: name for name in ("mean", "sum", "var", "std", "logsumexp")} | {"max": "amax", "min": "amin"}
    each = {name: getattr(operator, of) for name, of in BY_NUMBER.items()}
    each |= {name: getattr(torch, name) for name in ("maximum", "minimum", "logical_and", "logical_or", "where")}
    return {
        "get_at": get_at,
        "dot": lambda pattern, *tensors, **sizes: einsum(_bare(pattern), *tensors),
        **dict.fromkeys(("rearrange", "id"), _joined),
        **{name: _over(of, False) for name, of in over.items()},
        **{name: _over(name, True) for name in ("softmax", "log_softmax")},
        **{name: _each(function) for name, function in each.items()},
    }
