"""The attention core: every algorithm of ours beside every backend of PyTorch's, in every dtype, length and direction.

    pytest benchmarks                                       a selection, timed in turns
    pytest benchmarks -k "1024 and bfloat16 and both"       some of it
    pytest benchmarks --grid full --benchmark-json x.json   everything, with a row for each in a file
    scratch-transformer bench                               the same cases as tables and plots

Every result is compared with the plain equations in float64 first: a wrong result has no speed.
"""

from benchmarks import turns

SUBJECT = "attention"


def test_attention(benchmark, case, rival, pytestconfig, machine):
    turns.take(benchmark, case, rival, pytestconfig, machine)
