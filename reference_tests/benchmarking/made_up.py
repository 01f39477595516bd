"""Cases and rivals that are made up, and the document of a run of them."""

from dataclasses import dataclass, field

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from scratch_transformer.benchmarking import results
from scratch_transformer.benchmarking.attention_case import AttentionCase
from scratch_transformer.benchmarking.case import Rival, Unsupported
from scratch_transformer.benchmarking.machine import Limits
from scratch_transformer.benchmarking.race import Result
from scratch_transformer.benchmarking.timing import Prepared

OURS, FLASH, MATH = Rival("ours auto", True), Rival("torch flash", False), Rival("torch math", False)
FLEX = Rival("torch flex", False, compiles=True)
LIMITS = Limits({"float32": 2e11, "bfloat16": 1e11}, 1e10)


def timed(case, rival, durations, peak_memory=2**20, error=1e-7):
    return Result(case, rival, "timed", "", error, list(durations), peak_memory)


def document(extent="quick"):
    """Ours takes half of flash's time in float32 and twice of it in bfloat16; math is the slowest; flex cannot."""
    raced, weighed = [], []
    for length in (256, 1024):
        for dtype, ours in (("float32", 0.5), ("bfloat16", 2.0)):
            for direction in ("forward", "both"):
                for is_causal in (False, True):
                    case = AttentionCase(1, 2, length, 16, dtype, direction, is_causal)
                    times = {OURS: ours, FLASH: 1.0, MATH: 4.0}
                    raced += [
                        timed(case, rival, [s * length / 1e6 * k for k in (1, 1.1, 1.2)]) for rival, s in times.items()
                    ]
                    raced.append(Result(case, FLEX, "unsupported", "has no <compiler>"))
        case = AttentionCase(1, 8, length, 64)
        peaks = {OURS: 2**20, FLASH: 2**19, MATH: 32 * length**2}
        weighed += [Result(case, rival, "timed", peak_memory=peak) for rival, peak in peaks.items()]
    windowed = AttentionCase(1, 2, 512, 16, "float32", variant="window")
    raced += [timed(windowed, OURS, [1e-3]), Result(windowed, MATH, "unsupported", "made up")]
    return results.document(raced, weighed, "cpu", extent, LIMITS)


@dataclass(frozen=True)
class Sums(AttentionCase):
    """A case whose rivals add up numbers: rightly, wrongly, not at all."""

    answers: dict = field(default_factory=dict, hash=False)

    def rivals(self, device):
        return [Rival("ours", True), *(Rival(name, name.startswith("ours")) for name in self.answers)]

    def draw(self, device):
        return torch.ones(4, dtype=torch.float64)

    def prepare(self, rival, inputs):
        answer = self.answers.get(rival.name, 4.0)
        if isinstance(answer, str):
            raise Unsupported(answer)

        def call():
            if isinstance(answer, Exception):
                raise answer
            return (torch.tensor(answer),)

        return Prepared(call)

    def golden(self, inputs):
        return (inputs.sum(),)

    def check(self, outcome, right):
        return self.within_tolerance(abs(outcome[0].item() - right[0].item()))


def needs_groups():
    """Skips a test where PyTorch's flash attention has no groups of heads, as in its older releases."""
    query, key = torch.zeros(1, 4, 2, 4), torch.zeros(1, 2, 2, 4)
    try:
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            scaled_dot_product_attention(query, key, key, enable_gqa=True)
    except RuntimeError:
        pytest.skip("this torch's flash attention has no groups of heads")
