"""The two libraries, each with everything that a training run needs, and the model that is built from either."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from scratch_transformer import functional, nn
from scratch_transformer.conformance.training.reversal import PAD, VOCABULARY
from scratch_transformer.optim import Adam, WarmupSchedule


@dataclass(frozen=True)
class Settings:
    """A training run: the task, the model, the loss, and how it is optimized.

    The optimizer's are the paper's (section 5.3), and so are label smoothing (5.4) and the form of the schedule. Its
    peak, lr_factor / √(d_model · warmup_steps) = 4.6e-3, is as high as such a small model allows.
    """

    steps: int = 500
    batch_size: int = 64
    lengths: tuple[int, int] = (3, 6)
    held_out: int = 500
    d_model: int = 48
    num_heads: int = 4
    num_layers: int = 2
    d_ff: int = 96
    dropout: float = 0.05
    label_smoothing: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    warmup_steps: int = 40
    lr_factor: float = 0.2
    seed: int = 0


FULL = Settings()
"""Learns the task."""


@dataclass(frozen=True)
class Library:
    """Whatever is trained: ours, torch's, or another.

    model: builds a module that takes ids (B, S) and (B, T) and returns logits (B, T, VOCABULARY).
    loss: a class with the signature of `CrossEntropyLoss`. optimizer: a class with that of `Adam`.
    schedule: sets the optimizer's rate of the first step, and with each `step()` that of the next.
    state: the parameters, by names that the compared libraries share.
    """

    name: str
    model: Callable[[Settings], Module]
    loss: Callable[..., Any]
    optimizer: Callable[..., Any]
    schedule: Callable[[Any, Settings], Any]
    state: Callable[[Module], dict[str, Tensor]] = Module.state_dict


class Translator(Module):
    """Embeddings + positions, dropout, `Transformer`, projection: the paper's figure 1, from the classes of `library`.

    Embeddings are drawn from N(0, 1), which is what the √d_model of section 3.4 makes of the customary N(0, 1/d_model).
    """

    def __init__(self, library: Any, positions: Callable[[int, int], Tensor], settings: Settings) -> None:
        super().__init__()
        s, factory = settings, {"dtype": torch.float64}
        self.positions = positions
        self.src_embedding = library.Embedding(VOCABULARY, s.d_model, padding_idx=PAD, **factory)
        self.tgt_embedding = library.Embedding(VOCABULARY, s.d_model, padding_idx=PAD, **factory)
        self.dropout = library.Dropout(s.dropout)
        depth = (s.num_layers, s.num_layers)
        self.transformer = library.Transformer(
            s.d_model, s.num_heads, *depth, s.d_ff, s.dropout, batch_first=True, **factory
        )
        self.projection = library.Linear(s.d_model, VOCABULARY, **factory)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Ids (B, S) and (B, T) -> logits (B, T, VOCABULARY)."""
        length = tgt.shape[1]
        decoded = self.transformer(
            self._embed(src, self.src_embedding),
            self._embed(tgt, self.tgt_embedding),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=src == PAD,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=src == PAD,
        )
        return self.projection(decoded)

    def _embed(self, ids: Tensor, embedding: Module) -> Tensor:
        x = embedding(ids)  # (B, T, d_model)
        return self.dropout(x + self.positions(*x.shape[1:]).to(x))


def _formula_of_the_paper(length: int, d_model: int) -> Tensor:
    """Section 3.5, one number at a time: torch has no positions."""

    def code(pos: int, k: int) -> float:
        angle = pos / 10000 ** ((k - k % 2) / d_model)
        return math.cos(angle) if k % 2 else math.sin(angle)

    return torch.tensor([[code(pos, k) for k in range(d_model)] for pos in range(length)], dtype=torch.float64)


def _lambda_lr(optimizer: torch.optim.Optimizer, settings: Settings) -> torch.optim.lr_scheduler.LambdaLR:
    """Section 5.3, equation 3. Torch counts steps from 0, the paper from 1."""

    def rate(n: int) -> float:
        return settings.lr_factor * settings.d_model**-0.5 * min((n + 1) ** -0.5, (n + 1) * settings.warmup_steps**-1.5)

    for group in optimizer.param_groups:
        group["lr"] = 1.0  # which is multiplied by `rate`
    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def _warmup(optimizer: Adam, settings: Settings) -> WarmupSchedule:
    return WarmupSchedule(optimizer, settings.d_model, settings.warmup_steps, settings.lr_factor)


OURS = Library(
    "scratch_transformer",
    model=partial(Translator, nn, partial(functional.sinusoidal_positions, dtype=torch.float64)),
    loss=nn.CrossEntropyLoss,
    optimizer=Adam,
    schedule=_warmup,
)
BUILTIN = Library(
    "torch",
    model=partial(Translator, torch.nn, _formula_of_the_paper),
    loss=torch.nn.CrossEntropyLoss,
    optimizer=torch.optim.Adam,
    schedule=_lambda_lr,
)
