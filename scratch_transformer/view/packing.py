"""Tensors as text: what a page can hold, and JavaScript unpacks into typed arrays."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def pack(
    tensors: Mapping[str, Tensor], dtype: torch.dtype, beside: Mapping[str, Tensor] | None = None
) -> dict[str, Any]:
    """Names and shapes in order, and all numbers in one string: little-endian, deflated, in base64.

    The first bytes of all numbers come first, then the second ones, and so on: that deflates better, since numbers of
    one size have the same exponent. beside: tensors of the same names and shapes that are almost equal; only the bits
    that differ from theirs are packed.
    """
    planes = _bytes(tensors, dtype)
    if beside is not None:
        planes = planes ^ _bytes({name: beside[name] for name in tensors}, dtype)
    deflated = zlib.compress(np.ascontiguousarray(planes).tobytes(), level=9)
    names = [[name, list(values.shape)] for name, values in tensors.items()]
    return {"tensors": names, "width": len(planes), "deflated": base64.b64encode(deflated).decode()}


def _bytes(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> Any:
    """(bytes of a number, numbers)."""
    numbers = torch.cat([values.detach().cpu().to(dtype).flatten() for values in tensors.values()]).numpy()
    return numbers.astype(numbers.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, numbers.dtype.itemsize).T


def smallest(tensors: Mapping[str, Tensor]) -> torch.dtype:
    """float16 if it holds these float32 numbers exactly, else float32."""
    exact = all(torch.equal(values.half().float(), values) for values in tensors.values())
    return torch.float16 if exact else torch.float32
