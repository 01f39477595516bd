"""The second opinion: one case of a component against the NumPy oracle, whose gradients are derived by hand.

Ours and the builtin share torch's tensor operations and its autograd; the oracle shares nothing with either.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scratch_transformer.conformance.compare import Equality, equality
from scratch_transformer.conformance.component import Call, Case, Component
from scratch_transformer.conformance.run import Outcome, run
from scratch_transformer.numpy_oracle import ORACLES, Result

ORACLE = 1e-10
"""Largest relative error in float64, measured as against the builtin. NumPy adds up in another order than torch."""


def compare_oracle(component: Component, case: Case, seed: int = 0, device: str = "cpu") -> Equality:
    """Run ours and the oracle with the same parameters, inputs and upstream gradients in float64.

    Compared are the outputs, changed buffers, and all gradients that the oracle derives: those of parameters and
    inputs, and of a float mask where it is the component's own (the layers and stacks take masks for constants).

    Raises:
        NotImplementedError: the oracle cannot do this case; the message says why.
    """
    ours = run(component, component.ours, case, torch.float64, seed, device)
    _refuse(component, ours)
    result = _opinion(component, case, ours)
    gradients = _gradients(result, ours.call)
    derived = {name: _on_cpu(value) for name, value in ours.gradients.items() if name in gradients}
    outputs = {name: _on_cpu(value) for name, value in ours.outputs.items()}
    return equality(outputs, _outputs(result, ours), derived, _in_order(gradients, derived), ORACLE)


def _opinion(component: Component, case: Case, ours: Outcome) -> Result:
    """What the oracle makes of our parameters, inputs and upstream gradients."""
    upstream = tuple(_array(ours.upstream.get(f"output {i}")) for i in range(2))
    return ORACLES[component.name](
        _constructor(component, case.init),
        {name: _array(value) for name, value in ours.state.items()},
        [_array(value) for value in ours.call.args],
        {name: _array(value) for name, value in ours.call.kwargs.items()},
        upstream if component.name == "MultiheadAttention" else upstream[0],
        training=case.training,
        keep_masks={"": np.zeros(ours.call.args[0].shape)},  # nothing is random here: p = 1, which keeps nothing
    )


def _refuse(component: Component, ours: Outcome) -> None:
    """What the oracle leaves out and doesn't refuse itself."""
    if component.name not in ORACLES:
        raise NotImplementedError(f"the oracle has no {component.name}")
    if ours.is_random:
        raise NotImplementedError("dropout: the oracle would have to be told what is dropped")
    masks = _causal_masks(ours.call)
    if component.is_function and masks:
        raise NotImplementedError("attn_mask and is_causal at once: for the oracle they exclude each other")
    if any(not mask.equal(torch.ones_like(mask).triu(1)) for mask in masks):
        raise NotImplementedError(
            "the is_causal hint contradicts the mask: torch believes the hint, the oracle doesn't"
        )


def _causal_masks(call: Call) -> list[Tensor]:
    """The masks that are said to be causal."""
    hints = [name for name, value in call.kwargs.items() if name.endswith("is_causal") and value]
    prefixes = {"": ("attn_", "src_", ""), "src_": ("src_",), "tgt_": ("tgt_",), "memory_": ("memory_",)}
    names = [f"{prefix}mask" for hint in hints for prefix in prefixes[hint.removesuffix("is_causal")]]
    return [call.kwargs[name] for name in names if call.kwargs.get(name) is not None]


def _constructor(component: Component, init: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor's arguments as the oracle takes them: a stack's layer and norm are dicts of arguments."""
    if component.assemble is None:
        return {name: _array(value) for name, value in init.items()}
    stack = component.build(component.ours, init)
    assert isinstance(stack, nn.Module)
    of_the_stack = inspect.signature(component.assemble).parameters
    layer = {name: value for name, value in init.items() if name not in of_the_stack}
    kind = "encoder_layer" if component.name == "TransformerEncoder" else "decoder_layer"
    norm: Any = stack.norm
    described = None if norm is None else {"normalized_shape": norm.normalized_shape, "eps": norm.eps}
    return {kind: layer, "num_layers": stack.num_layers, "norm": described}


def _outputs(result: Result, ours: Outcome) -> dict[str, Tensor]:
    parts = result.output if isinstance(result.output, tuple) else (result.output,)
    named = {f"output {i}": _tensor(part) for i, part in enumerate(parts) if part is not None}
    for name in ours.outputs.keys() - named.keys():
        named[name] = _tensor(result.buffers[name.removeprefix("state ")]).to(ours.outputs[name].dtype)
    return _in_order(named, ours.outputs)


def _gradients(result: Result, call: Call) -> dict[str, Tensor]:
    """By the names of `run`. Where one tensor is several inputs, its gradient is the sum of the oracle's parts."""
    inputs: dict[int | str, Any] = dict(enumerate(call.args))
    inputs.update(call.kwargs)
    parts = {how: _tensor(gradient) for how, gradient in result.input_gradients.items()}
    gradients = {name: _tensor(gradient) for name, gradient in result.parameter_gradients.items()}
    for how in parts:
        same = (other for name, other in parts.items() if inputs[name] is inputs[how])
        gradients[f"input {how}"] = torch.stack(list(same)).sum(0)
    return gradients


def _in_order(tensors: Mapping[str, Tensor], names: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensors[name] for name in [*names, *(tensors.keys() - names.keys())]}


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


def _tensor(value: Any) -> Tensor:
    return torch.from_numpy(np.array(value))


def _on_cpu(value: Tensor) -> Tensor:
    return value.detach().cpu()
