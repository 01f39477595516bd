"""What the lines of a script call with an argument that nothing takes (B26): they are read, and never run."""

import pytest

from scratch_transformer.kit.judge.scripts import read

SCRIPT = """
import torch

class Momentum(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})

def weights(n, *, scale=1.0):
    return torch.nn.Parameter(scale * torch.randn(n))

if __name__ == "__main__":
    for rate in (0.1, 1.0):
        optimizer = CALLED
"""


@pytest.mark.parametrize(
    "called, wrong",
    [
        ("Momentum([weights(3)], alpha=rate)", "Momentum with alpha"),
        ("Momentum([weights(3, factor=2)], lr=rate)", "weights with factor"),
        ("Momentum([weights(3, scale=2)], lr=rate, beta=0.5)", ""),
        ("Momentum([weights(3)], **{'alpha': rate})", ""),
        ("torch.optim.SGD([weights(3)], alpha=rate)", ""),
    ],
)
def test_an_argument_that_nothing_takes(called, wrong):
    found = [*read(SCRIPT.replace("CALLED", called))]
    assert [(one.id, one.function, one.line) for one in found] == ([("B26", "", 13)] if wrong else [])
    assert all(one.evidence.startswith(f"It calls {wrong}, which that does not take: it takes ") for one in found)


@pytest.mark.parametrize(
    "old, new",
    [
        ("lr=0.1, beta=0.9)", "lr=0.1, beta=0.9, **more)"),
        ("class Momentum", "@register\nclass Momentum"),
        ("import torch\n", "import torch\nfrom optimizers import Momentum\n"),
        ("if __name__", "Momentum = partial(Momentum, 3)\nif __name__"),
        ("import torch\n", "import torch\nfrom optimizers import *\n"),
    ],
)
def test_what_may_be_another_is_not_told_of(old, new):
    assert [*read(SCRIPT.replace("CALLED", "Momentum([weights(3)], alpha=rate)").replace(old, new))] == []
