"""B29 of what is no size of the whole: a width of heads, and a probability of dropout, that are told and not heard."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_own, line_at, nodes_of, parameters_of
from scratch_transformer.kit.judge.detectors.dropout import is_random
from scratch_transformer.kit.judge.detectors.told import CONFIG
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.training import in_training
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import (
    DROPS_ANYWAY,
    PART_DROPS_ANYWAY,
    WIDTH_OF_HEADS,
    WIDTH_OF_MEMORY,
)
from scratch_transformer.kit.syntax import arguments_of, is_open, last_name

WIDTH = re.compile(r"d_?k|d_?head|head_?(dim|size|width)|dim_?(per_?)?head|attention_head_size|dim_?k", re.IGNORECASE)
"""What tutorials call the width of a head."""
OF_ENCODER = re.compile(
    r"(enc|src|source|mem|context|cross)\w*(d_?model|dim|width|emb)|(d_?model|dim)_(enc|src|mem|context)"
)
"""The width of what an encoder gives, where a decoder's need not be the same."""
ODD = 7
"""A width of heads that nobody has."""
DROP = re.compile(r"(?i)drop|\bp\b|_p\b")
"""What a probability of dropout is called."""


def width_of_heads(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of attention with several heads, which are as wide as d_model and their number make them, whatever it is told."""
    candidate, heads = session.candidate, session.settings.get("num_heads", 1)
    if best is None or candidate.replaced or heads < 2 or not session.kind.name.endswith("Attention"):
        return
    for parameter in parameters_of(type(candidate.module)):
        if not WIDTH.fullmatch(parameter.name):
            continue
        try:
            other = candidate.rebuild(**{parameter.name: ODD})
        except Exception:  # it cannot be built with another
            return
        if other.inventory() == candidate.inventory() and _gives_the_same(session, other):
            said = f"Told {parameter.name} = {ODD}, it is what it was: its {heads} heads share d_model in any case."
            yield Finding(MISTAKES["B29"], said, WIDTH_OF_HEADS, name=parameter.name)


def width_of_the_encoder(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of what attends to an encoder, and is told how wide its output is: as wide as the decoder's, whatever it is."""
    candidate, names = session.candidate, [p.name for p in parameters_of(type(session.candidate.module))]
    if best is None or candidate.replaced or not {"memory", "key"} & {*session.kind.inputs}:
        return
    for name in [name for name in names if OF_ENCODER.search(name.lower())]:
        try:
            other = candidate.rebuild(**{name: 2 * session.settings["d_model"]})
        except Exception:  # it cannot be built with another
            return
        if other.inventory() == candidate.inventory() and _gives_the_same(session, other):
            said = f"Told {name} = {2 * session.settings['d_model']}, it is what it was: it takes no such tokens."
            yield Finding(MISTAKES["B29"], said, WIDTH_OF_MEMORY, name=name)


def probability(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of what drops in training, as much as before if it is told to drop nothing: torch.nn's layers are told 0.1."""
    if best is None or session.candidate.replaced or session.candidate.module is None:
        return
    try:
        none, half = (session.candidate.rebuild(dropout=p) for p in (0.0, 0.5))
        for one in (none, half):
            one.load(session.asked)
    except Exception:  # it has no such setting
        return
    is_told = "dropout" in none.told and none.inventory() == half.inventory() == session.candidate.inventory()
    if not is_told or not is_random(none, session.ran[0].probe, training=True):
        return
    first, second = (_in_training(session, one) for one in (none, half))
    if torch.equal(first, second):
        said = "Told dropout = 0, two calls in training mode differ; told 0.5, it drops the same elements."
        yield Finding(MISTAKES["B29"], said, DROPS_ANYWAY)
        return
    assert none.module is not None
    for path, p in _dropping(none.module):
        if line := _line_untold(none.module, path):
            said = f"Told dropout = 0, self.{path} drops {p:.0%} all the same. {DONE_AT}{line}"
            yield Finding(MISTAKES["B29"], said, PART_DROPS_ANYWAY)
            return


def _dropping(module: nn.Module) -> Iterator[tuple[str, float]]:
    """Where it has a dropout that drops, and how much."""
    for path, part in module.named_modules():
        p = getattr(part, "dropout" if isinstance(part, nn.MultiheadAttention) else "p", 0.0)
        if isinstance(part, (nn.Dropout, nn.MultiheadAttention)) and p > 0:
            yield path, p


def _line_untold(module: nn.Module, path: str) -> str:
    """The line of the first class on the way there that takes a probability, and makes without one what does so too."""
    names = path.split(".")
    parts = [module, *(module.get_submodule(".".join(names[:n])) for n in range(1, len(names) + 1))]
    parts = [part for part in parts if not isinstance(part, (nn.ModuleList, nn.ModuleDict, nn.Sequential))]
    for maker, made in itertools.pairwise(map(type, parts)):
        if is_own(maker) and _takes_probability(maker) and _takes_probability(made):
            calls = [node for node in nodes_of(maker, ast.Call) if last_name(node.func) == made.__name__]
            if untold := [node for node in calls if not _is_told(node)]:
                return line_at(maker, untold[0])
    return ""


def _takes_probability(cls: type) -> bool:
    return any(DROP.search(parameter.name) for parameter in parameters_of(cls))


def _is_told(node: ast.Call) -> bool:
    """Whether a call hands on a probability, or what may hold one: a configuration, **arguments."""
    given = [ast.unparse(one) for one in arguments_of(node)]
    return is_open(node) or any(DROP.search(one) or CONFIG.search(one) for one in given)


def _in_training(session: Session, candidate: Candidate) -> Tensor:
    """Its output in training mode, always with the same random numbers."""
    with torch.random.fork_rng(), in_training(candidate):
        torch.manual_seed(0)
        return call(candidate, session.ran[0].probe.inputs)


def _gives_the_same(session: Session, other: Candidate) -> bool:
    outputs = []
    for one in (other, session.candidate):
        one.load(session.asked)
        outputs.append(call(one, session.ran[0].probe.inputs))
    return torch.equal(*outputs)


UNHEARD = (
    (("B29",), width_of_heads), (("B29",), width_of_the_encoder), (("B29",), probability),
)  # fmt: skip
