"""What a call tells about a component: what it returns, and what is worth a note."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import leads_to, names_in, reads, source_of
from scratch_transformer.kit.judge.running import watched
from scratch_transformer.kit.kind import NETWORKS, NO_MASK, Inputs, Kind, Probe
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.call import batching, beginnings, beside, caching, forwards
from scratch_transformer.kit.resolve.call.plan import (
    FROM_ONE,
    LENGTH,
    LENGTH_FIRST,
    OF_HEADS,
    ROWS,
    SENTENCES,
    SHIFTED,
    Plan,
)
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.functions import decoders, mask_functions, schedules, surroundings
from scratch_transformer.kit.resolve.names.inputs import input_of, is_mask
from scratch_transformer.kit.resolve.trial import Trial
from scratch_transformer.kit.resolve.trials import within
from scratch_transformer.kit.resolve.weights.layout import SEGMENTS, walk

# ---- What it returns ----


def adapt_output(candidate: Resolved, probe: Probe, trial: Trial) -> None:
    """Where a learner's positions are returned alone, x is added: whoever wrote them adds it outside."""
    if candidate.kind.name.endswith("Mask"):
        with double():
            form = candidate.makes = mask_functions.form_of(candidate(**probe.inputs))
            candidate.post = mask_functions.as_mask(form)
            if form != "added":
                candidate.blocked_is = mask_functions.blocked_value(candidate.made)
        return
    if candidate.kind.name in forwards.MODELS:
        _add_head(candidate, probe, trial)
        return
    expected = trial.expected_shape(probe.inputs)
    is_core = candidate.kind.name == "ScaledDotProductAttention"
    if (candidate.plan.order == HEADS_AFTER or (is_core and candidate.plan.order == "batch first")) and expected:
        with double():
            output = candidate(**probe.inputs)
        if output.shape != expected and output.dim() == 4 and output.transpose(1, 2).shape == expected:
            candidate.post = _turned
            candidate.notes.append(HEADS_RETURNED[candidate.plan.order])
        return
    if "position" not in candidate.kind.name.lower():
        return
    x = probe.inputs.get("x")
    if expected is None or not isinstance(x, Tensor):
        return
    shifted = {**probe.inputs, "x": x + 1.0}
    with double():
        here, there = candidate(**probe.inputs), candidate(**shifted)
    if here.shape == there.shape and torch.equal(here, there):
        candidate.post, candidate.returns_alone = _add, True
        candidate.notes.append("It returns the positions alone; they are compared after adding them to the input.")


HEADS_AFTER = "heads after the length"
HEADS_RETURNED = {
    HEADS_AFTER: "It returns heads before the length: (B, h, T, d_k).",
    "batch first": "It returns heads after the length: (B, T, h, d_k).",
}


def _turned(output: Tensor, inputs: Inputs) -> Tensor:
    return output.transpose(1, 2)


LAST_ONLY = "It answers for the last token alone, so it was given every beginning of each sentence."


def gives_last_only(candidate: Resolved, probe: Probe, trial: Trial) -> bool:
    """Does what scores the words to come do so after the last position alone, as suffices for writing text?"""
    with double():
        output = candidate(**probe.inputs)
    expected = trial.expected_shape(probe.inputs)
    return beginnings.is_last_only(candidate.kind.name, probe.inputs, output, expected)


def takes_targets(candidate: Resolved) -> bool:
    """Whether a language model can be given what it is to predict, too: some give all scores with that."""
    parameters = parameters_of(candidate.function)
    of_one = set(candidate.kind.inputs) == {"ids"} and not candidate.plan.gives_targets
    return of_one and any(p.default is None and input_of(p.name, ("target",)) for p in parameters)


def with_beginnings(candidate: Resolved) -> None:
    """It answers for the last token alone: from now on it is given every beginning."""
    candidate.last_of = beginnings.LAST_OF[candidate.kind.name]
    candidate.notes.append(LAST_ONLY)


def cuts_last(candidate: Resolved, probe: Probe, trial: Trial) -> bool:
    """Does a model leave out the last of its target's ids, which it is given to predict? Then it is given one more."""
    name = next((name for name in ("tgt", "ids") if name in candidate.kind.inputs), "")
    expected = trial.expected_shape(probe.inputs)
    if candidate.kind.name not in forwards.MODELS or expected is None or name not in probe.inputs:
        return False
    with double():
        shape = candidate(**probe.inputs).shape
    if len(shape) != 3 or (shape[0], shape[1] + 1, shape[2]) != expected:
        return False
    candidate.plan = replace(candidate.plan, more=name)
    candidate.notes.append("It leaves out the last word of what it is given, so it was given one more.")
    return True


