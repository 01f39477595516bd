"""What the kernels refuse, and why; the arguments as they get them. Needs neither Triton nor a GPU."""

import importlib.util
import re

import pytest
import torch

from scratch_transformer import attention
from scratch_transformer.attention import hopper_flash
from scratch_transformer.attention.gpu import call

unsupported_machine = hopper_flash._unsupported_machine


@pytest.fixture(autouse=True)
def a_gpu(monkeypatch):
    """As if one were there."""
    monkeypatch.setattr(call, "TRITON_VERSION", "3.6.0")
    monkeypatch.setattr(call, "INTERPRETED", True)
    monkeypatch.setattr(hopper_flash, "_unsupported_machine", lambda device: None)


def qkv(dtype=torch.float32, shape=(2, 4, 5, 16), width=16):
    return torch.zeros(shape, dtype=dtype), torch.zeros(2, 4, 7, 16, dtype=dtype), torch.zeros(2, 4, 7, width).to(dtype)


def test_what_the_kernels_take():
    assert call.unsupported(*qkv()) is None
    assert call.unsupported(*qkv(torch.bfloat16), torch.ones(5, 7, dtype=torch.bool), 0.5) is None


@pytest.mark.parametrize(
    ("given", "options", "reason"),
    [
        (qkv(torch.float64), {}, "float64"),
        (qkv(width=257), {}, r"\(16, 257\)"),
        (qkv(shape=(1, 2, 4, 5, 16)), {}, "four dimensions"),
        (qkv(), {"attn_mask": torch.zeros(5, 7, requires_grad=True)}, "gradient of attn_mask"),
        (qkv(), {"attn_mask": torch.empty(7, 5, device="meta").as_strided((5, 7), (1, 2**29))}, "2³¹ numbers"),
        (qkv(), {"dropout_p": 1.0}, "dropout_p is 1"),
    ],
)
def test_what_the_kernels_refuse(given, options, reason):
    assert re.search(reason, call.unsupported(*given, **options))


def test_without_triton_or_a_gpu(monkeypatch):
    monkeypatch.setattr(call, "INTERPRETED", False)
    assert "NVIDIA GPUs, and the tensors are on cpu" in call.unsupported(*qkv())
    monkeypatch.setattr(call, "TRITON_VERSION", "")
    assert "pip install 'scratch-transformer[triton]'" in call.unsupported(*qkv())


def test_a_triton_whose_distribution_has_another_name_is_known(monkeypatch, tmp_path):
    """pytorch-triton-rocm, for instance, and triton-windows; importlib.metadata knows no triton then."""
    (tmp_path / "__init__.py").write_text("""\"\"\"isort:skip_file\"\"\"\n__version__ = '3.6.1'\n""")
    spec = importlib.util.spec_from_file_location("triton", tmp_path / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert call.triton_version() == "3.6.1"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert call.triton_version() == ""


def test_what_the_hopper_kernels_refuse():
    x = torch.zeros(2, 4, 5, 64, dtype=torch.bfloat16)
    assert hopper_flash.unsupported(x, x, x) is None
    assert "float32" in hopper_flash.unsupported(*[x.float()] * 3)
    assert "32" in hopper_flash.unsupported(*[x[..., :32]] * 3)
    assert "no mask" in hopper_flash.unsupported(x, x, x, torch.ones(5, 5, dtype=torch.bool))
    assert "no dropout" in hopper_flash.unsupported(x, x, x, None, 0.1)
    assert "nothing" in hopper_flash.unsupported(x[:0], x[:0], x[:0])


@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.5.1", "3.8.0"])
def test_releases_of_triton_that_the_hopper_kernels_are_compiled_with(version, monkeypatch):
    monkeypatch.setattr(call, "capability", lambda device: (9, 0))
    monkeypatch.setattr(call, "TRITON_VERSION", version)
    said = unsupported_machine(torch.device("cuda"))
    assert said == {
        "3.5.1": "the kernels are written for Triton 3.6.x and 3.7.x, and 3.5.1 is installed",
        "3.8.0": "the kernels are written for Triton 3.6.x and 3.7.x, and 3.8.0 is installed",
    }.get(version)


@pytest.mark.parametrize(
    ("arguments", "falls_back"),
    [
        ((5, 7, False), False),
        ((5, 5, True), False),
        ((5, 5, True, True), False),
        ((5, 7, True), True),
        ((5, 7, True, True), True),
        ((5, 5, True, False, (2, None)), True),
        ((5, 5, False, False, (None, 2)), True),
    ],
)
def test_when_the_hopper_kernels_hand_on(arguments, falls_back):
    assert (hopper_flash.falls_back(*arguments) is not None) == falls_back


def test_handing_on_is_explained():
    x = torch.zeros(2, 4, 5, 64, dtype=torch.bfloat16)
    assert attention.explain(x, x, x, is_causal=True, algorithm="hopper").splitlines()[0] == "hopper: asked for"
    first, *_ = attention.explain(x, x, x, window=(2, 0), algorithm="hopper").splitlines()
    assert first.startswith("hopper: asked for; hands this call to triton: the kernels have no window")


def test_broadcast_and_a_scale_that_is_not_positive():
    query, key, value = torch.randn(5, 16), torch.randn(3, 7, 16), torch.randn(2, 1, 7, 24)
    ours = call.prepare(query, key, value, torch.ones(7, dtype=torch.bool), scale=-0.5)
    assert (ours.query.shape, ours.key.shape, ours.value.shape) == ((2, 3, 5, 16), (2, 3, 7, 16), (2, 3, 7, 24))
    assert ours.mask.shape == (2, 3, 5, 7)
    assert (ours.scale, ours.lower, ours.upper) == (1.0, None, None)
    assert torch.equal(ours.query[1, 2], query * -0.5)
