"""Runs the demonstration of a mistake."""

from __future__ import annotations

import contextlib
import io
import warnings

import torch

from scratch_transformer.kit.kind import Mistake


def demonstrate(mistake: Mistake) -> str:
    """What the demonstration prints. Torch's random numbers are afterwards as they were."""
    printed = io.StringIO()
    with torch.random.fork_rng(devices=()), contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's about its fast paths
        exec(compile(mistake.demo, f"<{mistake.id}>", "exec"), {"__name__": mistake.id})
    return printed.getvalue()
