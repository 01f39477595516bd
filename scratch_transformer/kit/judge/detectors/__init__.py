"""What no variant can show: inventories, behaviour in training, other settings, crashes.

A detector is a function (session, best hypothesis or None) -> findings. It runs where the kind can have its mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scratch_transformer.kit.judge.detectors.asked_parts import ASKED_PARTS
from scratch_transformer.kit.judge.detectors.behaviour import BEHAVIOUR
from scratch_transformer.kit.judge.detectors.besides import BESIDES
from scratch_transformer.kit.judge.detectors.boolean_masks import BOOLEAN_MASKS
from scratch_transformer.kit.judge.detectors.by_hand import BY_HAND
from scratch_transformer.kit.judge.detectors.cache import CACHE
from scratch_transformer.kit.judge.detectors.construction import CONSTRUCTION
from scratch_transformer.kit.judge.detectors.default_devices import DEFAULT_DEVICES, WRITERS_DEVICES
from scratch_transformer.kit.judge.detectors.defaults import DEFAULTS
from scratch_transformer.kit.judge.detectors.devices import DEVICES
from scratch_transformer.kit.judge.detectors.dropout import DROPOUT
from scratch_transformer.kit.judge.detectors.dropped import DROPPED, OWN_DROPOUT
from scratch_transformer.kit.judge.detectors.dropped_sublayers import DROPPED_SUBLAYERS
from scratch_transformer.kit.judge.detectors.embedding import EMBEDDING
from scratch_transformer.kit.judge.detectors.flags import FLAGS
from scratch_transformer.kit.judge.detectors.future import FUTURE
from scratch_transformer.kit.judge.detectors.generators import USED_UP
from scratch_transformer.kit.judge.detectors.gradients import GRADIENTS
from scratch_transformer.kit.judge.detectors.handed import HANDED
from scratch_transformer.kit.judge.detectors.infinity import INFINITY
from scratch_transformer.kit.judge.detectors.inventory import INVENTORY
from scratch_transformer.kit.judge.detectors.padding import PADDING
from scratch_transformer.kit.judge.detectors.positive import POSITIVE
from scratch_transformer.kit.judge.detectors.rounded_angles import ROUNDED
from scratch_transformer.kit.judge.detectors.samples import SAMPLES
from scratch_transformer.kit.judge.detectors.settings import SETTINGS
from scratch_transformer.kit.judge.detectors.tables_of_files import TABLES_OF_FILES
from scratch_transformer.kit.judge.detectors.temperature import TEMPERATURE
from scratch_transformer.kit.judge.detectors.told import TOLD
from scratch_transformer.kit.judge.detectors.unheard import UNHEARD
from scratch_transformer.kit.judge.detectors.unread import UNREAD_MASKS
from scratch_transformer.kit.judge.detectors.whole_nucleus import WHOLE_NUCLEUS
from scratch_transformer.kit.judge.detectors.widths import WIDTHS
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding

Detector = Callable[[Session, Hypothesis | None], Iterator[Finding]]
DETECTORS: tuple[tuple[tuple[str, ...], Detector], ...] = (
    *CACHE,
    *INVENTORY,
    *CONSTRUCTION,
    *POSITIVE,
    *DEVICES,
    *DEFAULT_DEVICES,
    *BEHAVIOUR,
    *INFINITY,
    *GRADIENTS,
    *BY_HAND,
    *DROPOUT,
    *DROPPED_SUBLAYERS,
    *DROPPED,
    *EMBEDDING,
    *ROUNDED,
    *SETTINGS,
    *WIDTHS,
    *TOLD,
    *UNHEARD,
    *UNREAD_MASKS,
    *FLAGS,
    *HANDED,
    *OWN_DROPOUT,
    *PADDING,
    *BOOLEAN_MASKS,
    *FUTURE,
    *SAMPLES,
    *TABLES_OF_FILES,
    *TEMPERATURE,
    *WHOLE_NUCLEUS,
    *WRITERS_DEVICES,
    *USED_UP,
    *DEFAULTS,
    *BESIDES,
    *ASKED_PARTS,
)


def detected(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """What all detectors find. One that fails on somebody's code finds nothing."""
    for ids, detect in DETECTORS:
        if set(ids) & session.kind.ids:
            try:
                findings = list(detect(session, best))
            except Exception:  # the learner's code may raise anything
                continue
            yield from (finding for finding in findings if finding.mistake.id in session.kind.ids)
