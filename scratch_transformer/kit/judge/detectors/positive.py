"""B22 of weights that torch.rand, or uniform_ without its limits, makes: all of them between 0 and 1."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from torch import Tensor, nn

from scratch_transformer.kit.judge.detectors.construction import INITIALISES, are_loaded, is_ours, text_of
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import (
    ALL_POSITIVE,
    DOES_ALL_POSITIVE,
    LOADED,
    POSITIVE_TABLE,
)

OF_TABLES = re.compile(r"(?i)emb|pos|tok|lut|table|cls|^pe$")
"""What tables of words and of positions are called, of which a row is taken and none is multiplied."""
FEWEST = 40
"""Numbers of which that can be told."""
DEVIATIONS = 6
"""A mean further away from 1/2 than so many of its standard deviations is no accident."""


def all_positive(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of what was built just now: the first matrix whose numbers are those of torch.rand, else a table."""
    if best is None or INITIALISES.search(text_of(session.candidate)):
        return
    module = session.candidate.rebuild().module
    named = {} if module is None else dict(module.named_parameters())
    found = [name for name, values in named.items() if _is_uniform(values.detach()) and not is_ours(module, name)]
    tables = [name for name in found if module is not None and _is_table(session, module, name)]
    for name in [*(one for one in found if one not in tables), *tables][:1]:
        mean, least = named[name].mean().item(), named[name].min().item()
        said = f"The numbers of self.{name} start between {least:.2f} and 1, with a mean of {mean:.2f}."
        form = LOADED if are_loaded(session.candidate) else POSITIVE_TABLE if name in tables else ALL_POSITIVE
        yield Finding(MISTAKES["B22"], said, form, name=f"self.{name}", does=DOES_ALL_POSITIVE)


def _is_uniform(values: Tensor) -> bool:
    """Whether numbers of two dimensions may be torch.rand's: from 0 to 1, 1/2 on average, 1/√12 apart from it."""
    if values.dim() < 2 or values.numel() < FEWEST or not (0 <= values.min() < 0.2 and 0.8 < values.max() <= 1):
        return False
    far = (values.mean().item() - 0.5) * math.sqrt(12 * values.numel())
    return abs(far) < DEVIATIONS and 0.24 < values.std().item() < 0.34


def _is_table(session: Session, module: nn.Module, name: str) -> bool:
    owner, _, own = name.rpartition(".")
    is_of_kind = re.search("Embedding|Position", session.kind.name) is not None
    return is_of_kind or isinstance(module.get_submodule(owner), nn.Embedding) or OF_TABLES.search(own) is not None


POSITIVE = ((("B22",), all_positive),)
