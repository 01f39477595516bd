"""What is measured: a case is a computation that several rivals can do, on the same inputs.

A case is made of names and numbers only, so it can travel to a fresh process, and to whoever wants to repeat it.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from scratch_transformer.benchmarking.timing import Prepared

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

TOLERANCE = {"float64": 1e-11, "float32": 2e-4, "bfloat16": 5e-2, "float16": 1e-2}
"""A larger error is a mistake, and no rounding: what has it is not timed."""

PASSES = {"forward": 1.0, "backward": 2.5, "both": 3.5}
"""The work of a direction in units of the forward's: a backward has five matrix products where the forward has two."""


class Unsupported(Exception):
    """This rival does not do this case; the message says why."""


class Wrong(Exception):
    """This rival's result is not the result; the message says by how much."""


@dataclass(frozen=True)
class Rival:
    """Somebody's implementation. compiles: it takes long before it runs at all."""

    name: str
    is_ours: bool
    compiles: bool = False


class Case(abc.ABC):
    """One computation, and who can do it.

    flops: floating-point operations that the equation needs, whatever a rival recomputes.
    bytes: every input read once, and every output written once.
    tokens: positions of the sequences that go through in one call.
    """

    subject: ClassVar[str]
    error_factor: ClassVar[float] = math.inf
    """How many times PyTorch's own error ours may be; infinite where errors beside each other say nothing."""
    dtype: str

    @property
    @abc.abstractmethod
    def flops(self) -> float: ...

    @property
    @abc.abstractmethod
    def bytes(self) -> float: ...

    @property
    @abc.abstractmethod
    def tokens(self) -> int: ...

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """One word that tells this case from all others."""

    @property
    @abc.abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the row of a result says of its case."""

    @abc.abstractmethod
    def rivals(self, device: str) -> list[Rival]:
        """All that may compete on this device, ours first."""

    @abc.abstractmethod
    def draw(self, device: str) -> Any:
        """The inputs, the same in every process."""

    @abc.abstractmethod
    def prepare(self, rival: Rival, inputs: Any) -> Prepared:
        """The rival's call on these inputs; it returns its outputs and, if it goes backward, its gradients.

        Raises:
            Unsupported: the rival does not do this.
        """

    @abc.abstractmethod
    def golden(self, inputs: Any) -> Any:
        """The result in float64, by the plain equations."""

    @abc.abstractmethod
    def check(self, outcome: tuple[Tensor, ...], right: Any) -> float | None:
        """The error of an outcome beside the golden result, or None where it cannot be a number.

        Raises:
            Wrong: it is no rounding error.
        """

    @abc.abstractmethod
    def small(self) -> Case:
        """The same in a few kilobytes, for whoever needs to have run once."""

    def within_tolerance(self, error: float, kinks: float = 1.0) -> float:
        """The error, where it is rounding. kinks: how many times as large it may be.

        Raises:
            Wrong: it is more than that.
        """
        tolerance = kinks * TOLERANCE[self.dtype]
        if not error <= tolerance:
            raise Wrong(f"relative error {error:.1e} against float64, where {tolerance:.0e} is rounding")
        return error

    def limit_beside(self, theirs: float) -> float:
        """The largest error that ours may have where PyTorch's is `theirs`: a factor, and a rounding of the result."""
        return self.error_factor * theirs + torch.finfo(DTYPES[self.dtype]).eps / 4


def relative_error(outcome: tuple[Tensor, ...], golden: tuple[Tensor, ...]) -> float:
    """‖outcome − golden‖∞ / ‖golden‖∞, the worst of all tensors; infinite where a number is not finite."""
    worst = 0.0
    for ours, right in zip(outcome, golden, strict=True):
        error = ((ours.detach().double() - right).abs().max() / right.abs().max()).item()
        worst = max(worst, error if error == error else float("inf"))
    return worst
