"""AdamW, the cosine schedule, clipped gradients, and sampling: what a language model is trained and asked with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.canonical import optimizing as canonical
from scratch_transformer.kit.kind import Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds.choices import combined
from scratch_transformer.kit.kinds.inputs import Draw
from scratch_transformer.kit.recipe import Recipe


def adamw_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, n = Draw(seed), 6
    tiny = torch.logspace(0, -7, n, dtype=torch.float64)
    weights, gradients = draw.normal(n), draw.normal(5, n)
    return (
        Probe("gradients", {"weights": weights, "gradients": gradients}, shows="five steps"),
        Probe(
            "tiny gradients", {"weights": weights, "gradients": gradients * tiny}, shows="gradients about as small as ε"
        ),
    )


def builtin_adamw(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    """torch.optim's; the other ε by its own options, set anew for every step."""
    weights = torch.nn.Parameter(inputs["weights"].clone())
    betas = settings["beta1"], settings["beta2"]
    builtin = torch.optim.Adam if recipe.decay == "in the gradient" else torch.optim.AdamW
    told = {"lr": settings["lr"], "eps": settings["eps"], "weight_decay": settings["weight_decay"]}
    optimizer = builtin([weights], betas=betas, **told)
    found = []
    for t, gradient in enumerate(inputs["gradients"], 1):
        if recipe.adam_eps == "uncorrected":
            optimizer.param_groups[0]["eps"] = settings["eps"] / (1 - betas[1] ** t) ** 0.5
        weights.grad = gradient.clone()
        optimizer.step()
        found.append(weights.detach().clone())
    return torch.stack(found)


ADAMW = Kind(
    name="AdamW",
    what="Moves every weight against its gradient, in steps of about one size, and shrinks it a little.",
    synonyms=("adamw", "adam", "myadamw", "adamwoptimizer", "customadamw"),
    source="Loshchilov & Hutter 2019, algorithm 2; Kingma & Ba 2015, algorithm 1",
    inputs=("weights", "gradients"),
    defaults={"lr": 0.05, "beta1": 0.8, "beta2": 0.95, "eps": 1e-4, "weight_decay": 0.3},
    build=lambda settings, recipe: canonical.AdamW(dict(settings), recipe),
    probes=adamw_probes,
    mistakes=("O1", "O2", "O3", "O4", "O5", "O12"),
    designs={
        "": {},
        "ε on the root of the plain second moment": {"adam_eps": "uncorrected"},
    },
    oracle=builtin_adamw,
    builtin="torch.optim.AdamW",
)
OF_L2 = {
    "": {"decay": "in the gradient"},
    "ε on the root of the plain second moment": {"decay": "in the gradient", "adam_eps": "uncorrected"},
}
ADAM = replace(
    ADAMW,
    name="Adam",
    what="Moves every weight against its gradient, in steps of about one size; a weight decay is part of the gradient.",
    synonyms=("adam", "myadam", "adamoptimizer", "customadam"),
    source="Kingma & Ba 2015, algorithm 1",
    mistakes=("O1", "O2:beside the step too", "O3", "O4", "O5", "O12"),
    designs={**OF_L2, **{f"a weight decay of its own{', ' * bool(n)}{n}": d for n, d in ADAMW.designs.items()}},
    builtin="torch.optim.Adam",
)


DECAY_GROUPS = Kind(
    name="DecayGroups",
    what="Says which weights the optimizer shrinks: matrices, but no norms and no biases.",
    synonyms=("configureoptimizers", "paramgroups", "parametergroups", "optimgroups", "optimizergroupedparameters"),
    source="He et al. 2019, section 3.1; Loshchilov & Hutter 2019, algorithm 2",
    inputs=("decay",),
    defaults={"weight_decay": 0.3, "lr": 0.05},
    build=lambda settings, recipe: canonical.DecayGroups(dict(settings), recipe),
    probes=lambda settings, seed: (
        Probe("groups", {"decay": torch.tensor([settings["weight_decay"]])}, shows="a model with embeddings and norms"),
    ),
    mistakes=("O11",),
    designs={"": {}, "embeddings do not shrink": {"decays_embeddings": False}},
)


def cosine_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    total = settings["total"]
    steps = torch.arange(total + 9)
    steps = steps[steps != total]  # where what ends wrongly may be cut off already, or not yet
    return (
        Probe("steps", {"steps": steps[:total]}, shows="steps up to the end"),
        Probe("after", {"steps": steps}, shows="steps after the end too"),
    )


WARMUPS = {
    "": {"cosine_warmup": "from 0"},
    "the first step has a part already": {"cosine_warmup": "from 1"},
    "the first step has a part already, of warmup + 1": {"cosine_warmup": "from 1, to 1"},
    "counted from 1": {"cosine_steps": "from 1"},
}
ENDS = {
    "": {},
    "up from the least rate, and again and again": {"cosine_rise": "from the least", "cosine_end": "again"},
    "up from the least rate": {"cosine_rise": "from the least"},
    "again and again": {"cosine_end": "again"},
}
"""Warm restarts begin anew after their last step."""
COSINE = Kind(
    name="CosineSchedule",
    what="The learning rate of every step: a rise in a straight line, then half a cosine down to the least.",
    synonyms=(
        *("getlrcosineschedule", "cosineschedule", "lrcosineschedule", "cosinelrschedule", "getcosinelr", "getlr"),
        *("cosineannealing", "cosinelr", "learningrateschedule", "lrschedule", "cosinewarmup", "cosinescheduler"),
        *("warmupcosine", "cosinewithwarmup", "cosineannealingschedule", "getcosineschedulewithwarmup"),
        *("learningrateschedulewithcosineannealing", "cosinelearningrate", "cosinelearningrateschedule"),
    ),
    source="Loshchilov & Hutter 2017, section 3; Radford et al. 2018, section 4.1",
    inputs=("steps",),
    defaults={"max_lr": 0.3, "min_lr": 0.07, "warmup": 8, "total": 40},
    build=lambda settings, recipe: canonical.CosineSchedule(dict(settings), recipe),
    probes=cosine_probes,
    mistakes=("O6", "O7", "O8"),
    designs=combined(WARMUPS, ENDS),
)


