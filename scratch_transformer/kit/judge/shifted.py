"""Whether a decoder shifts its target by itself, as tensor2tensor's does: what it is given are the labels then."""

from __future__ import annotations

import torch

from scratch_transformer.kit.judge.session import NOISE, Session, distance
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Probe

TARGETS = {"Transformer": "tgt", "TokenDecoder": "ids", "Decoder": "x"}
"""What a kind is given the target as."""
SHIFTS = (
    "It shifts its target by itself: what it gives for a token depends on those before it, and not on that token. It "
    "was compared with one whose target is shifted already."
)


def shifts_its_target(session: Session) -> str:
    """That it does, of what nothing explains; "" of what does not, or stops.

    A mask that hides a token from itself leaves it in the residual connection.
    """
    name, probe = TARGETS.get(session.kind.name, ""), session.ran[0].probe
    if not name:
        return ""
    try:
        given = call(session.candidate, probe.inputs)
        own, earlier = (call(session.candidate, {**probe.inputs, name: _without(probe, name, n)}) for n in (-1, -2))
    except Exception:  # the learner's code may raise anything
        return ""
    last = Probe("last", {})
    is_blind = distance(own[:, -1], given[:, -1], last) <= NOISE < distance(earlier[:, -1], given[:, -1], last)
    return SHIFTS if is_blind else ""


def _without(probe: Probe, name: str, place: int) -> torch.Tensor:
    """The target with another token in a place, in every sample: no padding, where there are two words."""
    changed: torch.Tensor = probe.inputs[name].clone()
    if changed.is_floating_point():
        changed[:, place] = -changed[:, place]
    else:
        one, other = changed.unique()[-2:]
        changed[:, place] = torch.where(changed[:, place] == one, other, one)
    return changed
