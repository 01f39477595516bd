"""Ready-made adapters to fill in, for what cannot be built or called by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.recipe import RIGHT


def stub(kind: Kind, name: str, module: str) -> str:
    """Python for adapters.py: a function of the kind's name, with every shape that it gets and must return."""
    reference = kind.build(kind.defaults, RIGHT.with_(kind.full))
    weights = [f"    #   {line}" for line in _listed(reference.state_dict())]
    inputs = [f"    #   {key}: {_shape(value)}" for key, value in kind.probes(kind.defaults, 0)[0].inputs.items()]
    settings = ", ".join(f"{key}={value}" for key, value in kind.defaults.items())
    lines = [
        f"def {kind.name}(weights, {', '.join(kind.inputs)}):",
        f'    """{kind.what}"""',
        *([f"    # Built with {settings}."] if settings else []),
        *_imported(module, name),
        "",
        *(
            [
                "    # Build it, copy these weights into it (float64; torch.nn.Linear's way round, (out, in)),",
                "    # those that it has a place for:",
                *weights,
            ]
            if weights
            else []
        ),
        "    # and call it with these (masks: True = may attend; None = no mask):",
        *inputs,
        f'    raise NotImplementedError("fill in: return what {name} makes of it")',
    ]
    return "\n".join(lines) + "\n"


def _imported(module: str, name: str) -> list[str]:
    """How to import it, of a method its class: what no identifier is, as 02_attention, by a function."""
    name = name.partition(".")[0]
    if all(part.isidentifier() for part in module.split(".")):
        return [f"    from {module} import {name}"]
    return ["    import importlib", "", f"    {name} = importlib.import_module({module!r}).{name}"]


def _listed(weights: Mapping[str, Tensor]) -> Iterator[str]:
    """A line for each weight and its bias, and for the layers of a stack only one of each."""
    rows: dict[str, dict[str, Tensor]] = {}
    numbers: dict[str, None] = {}
    for key, values in weights.items():
        numbers.update(dict.fromkeys(LAYER.findall(key)))
        stem, _, last = LAYER.sub("N", key).rpartition(".")
        rows.setdefault(stem, {})[last] = values
    for stem, values_of in rows.items():
        (first, values), *others = values_of.items()
        dot = "." if stem else ""
        also = "".join(f", {dot + last!r}: {tuple(other.shape)}" for last, other in others)
        yield f"weights[{stem + dot + first!r}]: {tuple(values.shape)}{also}"
    if numbers:
        yield f"N: {' and '.join(numbers)}"


LAYER = re.compile(r"(?<=\.)\d+(?=\.)")


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, Mapping):
        return "a dictionary"
    return "a function" if callable(value) else repr(value)