OF_LINES = {
    "": {"cosine_falls": "in a straight line"},
    "its end is the last step": {"cosine_falls": "in a straight line", "cosine": "to the last step"},
    "its end is a step earlier": {"cosine_falls": "in a straight line", "cosine": "a step early"},
}
OF_ANY_CURVE = (
    *("upside down", "without the least rate", "the least rate is not added"),
    "the least rate is added to all of it",
)
"""Forms of O7 that a line has as well."""
LINE = replace(
    COSINE,
    name="LinearSchedule",
    what="The learning rate of every step: a rise in a straight line, then a fall in another one.",
    synonyms=(
        *("linearschedule", "linearschedulewithwarmup", "getlinearschedulewithwarmup", "linearwarmupdecay"),
        *("lineardecay", "linearlr", "linearlrschedule", "warmuplineardecay", "linearwarmuplineardecay"),
    ),
    source="Devlin et al. 2019, appendix A.2",
    mistakes=("O6", *(f"O7:{form}" for form in OF_ANY_CURVE), "O8"),
    designs=combined(OF_LINES, WARMUPS),
)


def clipping_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw = Draw(seed)
    long = [draw.normal(3, 2), draw.normal(5, scale=3), draw.normal(2, 2)]
    short = [g * 0.01 for g in long]
    return (
        Probe("long", {"gradients": long}, shows="gradients longer than allowed"),
        Probe("short", {"gradients": short}, shows="gradients that are short enough"),
    )


def builtin_clipping(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    weights = [torch.nn.Parameter(torch.zeros_like(g)) for g in inputs["gradients"]]
    for weight, gradient in zip(weights, inputs["gradients"], strict=True):
        weight.grad = gradient.clone()
    if recipe.clip_eps == 1e-6:
        torch.nn.utils.clip_grad_norm_(weights, settings["max_norm"])
    else:
        norm = torch.nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])
        for weight in weights:
            assert weight.grad is not None
            weight.grad *= min(1.0, settings["max_norm"] / (float(norm) + recipe.clip_eps))
    return torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])


CLIPPING = Kind(
    name="GradientClipping",
    what="Shortens the gradient of all weights together to a greatest length.",
    synonyms=(
        *("gradientclipping", "clipgradnorm", "clipgradients", "gradclipping", "clipgradient", "gradientclip"),
        *("clipgradnorml2", "clipgrads", "gradclip", "clipgradbynorm", "clipgradl2norm"),
    ),
    source="Pascanu et al. 2013, algorithm 1",
    inputs=("gradients",),
    defaults={"max_norm": 2.5},
    build=lambda settings, recipe: canonical.GradientClipping(dict(settings), recipe),
    probes=clipping_probes,
    mistakes=("O9", "O10"),
    designs={"": {}, "without ε": {"clip_eps": 0.0}},
    oracle=builtin_clipping,
    builtin="torch.nn.utils.clip_grad_norm_",
)


def sampling_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw = Draw(seed)
    return tuple(
        Probe(f"logits {i}", {"logits": draw.normal(9, scale=scale)}, shows="random logits")
        for i, scale in enumerate((0.5, 0.7, 0.3, 1.0, 0.1, 0.4))
    )


NEUTRAL = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "penalty": 1.0}
"""Options of sampling that change nothing."""


def chosen(parameters: tuple[str, ...]) -> dict[str, Any]:
    """The settings of sampling by which parameters a function has: what it cannot be told is neutral."""
    told = {"temperature": 0.6, "top_k": 5, "top_p": 0.65, "penalty": 1.6}
    return {name: told[name] if name in parameters else NEUTRAL[name] for name in told}


SAMPLING = Kind(
    name="Sampling",
    what="Draws the next id by its probability, of the likeliest ones only.",
    synonyms=(
        *("sample", "samplenexttoken", "sampletoken", "sampling", "sampletopp", "sampletopk", "topp", "topk"),
        *("toppsampling", "topksampling", "nucleussampling", "samplefromlogits", "samplelogits", "nextpredictedtoken"),
        *(
            *("topkfiltering", "toppfiltering", "topktoppfiltering", "filterlogits", "toplogits", "nucleus"),
            "temperaturesampling",
        ),
        *("softmaxwithtemperature", "softmaxwithtemp", "softmaxtemperature", "topplogits", "topklogits"),
    ),
    source="Holtzman et al. 2020, sections 3.1 and 3.2; Fan et al. 2018, section 5.4",
    inputs=("logits",),
    defaults={**chosen(("temperature", "top_k", "top_p", "penalty"))},
    build=lambda settings, recipe: canonical.Sampling(dict(settings), recipe),
    probes=sampling_probes,
    mistakes=("S1", "S2", "S3", "S4", "S5"),
    designs=combined(
        {
            "": {},
            "top-p before the temperature": {"temperature": "after top-p"},
            "top-p of all ids, beside top-k": {"nucleus": "of all ids"},
        },
        {
            "": {},
            "a penalty for new words alone": {"penalty": "of new words"},
            "a penalty for each time that it was said": {"penalty": "each time"},
        },
    ),
)
