"""Layers of the base model beside torch.nn's: in evaluation, where torch.nn has a fast path, and in training."""

from benchmarks import turns

SUBJECT = "layers"


def test_layer(benchmark, case, rival, pytestconfig, machine):
    turns.take(benchmark, case, rival, pytestconfig, machine)
