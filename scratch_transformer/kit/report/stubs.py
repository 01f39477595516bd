"""Ready-made adapters to fill in, for what cannot be built or called by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.recipe import RIGHT


def stub(kind: Kind, name: str, module: str) -> str:
    """Python for adapters.py: a function of the kind's name, with every shape that it gets and must return."""
    reference = kind.build(kind.defaults, RIGHT.with_(kind.full))
    weights = [f"    #   weights[{key!r}]: {tuple(values.shape)}" for key, values in reference.state_dict().items()]
    inputs = [f"    #   {key}: {_shape(value)}" for key, value in kind.probes(kind.defaults, 0)[0].inputs.items()]
    settings = ", ".join(f"{key}={value}" for key, value in kind.defaults.items())
    lines = [
        f"def {kind.name}(weights, {', '.join(kind.inputs)}):",
        f'    """{kind.what} Built with {settings}."""' if settings else f'    """{kind.what}"""',
        f"    from {module} import {name}",
        "",
        *(
            ["    # Build it, copy these weights into it (float64; torch.nn.Linear's way round, (out, in)):", *weights]
            if weights
            else []
        ),
        "    # and call it with these (masks: True = may attend; None = no mask):",
        *inputs,
        f'    raise NotImplementedError("fill in: return what {name} makes of it")',
    ]
    return "\n".join(lines) + "\n"


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, Mapping):
        return "a dictionary"
    return "a function" if callable(value) else repr(value)
