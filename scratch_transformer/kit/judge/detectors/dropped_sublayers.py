"""Which sublayers of a layer have an output that is dropped, and which have not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch import Tensor, nn

from scratch_transformer.kit.definitions import leads_to, parameters_of, source_of
from scratch_transformer.kit.judge.detectors.dropout import (
    BUILT,
    Half,
    is_random,
    of_last,
    to_evaluation,
    without,
)
from scratch_transformer.kit.judge.places import THREE
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import NOISE, Session, distance
from scratch_transformer.kit.judge.training import with_dropout
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import NETWORKS, Candidate, Finding, Probe
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.blocks import KEPT, NOT_DROPPED

TODAY = ("LlamaBlock", "MaskedLlamaBlock")
"""Of these, many drop nothing: that one sublayer's output is dropped says that the others' were to be."""


def residual_dropout(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B6: sublayers that return a constant, by weights of zero, still differ between calls where they are dropped.

    Each is asked alone: the others return nothing meanwhile. What is not told how much to drop may still drop one
    sublayer's output, and not another's.
    """
    kind = session.kind.name
    if not (kind.endswith("Layer") or kind in ("ResidualConnection", *TODAY)):
        return
    if best is not None and any(best.recipe.within(norm).norm_order == "neither" for norm in THREE):
        return  # there is no sum
    silent = without(session.asked, "weight")
    is_told = _is_told_of_more_than_weights(session)
    candidate = with_dropout(session, silent, beside_lent=True) if is_told else None
    has_biases = not of_last(silent, "bias") & session.candidate.missing
    if not has_biases and (best is None or any(best.recipe.within(norm).norm_order != "pre" for norm in THREE)):
        return  # behind a norm of the sum no feature is as it was
    lent = _lent(session.candidate.module)
    is_to_drop = has_biases and not lent and kind not in TODAY
    if is_to_drop and candidate is not None and not is_random(candidate, session.ran[0].probe, training=True):
        what = " give the same output" if kind == "ResidualConnection" else " drop no sublayer's output"
        yield Finding(MISTAKES["B6"], f"{BUILT}{what}.")
        return
    drops = _drops_each(session, candidate or session.candidate, has_biases)
    own = {SUBLAYERS[name]: drop for name, drop in drops.items() if name not in lent}
    left, dropped = ([name for name, drop in own.items() if drop == which] for which in (False, True))
    of_left = " and ".join(left)
    if left and dropped:
        said = f"With dropout = 0.5, training mode drops the output of {' and '.join(dropped)}, but not that of"
        yield Finding(MISTAKES["B6"], f"{said} {of_left}.", NOT_DROPPED.format(of_left))
    elif left and lent and has_biases and candidate is not None and kind not in TODAY:
        yield Finding(MISTAKES["B6"], f"{BUILT} do not drop the output of {of_left}.", KEPT.format(of_left))


SUBLAYERS = {
    "self_attn": "self-attention",
    "cross_attn": "the attention to the encoder",
    "feed_forward": "the feed-forward network",
}
"""In words, by what names of weights begin with."""


def _lent(module: nn.Module | None) -> set[str]:
    """The sublayers in whose place the reference's are, which drop nothing: a lent norm is none of them."""
    found: set[str] = set()
    for part in module.modules() if module is not None else ():
        kind = str(getattr(type(part), "kind_name", "LayerNorm"))  # a supplied part tells what it is
        of_attention = {name for name in SUBLAYERS if name.endswith("attn")}
        if kind.endswith("Attention"):
            found |= of_attention
        elif not kind.endswith("Norm"):
            found |= SUBLAYERS.keys() - (of_attention if kind in NETWORKS else set())
    return found


def _drops_each(session: Session, candidate: Candidate, has_biases: bool) -> dict[str, bool]:
    """Of each sublayer of a layer, whether its output is dropped while the others return 0.

    Only of those whose output goes on to the layer's then. That is its last bias; without one, all that it computes.
    """
    probe, found = session.ran[0].probe, {}
    nothing = without(session.asked, "weight", "bias")
    try:
        candidate.load(nothing)
        to_evaluation(candidate)
        still = call(candidate, probe.inputs)
        for name in SUBLAYERS:
            last = of_last(session.asked, "bias" if has_biases else "weight")
            own = {one for one in last if one.startswith(f"{name}.")}
            candidate.load(nothing | {one: session.asked[one] for one in own})
            if distance(call(candidate, probe.inputs), still, probe) > NOISE:
                with Half():
                    drops = is_random(candidate, probe, training=True)
                    found[name] = drops and (has_biases or _adds_zeros(candidate, probe, still))
                to_evaluation(candidate)
    finally:
        candidate.load(session.asked)
        to_evaluation(candidate)
    return found


def _adds_zeros(candidate: Candidate, probe: Probe, still: Tensor) -> bool:
    """Whether training adds 0 to some features of a token, and not to others: what is dropped inside is mixed."""
    assert candidate.module is not None
    candidate.module.train()
    added = call(candidate, probe.inputs) - still
    return bool(((added == 0).any(-1) & (added != 0).any(-1)).any())


FROM_CONFIG = re.compile(r"\b(?:\w*config|cfg|args|hparams)\.(\w*drop\w*)")


def _is_told_of_more_than_weights(session: Session) -> bool:
    """Whether one probability that its class is told, or reads from a config, is not the attention's by its name."""
    cls = type(session.candidate.module)
    texts = [source_of(one) for one in (cls, *leads_to(cls)) if isinstance(one, type)]
    told = [p.name for p in parameters_of(cls) if "drop" in p.name]
    told += [name for text in texts for name in FROM_CONFIG.findall(text)]
    return not told or not all("att" in name for name in told)


DROPPED_SUBLAYERS = ((("B6",), residual_dropout),)
