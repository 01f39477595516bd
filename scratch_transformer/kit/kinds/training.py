"""The loss and the schedule of the learning rate."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from scratch_transformer.kit.canonical.training import Loss, Schedule
from scratch_transformer.kit.kind import Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds.choices import combined
from scratch_transformer.kit.kinds.inputs import Draw
from scratch_transformer.kit.recipe import Recipe

CLASSES, TOKENS = 11, 14


def loss_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    """pad < 0: there is none."""
    draw, pad = Draw(seed), settings["pad"]
    logits = draw.normal(TOKENS, settings["vocab_size"], scale=2)
    # neither pad nor pad + 1
    real = (draw.ids(TOKENS, below=settings["vocab_size"] - 2) + pad + 2) % settings["vocab_size"]
    if pad < 0:
        return (Probe("no padding", {"logits": logits, "target": real}, shows="no padding"),)
    padded = torch.where(torch.arange(TOKENS) < 9, real, pad)
    mixed = torch.where(torch.arange(TOKENS) % 5 == 0, pad + 1, padded)
    return (
        Probe("padded", {"logits": logits, "target": padded}, shows="5 of 14 targets being padding"),
        Probe("no padding", {"logits": logits, "target": real}, shows="no padding"),
        Probe("next to padding", {"logits": logits, "target": mixed}, shows="targets with the id after the padding's"),
    )


def log_probability_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    """The last ones do not sum to 1: what takes the logarithm of a softmax itself is a loss of logits."""
    probes = loss_probes(settings, seed)
    log_p = [torch.log_softmax(p.inputs["logits"], -1) for p in probes]
    inputs = [{**p.inputs, "logits": values} for p, values in zip(probes, log_p, strict=True)]
    return (
        *(Probe(p.name, own, shows=p.shows) for p, own in zip(probes, inputs, strict=True)),
        Probe("unnormalized", {**inputs[-1], "logits": log_p[-1] * 1.5}, shows="values that are no log-probabilities"),
    )


def builtin_loss(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    """Cross-entropy; of log-probabilities without its log_softmax."""
    eps = settings["label_smoothing"] if recipe.smoothing_amount is None else recipe.smoothing_amount
    reduction = recipe.reduction if recipe.reduction in ("sum", "none") else "mean"
    logits, target = inputs["logits"], inputs["target"]
    options = {"ignore_index": settings["pad"], "reduction": reduction, "label_smoothing": eps}
    loss = torch.nn.functional.cross_entropy(logits, target, **options)
    if recipe.loss_input.startswith("log-probabilities"):  # log_softmax(x) = x - log Σ exp(x), whatever is picked
        spread = torch.logsumexp(logits, -1).masked_fill(target == settings["pad"], 0.0)
        counts = (target != settings["pad"]).sum()
        loss = loss - {"sum": spread.sum(), "none": spread, "mean": spread.sum() / counts}[reduction]
    if recipe.loss_input.endswith("divergence"):
        V = logits.shape[-1]
        q = torch.full((V,), eps / V, dtype=torch.float64)
        q[0] += 1 - eps
        entropy = (q * q.clamp(min=1e-300).log()).sum()
        counts = (target != settings["pad"]).double()
        loss = loss + entropy * {"sum": counts.sum(), "none": counts, "mean": torch.tensor(1.0)}[reduction]
    return loss


def schedule_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    return (
        Probe("steps", {"steps": torch.arange(1, 3 * settings["warmup"])}, shows="steps before and after the peak"),
    )


REDUCTIONS = {
    "": {},
    "sum over the tokens": {"reduction": "sum"},
    "one loss per token": {"reduction": "none"},
}
SMOOTHED = {"": {}, "smoothing 0.1": {"smoothing_amount": 0.1}, "no smoothing": {"smoothing_amount": 0.0}}
OF_LOGITS = {"": {"loss_input": "logits"}, "Kullback-Leibler divergence": {"loss_input": "logits, divergence"}}
OF_LOG_PROBABILITIES = {
    "of log-probabilities": {"loss_input": "log-probabilities"},
    "Kullback-Leibler divergence of log-probabilities": {"loss_input": "log-probabilities, divergence"},
}

LOSS = Kind(
    name="Loss",
    what="How surprised the model is by the right words, averaged over the real ones.",
    synonyms=(
        *("loss", "labelsmoothing", "crossentropyloss", "labelsmoothingloss", "calloss", "criterion", "crossentropy"),
    ),
    source="Vaswani et al. 2017, section 5.4",
    inputs=("logits", "target"),
    defaults={"vocab_size": CLASSES, "pad": 2, "label_smoothing": 0.0},
    build=lambda settings, recipe: Loss(dict(settings), recipe),
    probes=loss_probes,
    mistakes=("T1", "T2", "T3", "T4", "T5", "A12", "A26", "B12"),
    designs=combined(OF_LOGITS, REDUCTIONS, SMOOTHED),
    oracle=builtin_loss,
    builtin="torch.nn.CrossEntropyLoss",
)
LOG_LOSS = replace(
    LOSS,
    name="LossOfLogProbabilities",
    what="The same for a model that ends in log_softmax.",
    synonyms=("labelsmoothing", "labelsmoothingloss", "kldivloss", "nllloss", "labelsmoothedloss"),
    probes=log_probability_probes,
    designs=combined(OF_LOG_PROBABILITIES, REDUCTIONS, SMOOTHED),
)
SCHEDULE = Kind(
    name="WarmupSchedule",
    what="The learning rate of every step: a rise, then a slow fall.",
    synonyms=(
        *("noamopt", "noam", "warmupschedule", "scheduledoptim", "rate", "noamlr", "lrrate", "transformerschedule"),
        *("scheduledoptimizer", "noamscheduler", "noamlrscheduler", "transformerlrscheduler", "learningrate"),
        *("noamdecay", "warmupscheduler", "customschedule", "noamoptimizer", "transformerscheduler"),
        "learningrateschedule",
    ),
    source="Vaswani et al. 2017, section 5.3, equation 3",
    inputs=("steps",),
    defaults={"d_model": 48, "warmup": 20},
    build=lambda settings, recipe: Schedule(dict(settings), recipe),
    probes=schedule_probes,
    mistakes=("T7",),
    designs={
        "": {},
        "counted from 0": {"schedule_steps": "from 0"},  # as LambdaLR does
        "counted from 0, which is taken for 1": {"schedule_steps": "from 0, which is taken for 1"},
    },
)
