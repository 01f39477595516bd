"""Where a verification ran: what somebody else needs to know to get the same numbers."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy
import torch

from scratch_transformer import __version__

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
"""The release whose builtins are compared with, for what differs from one to the next."""
LOW_PRECISION = ("avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16", "bf16", "asimdhp")


def environment(device: str = "cpu") -> dict[str, str]:
    """Versions and hardware, by name."""
    return {
        "scratch_transformer": __version__,
        "torch": torch.__version__,
        "Python": platform.python_version(),
        "NumPy": numpy.__version__,
        "platform": platform.platform(),
        "processor": _processor(),
        "instructions": _instructions(),
        "device": _device(device),
    }


def _device(device: str) -> str:
    if torch.device(device).type != "cuda":
        return device
    return f"{device} ({torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda})"


def _processor() -> str:
    """The processor's name; Python alone says `x86_64` or nothing on Linux."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _instructions() -> str:
    """What decides how fast it multiplies: PyTorch's word for it, and what it has for low precision."""
    flags = _cpuinfo("flags").split()
    return ", ".join([torch.backends.cpu.get_cpu_capability(), *(flag for flag in LOW_PRECISION if flag in flags)])


def _cpuinfo(name: str) -> str:
    """What Linux says of its first processor under this name, or nothing."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")
