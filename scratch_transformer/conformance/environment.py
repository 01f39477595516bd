"""Where a verification ran: what somebody else needs to know to get the same numbers."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy
import torch

from scratch_transformer import __version__


def environment(device: str = "cpu") -> dict[str, str]:
    """Versions and hardware, by name."""
    return {
        "scratch_transformer": __version__,
        "torch": torch.__version__,
        "Python": platform.python_version(),
        "NumPy": numpy.__version__,
        "platform": platform.platform(),
        "processor": _processor(),
        "device": _device(device),
    }


def _device(device: str) -> str:
    if torch.device(device).type != "cuda":
        return device
    return f"{device} ({torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda})"


def _processor() -> str:
    """The processor's name; Python alone says `x86_64` or nothing on Linux."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
