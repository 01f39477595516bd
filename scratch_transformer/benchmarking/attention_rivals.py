"""Who competes in attention: every algorithm of ours, every backend of PyTorch's function, and FlexAttention.

Each is forced. One that cannot do a case says why, and nobody steps in for it silently.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from scratch_transformer import attention
from scratch_transformer.attention.algorithms import hands_on
from scratch_transformer.benchmarking import masking
from scratch_transformer.benchmarking.case import Rival, Unsupported
from scratch_transformer.benchmarking.problem import Inputs, Problem

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Switches = Callable[[], AbstractContextManager[Any]]

BACKENDS = {
    "torch flash": SDPBackend.FLASH_ATTENTION,
    "torch efficient": SDPBackend.EFFICIENT_ATTENTION,
    "torch cudnn": SDPBackend.CUDNN_ATTENTION,
    "torch math": SDPBackend.MATH,
}
ON_CPU = ("torch flash", "torch math")
"""What PyTorch has for the CPU."""

FLEX = "torch flex"


def rivals(device: str) -> list[Rival]:
    """All that may compete on a device, ours first; `auto` is what a user gets who forces nothing."""
    ours = [Rival(f"ours {name}", is_ours=True) for name in ("auto", *attention.ALGORITHMS)]
    backends = BACKENDS if torch.device(device).type == "cuda" else ON_CPU
    return ours + [Rival(name, is_ours=False) for name in backends] + [Rival(FLEX, is_ours=False, compiles=True)]


def ready(rival: Rival, case: Problem, inputs: Inputs) -> tuple[Attend, Switches]:
    """The rival's function of query, key and value, and the switches that it needs.

    Raises:
        Unsupported: it is known beforehand that it does not do this case. Others say so when they are called.
    """
    if rival.is_ours:
        return _ours(rival.name.removeprefix("ours "), case, inputs), contextlib.nullcontext
    if rival.name == FLEX:
        return _flex(case, inputs), contextlib.nullcontext
    attend = functools.partial(torch_attention, **_options(case, inputs))
    return attend, functools.partial(sdpa_kernel, BACKENDS[rival.name])


def _options(case: Problem, inputs: Inputs) -> dict[str, Any]:
    return {
        "attn_mask": inputs.attn_mask,
        "dropout_p": case.dropout_p,
        "is_causal": case.is_causal,
        "enable_gqa": case.groups != case.H,
    }


def _ours(algorithm: str, case: Problem, inputs: Inputs) -> Attend:
    """A window is an argument of ours, and for all others a mask."""
    options = _options(case, inputs) | {"algorithm": algorithm}
    if case.variant == "window":
        options |= {"attn_mask": None, "window": (masking.WINDOW - 1, 0)}
    if algorithm != "auto":
        asked = inputs.query, inputs.key, inputs.value, options["attn_mask"], case.dropout_p
        window = options.get("window", (None, None))
        reason = attention.ALGORITHMS[algorithm].unsupported(*asked) or hands_on(
            algorithm, inputs.query, inputs.key, case.is_causal, False, window
        )
        if reason:
            raise Unsupported(reason)
    return functools.partial(attention.scaled_dot_product_attention, **options)


def _flex(case: Problem, inputs: Inputs) -> Attend:
    """FlexAttention, compiled for exactly these shapes. It has no dropout, and on the CPU no backward."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if case.dropout_p:
        raise Unsupported("has no dropout")
    device = inputs.query.device
    if device.type == "cpu" and shutil.which(os.environ.get("CXX", "c++")) is None:
        raise Unsupported("needs a C++ compiler, and there is none")
    rule = masking.rule(case, inputs.attn_mask)
    batch = case.B if case.variant == "padding" else None
    block_mask = rule and create_block_mask(rule, batch, None, case.T, case.keys, device=str(device))
    compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    return functools.partial(compiled, block_mask=block_mask, enable_gqa=case.groups != case.H)
