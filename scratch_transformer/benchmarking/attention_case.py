"""The attention core as a case: its sizes, mask and direction, its inputs, and what makes a result right."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from scratch_transformer.benchmarking import attention_rivals, masking
from scratch_transformer.benchmarking.case import DTYPES, PASSES, Case, Rival, Wrong, relative_error
from scratch_transformer.benchmarking.golden import Golden, golden, scatter
from scratch_transformer.benchmarking.timing import Prepared

Direction = Literal["forward", "backward", "both"]


@dataclass(frozen=True)
class Inputs:
    """Q (B, H, T, D), K and V (B, G, S, D), a mask that broadcasts to (B, H, T, S), dO (B, H, T, D)."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None
    upstream: Tensor


@dataclass(frozen=True)
class AttentionCase(Case):
    """softmax(Q Kᵀ / √D + mask) V, forward, backward or both.

    B: batch. H: heads of the queries, G: of keys and values (as many, unless given). T: queries, S: keys (as many).
    D: width of a head. variant: which weights are masked or dropped, see `masking.mask`.
    """

    B: int
    H: int
    T: int
    D: int
    dtype: str = "float32"
    direction: Direction = "forward"
    is_causal: bool = False
    variant: masking.Variant = "none"
    S: int = 0
    G: int = 0
    subject: ClassVar[str] = "attention"
    error_factor: ClassVar[float] = 3.0

    @property
    def keys(self) -> int:
        """S, as it is."""
        return self.S or self.T

    @property
    def groups(self) -> int:
        """G, as it is."""
        return self.G or self.H

    @property
    def dropout_p(self) -> float:
        """With this probability a weight is dropped."""
        return 0.1 if self.variant == "dropout" else 0.0

    @property
    def name(self) -> str:
        """For instance attention-B1-H8-T1024-D64-causal-bfloat16-both."""
        sizes = [f"B{self.B}", f"H{self.H}"] + [f"G{self.G}"] * bool(self.G)
        sizes += [f"T{self.T}"] + [f"S{self.S}"] * bool(self.S) + [f"D{self.D}"]
        kind = ["causal"] * self.is_causal + [self.variant] * (self.variant != "none")
        return "-".join([self.subject, *sizes, *kind, self.dtype, self.direction])

    @property
    def facts(self) -> dict[str, Any]:
        """The sizes by their letters, and the rest by name."""
        facts = asdict(self)
        shape = {letter: facts.pop(letter) for letter in "BHTDSG"} | {"S": self.keys, "G": self.groups}
        return {"subject": self.subject, "case": self.name, "shape": shape, **facts}

    @property
    def flops(self) -> float:
        """4 B H D for every pair of a query and a key that may meet; 2.5 times that backward."""
        return 4 * self.B * self.H * self.D * masking.pairs(self) * PASSES[self.direction]

    @property
    def bytes(self) -> float:
        """Forward: Q, K, V, O. Backward: these and dO, and dQ, dK, dV."""
        of_queries, of_keys = self.B * self.H * self.T * self.D, self.B * self.groups * self.keys * self.D
        forward, backward = 2 * of_queries + 2 * of_keys, 4 * of_queries + 4 * of_keys
        numbers = {"forward": forward, "backward": backward, "both": forward + backward}[self.direction]
        return numbers * DTYPES[self.dtype].itemsize

    @property
    def tokens(self) -> int:
        """B T."""
        return self.B * self.T

    def rivals(self, device: str) -> list[Rival]:
        """Our algorithms, PyTorch's backends, and FlexAttention."""
        return attention_rivals.rivals(device)

    def draw(self, device: str) -> Inputs:
        """Standard normal numbers: on some machines zeros would run faster."""
        generator = torch.Generator(device).manual_seed(0)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, device=device).to(DTYPES[self.dtype])

        of_queries, of_keys = (self.B, self.H, self.T, self.D), (self.B, self.groups, self.keys, self.D)
        query, key, value, upstream = normal(*of_queries), normal(*of_keys), normal(*of_keys), normal(*of_queries)
        if self.direction != "forward":
            query, key, value = (x.requires_grad_() for x in (query, key, value))
        return Inputs(query, key, value, masking.mask(self, device), upstream)

    def prepare(self, rival: Rival, inputs: Inputs) -> Prepared:
        """The rival's attention in this case's direction: it returns O, or dQ, dK and dV, or all four."""
        attend, context = attention_rivals.ready(rival, self, inputs)
        query, key, value, upstream = inputs.query, inputs.key, inputs.value, inputs.upstream

        def forward() -> tuple[Tensor, ...]:
            with torch.no_grad():
                return (attend(query, key, value),)

        def both() -> tuple[Tensor, ...]:
            out = attend(query, key, value)
            return (out.detach(), *torch.autograd.grad(out, (query, key, value), upstream))

        if self.direction != "backward":
            return Prepared(forward if self.direction == "forward" else both, context)
        with context():
            out = attend(query, key, value)
        return Prepared(lambda: torch.autograd.grad(out, (query, key, value), upstream, retain_graph=True), context)

    def golden(self, inputs: Inputs) -> Golden:
        """The result in float64, by the plain equations."""
        return golden(self, inputs)

    def check(self, outcome: tuple[Tensor, ...], right: Golden) -> float | None:
        """The error of the output and of the gradients; none with dropout, whose scatter is checked instead.

        Raises:
            Wrong: it is no rounding error.
        """
        if not self.dropout_p:
            return self.within_tolerance(relative_error(outcome, right.tensors))
        deviation = scatter(outcome, right)
        if not deviation <= 6:
            raise Wrong(f"with dropout the results scatter as they must not: {deviation:.0f} standard errors off")
        return None

    def small(self) -> AttentionCase:
        """One sequence of 16."""
        return replace(self, B=1, H=2 if self.G else 1, G=1 if self.G else 0, T=16, S=0)
