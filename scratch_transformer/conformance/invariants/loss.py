"""What holds for CrossEntropyLoss. N samples, C classes: here the widths B·T and E of a setting, plus one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from scratch_transformer.conformance.draw import Draw
from scratch_transformer.conformance.invariants.setting import (
    DEFAULT,
    Build,
    Setting,
    difference,
    named,
    response,
)

PAD = 0
SMOOTHING = 0.3


def _sample(draw: Draw, s: Setting) -> tuple[Tensor, Tensor]:
    classes, number = s.E + 1, s.B * s.T
    return draw.normal(number, classes, scale=3.0), draw.ids(number, below=classes)


def ignores_a_shift(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """ℓ(x + c) = ℓ(x), and so is its gradient, which sums to zero over the classes; one c per sample."""
    x, target = _sample(draw, s)
    loss = build(label_smoothing=SMOOTHING)
    shifted = response(lambda x: loss(x, target), x + draw.normal(len(x), 1, scale=30.0))
    plain = response(lambda x: loss(x, target), x)
    return max(*(difference(a, b) for a, b in zip(shifted, plain, strict=True)), difference(plain[1].sum(1), 0.0))


def padding_adds_nothing(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """ℓ(x ⧺ z, target ⧺ ignored) = ℓ(x, target) for every reduction, and the gradient of z is zero."""
    x, z = draw.normal(s.B * s.T, s.E + 1), draw.normal(s.S, s.E + 1)
    target = draw.ids(s.B * s.T, below=s.E) + 1  # every class but PAD
    padded = torch.cat([target, torch.full((s.S,), PAD, device=draw.device)])
    errors = []
    for reduction in ("mean", "sum"):
        loss = build(ignore_index=PAD, reduction=reduction, label_smoothing=SMOOTHING)
        with_padding = response(lambda x, loss=loss: loss(x, padded), torch.cat([x, z]))
        without = response(lambda x, loss=loss: loss(x, target), x)
        value, gradient = with_padding[0], with_padding[1]
        errors += [difference(value, without[0]), difference(gradient[: len(x)], without[1])]
        errors += [gradient[len(x) :].abs().sum().item()]
    return max(errors)


def smoothing_is_a_mixture(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """ℓ_ε(x, t) = (1 - ε) ℓ₀(x, t) + ε mean_c ℓ₀(x, c), over all classes c."""
    x, target = _sample(draw, s)
    plain, smooth = build(reduction="none"), build(reduction="none", label_smoothing=SMOOTHING)
    every_class = torch.stack([plain(x, torch.full_like(target, c)) for c in range(x.shape[1])])
    return difference(smooth(x, target), (1 - SMOOTHING) * plain(x, target) + SMOOTHING * every_class.mean(0))


def certainty_costs_nothing(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """ℓ(x, t) -> 0 where x_t -> ∞, and ℓ(x, c) grows as the distance of x_t and x_c for the other classes c."""
    x, target = _sample(draw, s)
    other, n = (target + 1) % x.shape[1], torch.arange(len(x), device=draw.device)
    x[n, target] = 1000.0
    loss = build(reduction="none")
    return max(difference(loss(x, target), 0.0), difference(loss(x, other), 1000.0 - x[n, other]))


def knowing_nothing_costs_log_C(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """ℓ(0, t) = log C for every target, with and without label smoothing."""
    x, target = _sample(draw, s)
    expected = math.log(x.shape[1])
    return max(difference(build(label_smoothing=smoothing)(0 * x, target), expected) for smoothing in (0.0, SMOOTHING))


def reductions_agree(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """mean ℓ = (1/N) Σₙ ℓₙ, and ℓₙ is the loss of sample n alone."""
    x, target = _sample(draw, s)
    each = build(reduction="none")(x, target)
    alone = torch.stack([build()(sample, t) for sample, t in zip(x.split(1), target.split(1), strict=True)])
    return max(
        difference(each, alone),
        difference(build()(x, target), each.mean()),
        difference(build(reduction="sum")(x, target), each.sum()),
    )


def indices_are_certainties(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """ℓ(x, t) = ℓ(x, onehot(t)): an index is the probability one."""
    x, target = _sample(draw, s)
    one_hot = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)[target]
    loss = build(label_smoothing=SMOOTHING)
    return difference(loss(x, target), loss(x, one_hot))


CROSS_ENTROPY = named(
    ignores_a_shift,
    padding_adds_nothing,
    smoothing_is_a_mixture,
    certainty_costs_nothing,
    knowing_nothing_costs_log_C,
    reductions_agree,
    indices_are_certainties,
)