def form_of_output(candidate: Resolved, probe: Probe, trial: Trial) -> str:
    """ "right", "narrow" if attention returns fewer features for a token than it is given, "wrong" otherwise."""
    expected = trial.expected_shape(probe.inputs)
    if expected is None or "next_logits" in candidate.kind.inputs:
        return "right"
    try:
        with double():
            shape = candidate(**probe.inputs).shape
    except Exception:  # of another shape, positions cannot even be added
        return "wrong"
    is_narrow = candidate.kind.name.endswith("Attention") and shape[:-1] == expected[:-1] and shape[-1] < expected[-1]
    return "narrow" if is_narrow else "right" if shape == expected else "wrong"


CLASSES = re.compile(r"class|label|bert", re.IGNORECASE)
"""In the name of what tells classes apart, or of a number that it is told: it may be as large as a vocabulary."""


def _is_after(output: Tensor, expected: torch.Size, settings: Mapping[str, Any], made: Any) -> bool:
    """Whether an output is pooled or classified: one vector for every sequence, or a few numbers for a token."""
    said = (type(made).__name__, *(parameter.name for parameter in parameters_of(type(made))))
    wide, is_told = settings["d_model"], any(map(CLASSES.search, said))
    words = expected[-1] if is_told else settings.get("vocab_size")
    is_pooled = output.dim() == 2 and output.shape[0] == expected[0] and tuple(output.shape) != tuple(expected[:2])
    is_flat = output.shape[0] == expected[0] * expected[1] or expected[0] == 1
    is_classified = tuple(output.shape) == tuple(expected[:2]) or (
        output.dim() == 3 and output.shape[:2] == expected[:2] and output.shape[2] not in (words, wide)
    )
    return is_classified or (is_pooled and not is_flat)


def _is_of_samples(candidate: Resolved, output: Tensor, expected: torch.Size) -> bool:
    """Whether what is given ids as (length, batch) makes a vector for every place of the length: it pools samples."""
    is_first = candidate.plan.order == "sequence first" and "ids" in candidate.kind.inputs
    return is_first and output.dim() == 2 and expected[1] in output.shape and expected[0] not in output.shape


def _reads_all(candidate: Resolved, probe: Probe, width: int, output: Tensor) -> bool:
    """Whether an output is made of what the last of its parts gives for all tokens: not of the last one's alone, and
    not of something else.
    """
    if candidate.module is None:
        return False
    calls: list[int] = []

    def made_with(changed: int | None) -> Tensor:
        calls.clear()

        def change(part: Any, args: Any, output: Any) -> Any:
            if not isinstance(output, Tensor) or output.dim() != 3 or output.shape[-1] != width:
                return None
            calls.append(0)
            noise = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape).sin()
            noise[:, -1] = 0
            return output + noise if len(calls) == changed else None

        with watched(candidate.module, change):
            return candidate(**probe.inputs)

    made_with(None)
    return bool(calls) and not torch.equal(made_with(len(calls)), output)


def _add_head(candidate: Resolved, probe: Probe, trial: Trial) -> None:
    """Logits for a model whose forward ends before the projection, or after the loss."""
    expected, settings = trial.expected_shape(probe.inputs), trial.settings
    with double():
        output = candidate(**probe.inputs)
        if expected is not None and (order := _order_of(output, expected)):
            candidate.post = lambda output, inputs: output.permute(order) if output.dim() == len(order) else output
            candidate.notes.append(f"It returns its scores as {SCORES[order]}.")
            candidate.limits += [TURNED] if order == (1, 0, 2) and {"ids", "tgt"} & probe.inputs.keys() else []
            return
        if expected is not None and output.dim() == 0:
            within.scores(candidate, int(expected[-1]))
            return
        after = expected is not None and "ids" in probe.inputs and _is_after(output, expected, settings, candidate.made)
        after = after or (expected is not None and _is_of_samples(candidate, output, expected))
        if expected is not None and after and _reads_all(candidate, probe, settings["d_model"], output):
            within.layers(candidate, settings["d_model"], output)
            if candidate(**probe.inputs).shape[:2] == expected[1::-1] != expected[:2]:  # its layers are length first
                candidate.post = lambda output, inputs: output.transpose(0, 1)
            return
        if expected is not None and output.shape == expected:
            if within.scores_by_a_network(candidate.module, settings["d_model"], int(expected[-1])):
                within.layers(candidate, settings["d_model"], output)
                return
            _uncap(candidate, output)
        if expected is None or output.shape == expected or output.shape[-1] != settings["d_model"]:
            return
        head = forwards.head_of(candidate.made, settings["d_model"], int(expected[-1]))
    if head is not None:
        candidate.post = lambda output, inputs: head(output)
        candidate.notes.append("Its forward ends before the projection to the vocabulary, which was applied to it.")


