"""Whole modules as cases: ours beside torch.nn's, with the same parameters, in evaluation and in training."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

import scratch_transformer.nn
import scratch_transformer.optim
from scratch_transformer.benchmarking.case import DTYPES, Case, Rival, relative_error
from scratch_transformer.benchmarking.timing import Prepared
from scratch_transformer.conformance.switches import fast_path

RIVALS = (
    Rival("ours", is_ours=True),
    Rival("ours compiled", is_ours=True, compiles=True),
    Rival("torch", is_ours=False),
    Rival("torch fast path", is_ours=False),
    Rival("torch compiled", is_ours=False, compiles=True),
)
STACK = 6
"""Layers of the paper's encoder, and of its decoder."""


KINKS = 100.0
"""A ReLU's input that rounding moves across zero changes gradients before it, torch's just as ours."""


@dataclass(frozen=True)
class LayerCase(Case):
    """A module's call. B: batch. T: length of its sequences.

    mode: evaluation, forward without gradients; training, forward and backward with dropout 0.1; step, that and Adam.
    """

    layer: str
    B: int
    T: int
    mode: str = "evaluation"
    dtype: str = "float32"
    d_model: int = 512
    num_heads: int = 8
    d_ff: int = 2048
    subject: ClassVar[str] = "layers"

    @property
    def name(self) -> str:
        """For instance TransformerEncoderLayer-B8-T128-d512-float32-training."""
        return f"{self.layer}-B{self.B}-T{self.T}-d{self.d_model}-{self.dtype}-{self.mode}"

    @property
    def facts(self) -> dict[str, Any]:
        """The sizes by their names, and the rest by name."""
        facts = asdict(self)
        shape = {size: facts.pop(size) for size in ("B", "T", "d_model", "num_heads", "d_ff")}
        subject = "training" if self.mode == "step" else self.subject
        return {"subject": subject, "case": self.name, "shape": shape, "direction": facts.pop("mode"), **facts}

    @property
    def flops(self) -> float:
        """Of the matrix products: 2 for every weight and token, 4 T d_model for every token's attention."""
        d, attention = self.d_model, 8 * self.d_model**2 + 4 * self.T * self.d_model
        feed_forward = 4 * d * self.d_ff
        encoder, decoder = attention + feed_forward, 2 * attention + feed_forward
        layers = {"MultiheadAttention": attention, "TransformerEncoderLayer": encoder}
        layers["Transformer"] = STACK * (encoder + decoder)
        return self.B * self.T * layers[self.layer] * (1 if self.mode == "evaluation" else 3)

    @property
    def bytes(self) -> float:
        """Inputs and outputs, and every parameter once; three times that in training."""
        d = self.d_model
        attention, feed_forward = 4 * d * d, 2 * d * self.d_ff
        encoder, decoder = attention + feed_forward, 2 * attention + feed_forward
        weights = {"MultiheadAttention": attention, "TransformerEncoderLayer": encoder}
        weights["Transformer"] = STACK * (encoder + decoder)
        numbers = 2 * self.B * self.T * d + weights[self.layer]
        return numbers * DTYPES[self.dtype].itemsize * (1 if self.mode == "evaluation" else 3)

    @property
    def tokens(self) -> int:
        """B T."""
        return self.B * self.T

    def rivals(self, device: str) -> list[Rival]:
        """The fast path is torch.nn's, and for evaluation only."""
        return [rival for rival in RIVALS if self.mode == "evaluation" or "fast" not in rival.name]

    def draw(self, device: str) -> dict[str, Any]:
        """The sequences, the gradient of the output, and torch's parameters, all in the case's dtype."""
        with torch.random.fork_rng(devices=[device] if torch.device(device).type == "cuda" else []):
            torch.manual_seed(0)
            state = self._build(torch.nn).to(device, DTYPES[self.dtype]).state_dict()
            x, upstream = torch.randn(2, self.B, self.T, self.d_model).to(device, DTYPES[self.dtype])
        return {"x": x, "upstream": upstream, "state": state}

    def _build(self, library: Any) -> torch.nn.Module:
        options = {"dropout": 0.1, "batch_first": True}
        if self.layer == "MultiheadAttention":
            return library.MultiheadAttention(self.d_model, self.num_heads, **options)
        if self.layer == "TransformerEncoderLayer":
            return library.TransformerEncoderLayer(self.d_model, self.num_heads, self.d_ff, **options)
        return library.Transformer(self.d_model, self.num_heads, STACK, STACK, self.d_ff, **options)

    def prepare(self, rival: Rival, inputs: dict[str, Any]) -> Prepared:
        """The module's call. What it finds without dropout, which is random, can be checked."""
        library, optim = (
            (scratch_transformer.nn, scratch_transformer.optim) if rival.is_ours else (torch.nn, torch.optim)
        )
        module = self._build(library).to(inputs["x"])
        module.load_state_dict(inputs["state"], strict=True)
        module.train(self.mode != "evaluation")
        forward = self._forward(torch.compile(module, fullgraph=True) if rival.compiles else module, inputs["x"])
        context = functools.partial(fast_path, "fast" in rival.name)
        if self.mode == "evaluation":
            return Prepared(lambda: _without_gradients(forward), context)
        differentiate = functools.partial(_gradients, forward, module, inputs)
        if self.mode == "training":
            return Prepared(differentiate, context, functools.partial(_without_dropout, differentiate, module))
        adam = optim.Adam(module.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
        step = functools.partial(_step, forward, adam, inputs["upstream"])
        return Prepared(step, context, functools.partial(_without_dropout, differentiate, module))

    def _forward(self, module: Callable[..., Any], x: Tensor) -> Callable[[], Tensor]:
        if self.layer == "MultiheadAttention":
            return lambda: module(x, x, x, need_weights=False)[0]
        if self.layer == "TransformerEncoderLayer":
            return lambda: module(x)
        causal = torch.nn.Transformer.generate_square_subsequent_mask(self.T, device=x.device, dtype=x.dtype)
        return lambda: module(x, x, tgt_mask=causal, tgt_is_causal=True)

    def golden(self, inputs: dict[str, Any]) -> tuple[Tensor, ...]:
        """torch.nn's own module in float64, its fast path off."""
        wide = {name: inputs[name].double() for name in ("x", "upstream")}
        exact = replace(self, dtype="float64").prepare(RIVALS[2], wide | {"state": inputs["state"]})
        return tuple(x.detach() for x in exact.outcome())

    def check(self, outcome: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> float:
        """The error of the output and, in training, of the gradients of the parameters."""
        return self.within_tolerance(relative_error(outcome, right), 1.0 if self.mode == "evaluation" else KINKS)

    def small(self) -> LayerCase:
        """One sequence of 16."""
        return replace(self, B=1, T=16)


def _without_gradients(forward: Callable[[], Tensor]) -> tuple[Tensor, ...]:
    with torch.no_grad():
        return (forward(),)


def _gradients(forward: Callable[[], Tensor], module: torch.nn.Module, inputs: dict[str, Any]) -> tuple[Tensor, ...]:
    out = forward()
    return (out.detach(), *torch.autograd.grad(out, list(module.parameters()), inputs["upstream"]))


def _step(forward: Callable[[], Tensor], optimizer: Any, upstream: Tensor) -> tuple[Tensor, ...]:
    optimizer.zero_grad()
    out = forward()
    out.backward(upstream)
    optimizer.step()
    return (out.detach(),)


def _without_dropout(call: Callable[[], tuple[Tensor, ...]], module: torch.nn.Module) -> tuple[Tensor, ...]:
    module.eval()
    try:
        return call()
    finally:
        module.train()
