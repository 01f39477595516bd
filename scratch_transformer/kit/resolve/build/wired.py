"""Sizes that are written into code, whatever its constructor is told: nn.LayerNorm(512). An error tells them."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

MOST = 4096
HEADS = (8, 6, 4, 2)
PAIRS = (
    re.compile(r"normalized_shape=\[(?P<theirs>\d+)\].*?but got input of size\s*\[(?:\d+, )*(?P<ours>\d+)\]"),
    re.compile(r"mat1 and mat2 shapes cannot be multiplied \(\d+x(?P<ours>\d+) and (?P<theirs>\d+)x\d+\)"),
    re.compile(r"expecting embedding dimension of (?P<theirs>\d+), but got (?P<ours>\d+)"),
    re.compile(r"size of tensor a \((?P<ours>\d+)\) must match the size of tensor b \((?P<theirs>\d+)\)"),
    re.compile(r"size of tensor a \((?P<theirs>\d+)\) must match the size of tensor b \((?P<ours>\d+)\)"),
)
"""What was given, and what the code wants."""
REFUSED = re.compile(r"num_heads must divide d_model, but d_model=\d+ and num_heads=(\d+)")
MULTIPLE = re.compile(r"(\w+)\s*%\s*(\d+)\s*==\s*0")
SIZES = ("d_model", "d_ff", "d_k")


def settings(error: BaseException | None, tried: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings that were tried with the size that the error asks for; None if it tells none."""
    for name, size in _asked(error, tried):
        found = {**tried, name: size}
        if name == "d_k":
            found = {**tried, "d_model": size * tried["num_heads"]}
        width, heads = found.get("d_model"), found.get("num_heads")
        if width and heads and heads != 1 and width % heads:
            found["num_heads"] = next((h for h in HEADS if width % h == 0), 1)
        if found != tried:
            return found
    return None


def _asked(error: BaseException | None, tried: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """A setting's name, and the size that it must have."""
    text = " ".join(str(error).split())
    refused = REFUSED.search(text)
    if refused and "d_model" in tried:
        yield "d_model", 6 * int(refused[1])
    if isinstance(error, AssertionError) and (multiple := MULTIPLE.search(_line_of(error))) and "d_model" in tried:
        yield "d_model", int(multiple[2])
    if not isinstance(error, (RuntimeError, AssertionError)):
        return
    sizes = {name: tried[name] for name in SIZES if isinstance(tried.get(name), int)}
    if "d_k" not in sizes and tried.get("d_model") and tried.get("num_heads"):
        sizes["d_k"] = tried["d_model"] // tried["num_heads"]
    for pair in PAIRS:
        for found in pair.finditer(text):
            ours, theirs = int(found["ours"]), int(found["theirs"])
            if 1 < theirs <= MOST and theirs % 2 == 0 and theirs not in tried.values():
                yield from ((name, theirs) for name, size in sizes.items() if size == ours)


def _line_of(error: BaseException) -> str:
    """The learner's line that refused it."""
    frames = traceback.extract_tb(error.__traceback__)
    return (frames[-1].line or "") if frames else ""
