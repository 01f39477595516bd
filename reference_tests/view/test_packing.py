"""Tensors as text, and back."""

import base64
import zlib

import numpy as np
import pytest
import torch

from scratch_transformer.view import packing


def unpacked(packed, beside=None):
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["deflated"])), np.uint8).reshape(packed["width"], -1)
    if beside is not None:
        planes = planes ^ np.frombuffer(zlib.decompress(base64.b64decode(beside["deflated"])), np.uint8).reshape(
            planes.shape
        )
    numbers = np.ascontiguousarray(planes.T).view({2: "<f2", 4: "<f4", 8: "<f8"}[packed["width"]]).ravel()
    found, at = {}, 0
    for name, shape in packed["tensors"]:
        size = int(np.prod(shape))
        found[name] = torch.tensor(numbers[at : at + size].reshape(shape))
        at += size
    assert at == len(numbers)
    return found


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_every_bit_survives(dtype):
    tensors = {"a": torch.randn(3, 5), "b": torch.tensor([float("-inf"), 1e-300, -0.0]), "c": torch.randn(2, 1, 4)}
    tensors = {name: x.to(dtype) for name, x in tensors.items()}
    found = unpacked(packing.pack(tensors, dtype))
    assert list(found) == ["a", "b", "c"]
    for name, x in tensors.items():
        assert torch.equal(found[name], x) and found[name].dtype == dtype
        assert torch.equal(found[name].signbit(), x.signbit())


def test_bits_beside_others():
    first = {"a": torch.randn(50, 9, dtype=torch.float64), "b": torch.randn(4, dtype=torch.float64)}
    second = {name: x * (1 + 1e-15) for name, x in first.items()}
    packed, beside = packing.pack(second, torch.float64, beside=first), packing.pack(first, torch.float64)
    assert len(packed["deflated"]) < len(beside["deflated"]) / 5
    assert all(torch.equal(x, second[name]) for name, x in unpacked(packed, beside).items())


def test_half_precision_only_where_nothing_is_lost():
    assert packing.smallest({"a": torch.randn(7).half().float()}) == torch.float16
    assert packing.smallest({"a": torch.zeros(2), "b": torch.tensor([1 + 2**-12])}) == torch.float32
    assert packing.smallest({"a": torch.tensor([1e6])}) == torch.float32
