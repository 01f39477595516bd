"""Which ids a model hides by itself as padding, where nothing that it is told says so: src != 1, written in.

The vector of an id that is hidden matters to no other place of the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.call.plan import Plan
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import Resolved

SIDES = {"src": ("src_pad", "src_vocab_size"), "tgt": ("tgt_pad", "tgt_vocab_size"), "ids": ("pad", "vocab_size")}
"""Inputs of ids -> the settings of their padding, and of how many words there are."""
LENGTH, PLACE = 5, 1
"""Of the sentences that are tried; where in them the id stands that may be padding: in a decoder later ones see it."""


def found(made: Any, function: Any, kind: Kind, settings: Mapping[str, Any], plan: Plan) -> dict[str, int]:
    """The settings of padding that are other than assumed; {} if it hides what was assumed, nothing, or several ids."""
    is_told = any(name for _, name, _ in plan.mask_parameters)
    if is_told or not isinstance(made, nn.Module) or not any("mask" in name for name in kind.inputs):
        return {}
    sides = {name: SIDES[name] for name in SIDES if name in kind.inputs and SIDES[name][0] in settings}
    if not sides or not set(kind.inputs) <= {*SIDES, "mask", "src_mask", "tgt_mask"}:
        return {}
    candidate = Resolved(kind, made, dict(settings), plan)
    candidate.function = function
    pads: dict[str, int] = {}
    try:
        with double(), torch.no_grad():
            for side, (pad, words) in sides.items():
                if _matters(candidate, side, sides, settings, int(settings[pad])):
                    hidden = [
                        id for id in range(int(settings[words])) if not _matters(candidate, side, sides, settings, id)
                    ]
                    pads |= {pad: hidden[0]} if len(hidden) == 1 else {}
    except Exception:  # the learner's code may raise anything
        return {}
    return pads


def _matters(candidate: Resolved, side: str, sides: Mapping[str, Any], settings: Mapping[str, Any], id: int) -> bool:
    """Whether another vector for an id changes what is given for others."""
    few = min(int(settings[words]) for _, words in sides.values())
    others = [other for other in range(few) if other != id]
    sentence = torch.tensor([[others[place % len(others)] for place in range(LENGTH)]])
    inputs: dict[str, Any] = {name: sentence.clone() for name in sides}
    inputs |= {name: None for name in candidate.kind.inputs if name not in inputs}
    inputs[side][0, PLACE] = id
    before = candidate(**inputs)
    rows = [p for p in candidate.made.parameters() if p.dim() == 2 and p.shape[0] == settings[sides[side][1]]]
    kept = [table[id].clone() for table in rows]
    for table in rows:
        table[id] = 1.5 - 2.0 * table[id]
    after = candidate(**inputs)
    for table, values in zip(rows, kept, strict=True):
        table[id] = values
    return not torch.allclose(_of_others(before, side, id), _of_others(after, side, id))


def _of_others(output: Tensor, side: str, id: int) -> Tensor:
    """Without the place of the id, where it has one, and without its score; in whatever order the dimensions are."""
    for dim, size in enumerate(output.shape):
        left_out = id if size > LENGTH else PLACE if size == LENGTH and side != "src" else None
        kept = [index for index in range(size) if index != left_out]
        output = output.index_select(dim, torch.tensor(kept))
    return output