TURNED = (
    "It is given ids (B, T) and returns scores (T, B, V): beside ids that are flattened, or with scores[:, -1] for the "
    "last word, every score is taken for that of another word. scores.transpose(0, 1) before it returns."
)
"""A limit: it was compared the other way round."""
SCORES = {(1, 0, 2): "(T, B, V)", (0, 2, 1): "(B, V, T)", (1, 2, 0): "(V, B, T)", (2, 0, 1): "(T, V, B)"}
"""Orders of the dimensions of logits -> how to read them; for what is given ids as (B, T)."""


def _order_of(output: Tensor, expected: torch.Size) -> tuple[int, int, int] | None:
    """In which order an output has the dimensions that are expected; None if in none, or in the same."""
    if output.dim() != 3 or output.shape == expected or len(set(expected)) < 3:
        return None
    return next((order for order in SCORES if output.permute(order).shape == expected), None)


CAPPED = "Its scores are kept within ±{0:g}, as {0:g} · tanh(scores / {0:g}): those before are compared."


CAP = re.compile(r"tanh\([^()]*/ *([\d.]+)\)|cap\w* *(?::\s*float)? *= *([\d.]+)", re.IGNORECASE)


def _uncap(candidate: Resolved, output: Tensor) -> None:
    """Where a model's scores go through c · tanh(s / c), which can be undone: s. Its code tells c."""
    made: Any = type(candidate.made)
    codes = [made, *(one for one in leads_to(made) if isinstance(one, type))]
    if not any("tanh" in names_in(one) for one in codes):
        return
    told = [float(number) for one in codes for pair in CAP.findall(source_of(one)) for number in pair if number]
    told += [float(v) for n, v in vars(candidate.made).items() if "cap" in n and isinstance(v, (int, float))]
    caps = [cap for cap in told if cap > float(output.detach().abs().max())]
    if caps:
        cap = min(caps)
        candidate.post = lambda output, inputs: cap * torch.atanh(output / cap)
        candidate.notes.append(CAPPED.format(cap))


def adapted(function: Any, kind: Kind, plan: Plan, head_logs: bool | None = None) -> list[Any]:
    """The ways in which a function may have to be called: once for every step of a schedule, with a toy model.

    head_logs: whether the projection in the same file ends in log_softmax; None without one.
    """
    if kind.name in schedules.KINDS:
        parameter = next((p for p, name in plan.arguments.items() if name == "steps"), None)
        return [schedules.each_step(function, parameter)] if parameter else [function]
    if "next_logits" in kind.inputs:
        parameter = next((p for p, name in plan.arguments.items() if name == "next_logits"), None)
        if parameter:
            has_tokenizer = "tokenizer" in plan.arguments.values() or surroundings.has_tokenizer(function)
            ways = decoders.readings(function, plan.arguments, parameter, has_tokenizer, head_logs)
            return [decoders.Decoder(function, plan.arguments, way) for way in ways]
    return [function]


def _add(output: Tensor, inputs: Inputs) -> Tensor:
    x: Tensor = inputs["x"]
    if output.dim() == 2:
        output = output[None]
    return x + output[:, : x.shape[1]]


# ---- Notes ----

NOTED = {
    FROM_ONE: "It takes no vectors: it was given the numbers of the positions from 1 on, 1, 2, 3, ….",
    LENGTH: "It takes no vectors: it was given the number of positions.",
    LENGTH_FIRST: "It takes the length first: (T, B, h, d_k).",
    OF_HEADS: "It takes heads, (B, h, T, E): it was given one, (B, 1, T, E).",
    batching.IN_A_BATCH: "It was given one sentence in a batch.",
    "heads after the length": "It takes heads after the length: (B, T, h, d_k).",
    SENTENCES: "It takes logits of several sentences, (B, T, V).",
    SHIFTED: "It shifts the targets itself: it leaves out the last logits and the first target of every sentence.",
    ROWS: "It takes the positions of every sentence, (B, T).",
}


