"""Attention with dropout, masks, a window, grouped queries, and with one query against many keys."""

from benchmarks import turns

SUBJECT = "variants"


def test_variant(benchmark, case, rival, pytestconfig, machine):
    turns.take(benchmark, case, rival, pytestconfig, machine)
