"""Which of a kind's probes a candidate is called with: first those without masks or padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from scratch_transformer.kit.kind import Probe
from scratch_transformer.kit.resolve.call.plan import MASKS
from scratch_transformer.kit.resolve.candidate import Resolved


def open_probes(probes: Sequence[Probe]) -> list[Probe]:
    """Probes without a mask; where every probe has one, those without padding; or all."""
    without = [p for p in probes if all(p.inputs.get(name) is None for name in MASKS)]
    return without or [p for p in probes if not _is_padded(p)] or list(probes)


def is_alike(probe: Probe) -> bool:
    """Whether masks of the source and of the target have the same size: one in place of the other does not stop."""
    x, memory = probe.inputs.get("x"), probe.inputs.get("memory")
    return isinstance(x, torch.Tensor) and isinstance(memory, torch.Tensor) and x.shape == memory.shape


def _is_padded(probe: Probe) -> bool:
    """Whether a key is there that no query may attend to."""
    given = [probe.inputs[name] for name in MASKS if isinstance(probe.inputs.get(name), torch.Tensor)]
    return any(mask.dim() > 1 and not bool(mask.any(-2).all()) for mask in given)


def probes_for(candidate: Resolved, probes: Sequence[Probe]) -> list[Probe]:
    """Those that can be given."""
    return [probe for probe in probes if candidate.accepts(probe.inputs)]