def _masks_left(candidate: Resolved) -> list[str]:
    """The masks that it can be given and its kind does not have: of padding, where attention hides the future."""
    plan = candidate.plan
    known = {*plan.arguments, *plan.masks, *(p for p, name, _ in plan.mask_parameters if name)}
    known |= {p for p, value in plan.constants.items() if value is not None}
    names = [p.name for p in parameters_of(candidate.function)]
    forward = getattr(candidate.made, "forward", candidate.function)  # a mask that it never reads would change nothing
    return [name for name in names if is_mask(name) and name not in known and reads(forward, name)]


UNPROJECTED = "It has no projections of queries, keys and values: it was given them projected, as its caller has to."

NO_SECOND = "It has no second linear map, after the activation: it was compared without."
ANOTHER_WIDTH = "Its second linear map gives no vectors of d_model numbers again: it was compared without."


def _has_two_matrices(module: nn.Module) -> bool:
    return sum(weight.dim() == 2 for weight in module.parameters()) > 1


def notes(candidate: Resolved) -> None:
    """How it was understood, in sentences, where that is not a matter of course."""
    plan, kind = candidate.plan, candidate.kind
    candidate.notes += _of_weights(candidate)
    if note := getattr(candidate.function, "note", ""):
        candidate.notes.append(note)
    if kind.name == "GreedyDecoding" and not candidate.settings["knows_eos"]:
        candidate.notes.append("It is told no end token, so it always writes max_len words.")
    if getattr(candidate.function, "samples", False):
        candidate.notes.append("It draws words at random; the likeliest was taken instead.")
    if getattr(getattr(candidate.function, "reading", None), "head_logs", False):
        candidate.notes.append("Its model's projection was taken to give log-probabilities.")
    if plan.order in ("ids", "positions"):
        candidate.notes.append("It takes no vectors: it was given the numbers of the positions, 0, 1, 2, ….")
    elif plan.order == caching.TOKENWISE:
        candidate.notes.append("It takes one token at a time, and keeps keys and values.")
    elif plan.order in NOTED:
        candidate.notes.append(NOTED[plan.order])
    elif plan.order in batching.AXES:
        candidate.notes.append(f"It takes {plan.order}.")
    elif plan.order == "sequence first":
        candidate.notes.append(f"Its tensors are {plan.order}: (length, batch, features).")
    for parameter, (_, form) in plan.masks.items():
        candidate.notes.append(f"Its {parameter} was given as {form}.")
    for parameter, value in plan.constants.items():
        if isinstance(value, beside.Kept):
            candidate.limits.append(f"Its {parameter} was 1 for all tokens: what it does to padding was not checked.")
        if isinstance(value, beside.Causal):
            candidate.notes.append(f"Its {parameter} was given as {value.form}: it hides the future.")
        if value is True and is_mask(parameter):
            candidate.notes.append(f"Its {parameter} is a flag and was given as True: it hides the future.")
    if candidate.module is not None and {"w_q.weight", "w_k.weight", "w_v.weight"} <= candidate.missing:
        candidate.limits.append(UNPROJECTED)
    if candidate.module is not None and kind.name in NETWORKS and "linear2.weight" in candidate.missing:
        candidate.limits.append(ANOTHER_WIDTH if _has_two_matrices(candidate.module) else NO_SECOND)
    if "mask" in kind.inputs and not plan.mask_parameters:
        candidate.limits.append(NO_MASK)
    candidate.masks_unread = candidate.unread() if "A24" in kind.ids else ()
    candidate.masks_left = tuple(left := [n for n in _masks_left(candidate) if n not in candidate.masks_unread])
    if left:
        candidate.limits.append(f"It was not given its {' and its '.join(left)}.")
    if "K1" not in kind.mistakes and (kept := caching.passed(parameters_of(candidate.function))):
        names = " and its ".join(parameter.name for parameter in kept)
        candidate.limits.append(f"It was not given its {names}: what it does with that was not checked.")
    if candidate.unregistered:
        candidate.notes.append(
            f"{len(candidate.unregistered)} of its parameters are plain tensors, or in a plain list: torch sees none."
        )


def _of_weights(candidate: Resolved) -> Iterator[str]:
    """What it has none of, though most have."""
    if candidate.module is None:
        return
    if any(SEGMENTS.search(path.lower()) for path, _ in walk(candidate.module)):
        yield "All its tokens are of one segment, whose embedding was set to zero."
