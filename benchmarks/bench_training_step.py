"""One training step of the whole Transformer, forward, backward and Adam, beside torch.nn's and torch.optim's."""

from benchmarks import turns

SUBJECT = "training"


def test_training_step(benchmark, case, rival, pytestconfig, machine):
    turns.take(benchmark, case, rival, pytestconfig, machine)
