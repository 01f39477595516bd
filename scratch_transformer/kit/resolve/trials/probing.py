"""Which of a kind's probes a candidate is called with: first those without masks or padding."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from scratch_transformer.kit.judge.running import calls_of, running
from scratch_transformer.kit.kind import Candidate, Probe
from scratch_transformer.kit.resolve.call import beside
from scratch_transformer.kit.resolve.call.plan import MASKS, Plan
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import Resolved, tensors
from scratch_transformer.kit.resolve.names.inputs import is_mask
from scratch_transformer.kit.resolve.trials.mask_search import with_required_masks

MOST_WAYS = 4
"""Forms of the masks that must be given, of which one is looked for that it can be called with."""


def open_probes(probes: Sequence[Probe]) -> list[Probe]:
    """Probes without a mask; where every probe has one, those without padding; or all."""
    without = [p for p in probes if all(p.inputs.get(name) is None for name in MASKS)]
    return without or [p for p in probes if not _is_padded(p)] or list(probes)


def is_alike(probe: Probe) -> bool:
    """Whether masks of the source and of the target have the same size: one in place of the other does not stop.

    Of attention's core: whether there are as many keys as queries.
    """
    if isinstance(probe.inputs.get("query"), torch.Tensor) and isinstance(probe.inputs.get("key"), torch.Tensor):
        return bool(probe.inputs["query"].dim() == 4) and probe.inputs["query"].shape == probe.inputs["key"].shape
    sides = [value for name, value in probe.inputs.items() if name in ("x", "ids", "memory", "src", "tgt")]
    are_two = len(sides) == 2 and all(isinstance(side, torch.Tensor) for side in sides)
    return are_two and sides[0].shape[:2] == sides[1].shape[:2]


def _is_padded(probe: Probe) -> bool:
    """Whether a key is there that no query may attend to."""
    given = [probe.inputs[name] for name in MASKS if isinstance(probe.inputs.get(name), torch.Tensor)]
    return any(mask.dim() > 1 and not bool(mask.any(-2).all()) for mask in given)


def probes_for(candidate: Resolved, probes: Sequence[Probe]) -> list[Probe]:
    """Those that can be given."""
    return [probe for probe in probes if candidate.accepts(probe.inputs)]


def distinct(plans: Iterator[Plan], function: Any, probes: Sequence[Probe]) -> Iterator[Plan]:
    """Without those that differ in a table of angles or positions only, where it changes nothing: in their form, say.

    All are called before the first is given, as trials change the weights.
    """
    seen: dict[Any, list[torch.Tensor]] = {}
    found: list[Plan] = []
    for plan in plans:
        if any(isinstance(value, (beside.Table, beside.Positions)) for value in plan.constants.values()):
            outputs = seen.setdefault((plan.order, tuple(plan.arguments.items())), [])
            output = _first_output(plan, function, open_probes(probes)[0])
            if output is not None and any(torch.equal(output, other) for other in outputs):
                continue
            outputs += [] if output is None else [output]
        found.append(plan)
    yield from found


def _first_output(plan: Plan, function: Any, probe: Probe) -> torch.Tensor | None:
    for way in itertools.islice(with_required_masks(plan, False), MOST_WAYS):
        try:
            with double(), torch.no_grad():
                return next(tensors(function(**way.give(probe.inputs))), None)
        except Exception:  # the learner's code may raise anything
            continue
    return None


def is_filled_up(candidate: Candidate, settings: Mapping[str, Any]) -> bool:
    """Whether it gives as many vectors as its longest sentence has words, however long the one that it is given."""
    probes = candidate.kind.probes(candidate.kind.complete(candidate.settings), 0)
    probe = next((probe for probe in probes if candidate.accepts(probe.inputs)), None)
    try:
        output = None if probe is None else candidate(**probe.inputs)
    except Exception:  # the learner's code may raise anything
        return False
    return output is not None and output.dim() == 3 and output.shape[1] == settings.get("max_len")


def masks_come_together(candidate: Candidate, part: type) -> bool:
    """Whether a part that takes several masks is ever given more than one at once; True if that is not seen."""
    signature, kind = inspect.signature(part.forward), candidate.kind  # type: ignore[attr-defined]
    names = [name for name in signature.parameters if is_mask(name)]
    if len(names) < 2:
        return True
    probes = kind.probes(kind.complete(candidate.settings), 0)
    given = [probe.inputs for probe in probes if candidate.accepts(probe.inputs)]
    try:
        calls = calls_of(part, candidate.module, lambda: [candidate(**inputs) for inputs in given])
        bound = [signature.bind(None, *args, **options).arguments for args, options in calls]
    except Exception:  # the learner's code may raise anything
        return True
    return not bound or max(sum(one.get(name) is not None for name in names) for one in bound) > 1


def never_called(candidate: Candidate) -> set[type]:
    """Classes of its parts that it has and does not use: what is wrong in them is no reason for its numbers."""
    module, kind = candidate.module, candidate.kind
    probes = kind.probes(kind.complete(candidate.settings), 0)
    probe = next((probe for probe in probes if candidate.accepts(probe.inputs)), None)
    if module is None or probe is None:
        return set()
    try:
        called = running(module, lambda: candidate(**probe.inputs))
    except Exception:  # the learner's code may raise anything
        return set()
    return {type(part) for part in module.modules()} - {type(part) for part in called}
