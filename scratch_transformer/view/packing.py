"""Tensors as text: what a page can hold, and JavaScript unpacks into typed arrays."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def pack(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Any]:
    """Names and shapes in order, and all numbers in one string: little-endian, deflated, in base64.

    The first bytes of all numbers come first, then the second ones, and so on: that deflates better, since numbers of
    one size have the same exponent.
    """
    names = [[name, list(values.shape)] for name, values in tensors.items()]
    flat = [values.detach().cpu().to(dtype).flatten() for values in tensors.values()]
    numbers = torch.cat(flat).numpy() if flat else np.zeros(0)
    width = numbers.dtype.itemsize
    planes = numbers.astype(numbers.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, width).T
    deflated = zlib.compress(np.ascontiguousarray(planes).tobytes(), level=9)
    return {"tensors": names, "width": width, "deflated": base64.b64encode(deflated).decode()}


def smallest(tensors: Mapping[str, Tensor]) -> torch.dtype:
    """float16 if it holds these float32 numbers exactly, else float32."""
    exact = all(torch.equal(values.half().float(), values) for values in tensors.values())
    return torch.float16 if exact else torch.float32
