"""Peaks of memory: what is known to be taken is found, from inside the process and from outside."""

import re
import sys
from dataclasses import replace

import pytest
import torch

from scratch_transformer.benchmarking import memory, outside
from scratch_transformer.benchmarking.attention_case import AttentionCase
from scratch_transformer.benchmarking.case import Case, Rival, Unsupported
from scratch_transformer.benchmarking.timing import Prepared

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows reports no peak of resident memory")

MIB = 2**20
CASE = AttentionCase(1, 4, 2048, 16)
MATRIX = 4 * 4 * 2048**2
"""Bytes of one T × S matrix for every head: far more than the few MiB that libraries load their own code into."""


class Takes(Case):
    """A case whose rivals are numbers of bytes that they take, touch, and give back."""

    dtype = "float32"
    flops = bytes = tokens = 1
    name = "takes"
    facts: dict = {}

    def rivals(self, device):
        return []

    def draw(self, device):
        return None

    def prepare(self, rival, inputs):
        if not rival.name.isdigit():
            raise Unsupported("no number")

        def call():
            taken = torch.ones(int(rival.name), dtype=torch.uint8)
            return (taken[: int(rival.name) // 2].clone(),)

        return Prepared(call)

    def golden(self, inputs):
        return None

    def check(self, outcome, right):
        return 0.0

    def small(self):
        return self


@pytest.mark.parametrize("size", [0, 64 * MIB])
@pytest.mark.long
def test_what_is_taken_is_found_and_outputs_are_not_counted(size):
    assert memory.peak(Takes(), Rival(str(size), True)) == pytest.approx(size, abs=2 * MIB)


def test_memory_that_was_freed_before_does_not_hide_what_is_taken():
    taken = [memory.peak(Takes(), Rival(str(48 * MIB), True, compiles=compiles)) for compiles in (False, True)]
    assert taken == pytest.approx([48 * MIB] * 2, abs=2 * MIB)


def test_why_it_was_not_measured_is_said():
    with pytest.raises(memory.NotMeasured, match="Unsupported: no number"):
        memory.peak(Takes(), Rival("all", True))
    with pytest.raises(memory.NotMeasured, match="allocate"):
        memory.peak(Takes(), Rival(str(2**50), True))


def test_a_matrix_of_all_pairs_shows_and_a_tiled_kernel_has_none():
    peaks = {rival.name: rival for rival in CASE.rivals("cpu")}
    assert memory.peak(CASE, peaks["torch math"]) > MATRIX
    assert memory.peak(CASE, peaks["torch flash"]) < MATRIX / 4


@pytest.mark.long
def test_seen_from_outside_it_is_the_same(capfd):
    outside.main(["torch", "--shape", "1", "4", "2048", "16", "--dtype", "float32", "--backward"])
    printed = capfd.readouterr().out
    assert printed.startswith("torch, B1 H4 L2048 D16 float32 forward and backward: ")
    seen = float(re.search(r"(-?[\d.]+) MiB above inputs and outputs", printed)[1])
    flash = Rival("torch flash", is_ours=False)
    assert seen == pytest.approx(memory.peak(replace(CASE, direction="both"), flash) / MIB, abs=8)


def test_on_a_gpu_torch_counts(monkeypatch):
    counted = {"reset_peak_memory_stats": 0, "synchronize": 0, "memory_allocated": 1000, "max_memory_allocated": 1600}
    for name, value in counted.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    monkeypatch.setattr(Takes, "draw", lambda self, device: device)
    assert memory.peak(Takes(), Rival("200", True), "cuda") == 600 - 100


@pytest.fixture
def a_gpu(monkeypatch):
    """Whose functions do nothing. Collects when memory was given back."""
    given_back = []
    for name in ("synchronize", "reset_peak_memory_stats", "memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda device: 0)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append(True))
    monkeypatch.setattr(Takes, "draw", lambda self, device: device)
    return given_back


def test_on_a_gpu_too_why_it_was_not_measured_is_said(a_gpu, monkeypatch):
    with pytest.raises(memory.NotMeasured, match="Unsupported: no number"):
        memory.peak(Takes(), Rival("all", True), "cuda")

    def too_large(self, rival, inputs):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")

    monkeypatch.setattr(Takes, "prepare", too_large)
    with pytest.raises(memory.NotMeasured, match=r"CUDA out of memory\.$"):
        memory.peak(Takes(), Rival("1", True), "cuda")
    assert len(a_gpu) == 2


def test_available_memory_is_known():
    assert memory.available("cpu") > MIB
