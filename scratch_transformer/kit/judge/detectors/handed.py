"""What a stack hands the layer that the reference stands in for: nobody knows in which order its own takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.judge.running import watched
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.paths import OF_LENT_LAYERS


def memory_first(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B25, for information: a decoder's layers are given the encoder's output before the target, and nothing fits."""
    if best is not None or not session.candidate.replaced:
        return
    inputs, orders = session.ran[0].probe.inputs, list[bool]()

    def told(part: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        given = [value for value in args if isinstance(value, Tensor) and value.is_floating_point()]
        if getattr(type(part), "kind_name", "") == "DecoderLayer" and len(given) > 1:
            is_memory = [torch.equal(value, inputs["memory"]) for value in given]
            orders.append(is_memory[0] and not is_memory[1])

    with watched(session.candidate.module, told):
        call(session.candidate, inputs)
    if orders and all(orders):
        said = "Every layer is given the tensor of the encoder as the first of two: right only if it takes them so."
        yield Finding(MISTAKES["B25"], said, OF_LENT_LAYERS)


HANDED = ((("B25",), memory_first),)
