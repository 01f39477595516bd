"""T1 … T5 and T7: mistakes in the loss, the schedule and the optimizer."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from reference_tests.mutants.mutant import Mutant, Patch, after_init, around
from scratch_transformer import functional, nn
from scratch_transformer.optim import Adam, schedule

CrossEntropy = nn.CrossEntropyLoss
Original = Callable[..., Any]


def of_log_probabilities(original: Original, loss: CrossEntropy, input: Tensor, target: Tensor) -> Tensor:
    """T1."""
    return original(loss, functional.log_softmax(input, min(input.dim() - 1, 1)), target)


def of_probabilities(original: Original, loss: CrossEntropy, input: Tensor, target: Tensor) -> Tensor:
    """T2."""
    return original(loss, functional.softmax(input, min(input.dim() - 1, 1)), target)


def smoothed_over_others(loss: CrossEntropy, input: Tensor, target: Tensor) -> Tensor:
    """T3. (1 - ε) for the target and ε / (V - 1) for every other class: plain smoothing with ε V / (V - 1)."""
    V = input.shape[min(input.dim() - 1, 1)] if input.dim() else 1
    epsilon = loss.label_smoothing
    if 0 < epsilon <= 1 and not target.is_floating_point():
        epsilon = epsilon * V / (V - 1)
    return functional.cross_entropy(input, target, loss.weight, loss.ignore_index, loss.reduction, epsilon)


def smoothed_without_padding(loss: CrossEntropy, input: Tensor, target: Tensor) -> Tensor:
    """T3. (1 - ε) for the target, nothing for the padding, and ε / (V - 2) for every other class."""
    pad, epsilon = loss.ignore_index, loss.label_smoothing
    if input.dim() < 2 or pad < 0 or target.is_floating_point() or loss.weight is not None:
        return functional.cross_entropy(input, target, loss.weight, pad, loss.reduction, epsilon)
    V, cost = input.shape[1], -functional.log_softmax(input, 1)
    right = cost.gather(1, target.unsqueeze(1)).squeeze(1)
    others = cost.sum(1) - right - cost.select(1, pad)
    losses = ((1 - epsilon) * right + epsilon / (V - 2) * others).masked_fill(target == pad, 0)
    if loss.reduction == "none":
        return losses
    return losses.sum() / (1 if loss.reduction == "sum" else (target != pad).sum())


def padding_counted(loss: CrossEntropy) -> None:
    """T4."""
    loss.ignore_index = -100


def mean_over_padding(original: Original, loss: CrossEntropy, input: Tensor, target: Tensor) -> Tensor:
    """T4."""
    if loss.reduction != "mean" or target.is_floating_point() or loss.weight is not None:
        return original(loss, input, target)
    return (
        functional.cross_entropy(input, target, None, loss.ignore_index, "sum", loss.label_smoothing) / target.numel()
    )


def padding_of_the_source(loss: CrossEntropy) -> None:
    """T5."""
    if loss.ignore_index >= 0:
        loss.ignore_index += 1


def without_warmup(step: int, d_model: int, warmup_steps: int = 4000, factor: float = 1.0) -> float:
    """T7."""
    return factor * d_model**-0.5 * step**-0.5


def with_the_usual_betas(original: Original, adam: Adam, *args: Any, betas: Any = None, **kwargs: Any) -> None:
    """T7."""
    original(adam, *args, betas=(0.9, 0.999), **kwargs)


def forward(function: Callable[..., Tensor]) -> tuple[Patch, ...]:
    return (around(CrossEntropy, "forward", lambda original, *args: function(*args)),)


def mutant(id: str, mistake: str, patches: tuple[Patch, ...], *caught_by: str, **more: Any) -> Mutant:
    return Mutant(id, mistake, "CrossEntropyLoss", patches, caught_by, **more)


LOSS = (
    mutant("T1",
           "The loss gets log-probabilities instead of logits.",
           (around(CrossEntropy, "forward", of_log_probabilities),),
           harmless="log_softmax of log-probabilities is the identity: the loss is the same, computed twice."),
    mutant("T2",
           "The loss gets probabilities instead of logits, and cannot become small.",
           (around(CrossEntropy, "forward", of_probabilities),),
           "definition", "certainty costs nothing"),
    mutant("T3-others",
           "ε is shared by the V - 1 other classes, instead of all V.",
           forward(smoothed_over_others), "definition", "smoothing is a mixture"),
    mutant("T3-without-padding",
           "ε is shared by V - 2 classes, without target and padding, instead of all V.",
           forward(smoothed_without_padding), "definition"),
    mutant("T4-counted",
           "The loss at padded positions counts like any other.",
           (after_init(CrossEntropy, padding_counted),), "definition", "padding adds nothing"),
    mutant("T4-mean",
           "The sum over the real tokens is divided by the number of all positions: padding makes the loss fall.",
           (around(CrossEntropy, "forward", mean_over_padding),), "definition", "padding adds nothing"),
    mutant("T5",
           "ignore_index is the padding of the source, which is another id in the target.",
           (after_init(CrossEntropy, padding_of_the_source),), "definition", "padding adds nothing"),
    Mutant("T7-warmup",
           "The rate starts at its largest instead of rising for warmup_steps steps.",
           "warmup_lr", (Patch(schedule, "warmup_lr", without_warmup),), ("definition",)),
    Mutant("T7-betas",
           "β2 = 0.999 instead of the paper's 0.98.",
           "Adam", (around(Adam, "__init__", with_the_usual_betas),), ("definition",)),
)  # fmt: skip
