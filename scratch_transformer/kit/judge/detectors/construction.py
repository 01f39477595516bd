"""When weights are made, and whether they are filled and shared."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from scratch_transformer.kit.definitions import text_of_file
from scratch_transformer.kit.judge import neighbours
from scratch_transformer.kit.judge.frames import DONE_AT, line_outside_constructors
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import NOISE, Session, distance
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import (
    LOADED,
    ONE_FOR_ALL,
    OWN_SHARE,
    SHARED_BOTH,
    SHARED_KEYS,
    SHARED_VALUES,
)

INITIALISES = re.compile(
    r"\.apply\((self\.)?\w*init|(?<!self)\.reset_parameters\(|parameters\(\)\s*:[\s\S]{0,200}?(init\.|xavier|kaiming|normal_|uniform_)"
)
"""In a file that has this, the whole may fill what its parts leave empty."""
MATRICES = re.compile(r"dim\(\) *> *1")
"""What it fills then are matrices only."""
LOADS, TRAINS = re.compile(r"\.load_state_dict\("), re.compile(r"\.backward\(|\bTrainer\(")
SHIFT = re.compile(r"(?i)bias|beta|shift|offset|^b\d*$")
"""Of a norm."""


# ---- Weights that are made in forward ----


def made_in_forward(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B21: a second call registers parameters, or gives other numbers though nothing is dropped out.

    A function is given its weights at every call, and may put them into modules.
    """
    probe = session.ran[0].probe
    first = call(session.candidate, probe.inputs)
    with _registered() as owners:
        second = call(session.candidate, probe.inputs)
    made = sorted({type(owner).__name__ for owner, _ in owners})
    line = next((line for _, line in owners if line), "")
    at, fix = f" {DONE_AT}{line}" if line else "", _made_once({type(owner) for owner, _ in owners}, line)
    apart = distance(first, second, probe)
    if apart > (0 if made else NOISE):
        what = f"Every call makes new {', '.join(made)}, so" if made else "Something in it is drawn at random, so"
        said = f"{what} two calls with one input differ by {100 * apart:.2g} %."
        yield Finding(MISTAKES["B21"], f"{said}{at}", explains=True, fix=fix)
    elif any("Norm" in name for name in made) and not hasattr(session.candidate.module, "function"):
        said = f"Every call makes a new {', '.join(made)}, which is never trained."
        yield Finding(MISTAKES["B21"], f"{said}{at}", fix=fix)


def _made_once(classes: set[type], line: str) -> str:
    """The fix for modules of one class, as the line has its name; "" for others."""
    found = re.search(rf"[\w.]*\b{next(iter(classes)).__name__}(?=\()", line) if len(classes) == 1 else None
    if found is None:
        return ""
    kept = next((one for one in ("norm", "linear", "embedding") if one in found[0].lower()), "layer")
    return f"self.{kept} = {found[0]}(…) in __init__; self.{kept}(x) in forward."


@contextlib.contextmanager
def _registered() -> Iterator[list[tuple[nn.Module, str]]]:
    """The modules that get parameters meanwhile, and the lines that make them."""
    owners: list[tuple[nn.Module, str]] = []
    hook = register_module_parameter_registration_hook(
        lambda owner, name, values: owners.append((owner, line_outside_constructors()))
    )
    try:
        yield owners
    finally:
        hook.remove()


# ---- Parameters that nobody fills ----


def uninitialised(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B22: built while torch.empty gives NaN, it has parameters that are NaN.

    Those that the judged one lacks are of a part that was given to the one which is built again.
    """
    text = text_of(session.candidate)
    filled_later = INITIALISES.search(text)
    if filled_later and not MATRICES.search(text):
        return
    with empty_is_nan():
        module = session.candidate.rebuild().module
    named = {} if module is None else dict(module.named_parameters())
    empty = [name for name, values in named.items() if values.isnan().any() and not is_ours(module, name)]
    judged = session.candidate.module
    own = [name for name in empty if judged is None or name in dict(judged.named_parameters())]
    left = [name for name in own if not (filled_later and named[name].dim() > 1)]
    if left:
        said = f"Nothing fills {', '.join(f'self.{name}' for name in left[:4])} after torch.empty."
        form = LOADED if are_loaded(session.candidate) else ""
        yield Finding(MISTAKES["B22"], said, form, name=f"self.{left[0]}", fix=_filled(module, left[0]))


def are_loaded(candidate: Candidate) -> bool:
    """Whether its file, or one beside it, loads parameters, and none trains."""
    path = _file_of(candidate)
    texts = [*neighbours.codes(Path(path))] if path else []
    return any(LOADS.search(text) for text in texts) and not any(TRAINS.search(text) for text in texts)


def _filled(module: nn.Module | None, name: str) -> str:
    """The fix for a parameter of one dimension, of which no fan is known; "" for a matrix."""
    if module is None or module.get_parameter(name).dim() > 1:
        return ""
    owner, _, own = name.rpartition(".")
    is_scale = "norm" in type(module.get_submodule(owner)).__name__.lower() and not SHIFT.search(own)
    made, why = ("ones", "a norm's scale starts at 1") if is_scale else ("zeros", "it starts at 0")
    return f"self.{own} = nn.Parameter(torch.{made}(…)): {why}."


def is_ours(module: nn.Module | None, name: str) -> bool:
    """Whether a parameter is of a part that the kit put in place of one that is missing."""
    owner = module and module.get_submodule(name.rpartition(".")[0])
    return type(owner).__module__.startswith("scratch_transformer.kit.")


@contextlib.contextmanager
def empty_is_nan() -> Iterator[None]:
    """What nobody fills after torch.empty is NaN in the block."""
    filling: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), filling.fill_uninitialized_memory
    set_deterministic: Any = torch._C._set_deterministic_algorithms  # the public one imports all of the compiler
    set_deterministic(True, warn_only=True)
    filling.fill_uninitialized_memory = True
    try:
        yield
    finally:
        set_deterministic(before[0])
        filling.fill_uninitialized_memory = before[1]


def text_of(candidate: Candidate) -> str:
    """The text of the file that a class is in; "" if it is in none."""
    path = _file_of(candidate)
    return text_of_file(path)


def _file_of(candidate: Candidate) -> str:
    """The file that a class is in; "" if it is in none."""
    try:
        return inspect.getsourcefile(type(candidate.module)) or ""
    except TypeError:
        return ""


# ---- One projection for all heads ----


def small_projections(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A28: the projections are block-diagonal, and perhaps all blocks are one."""
    heads = session.settings.get("num_heads", 1)
    if best is None or heads < 2:
        return
    for name, weight in session.state.items():
        if name.endswith(("w_q.weight", "w_k.weight", "w_v.weight")) and name not in session.candidate.missing:
            d_k = weight.shape[0] // heads
            blocks = [weight[i * d_k : (i + 1) * d_k, i * d_k : (i + 1) * d_k] for i in range(heads)]
            if weight.dim() == 2 and bool(blocks[0].any()) and torch.equal(weight, torch.block_diag(*blocks)):
                is_one = all(torch.equal(blocks[0], block) for block in blocks)
                what = "One matrix" if is_one else "A matrix"
                said = f"{what} of {d_k} × {d_k} projects each of the {heads} heads."
                yield Finding(MISTAKES["A28"], said, "" if is_one else OWN_SHARE)
                return


def shared_heads(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A28: fewer heads of keys or of values than of queries, by their weights: several that were asked for are one."""
    if best is None or session.settings.get("num_heads", 1) < 2 or _is_told_of_groups(session):
        return
    heads = session.settings["num_heads"]
    for name in (name for name in session.state if name.endswith("w_k.weight")):
        queries, keys, values = (_distinct_heads(session, name.replace("w_k.", f"w_{role}.")) for role in "qkv")
        if 0 < min(keys, values) < heads:
            one = SHARED_BOTH if keys == values else SHARED_KEYS if keys < values else SHARED_VALUES
            said = f"Heads that differ: {queries} of queries, {keys} of keys and {values} of values."
            yield Finding(MISTAKES["A28"], said, ONE_FOR_ALL if queries < heads else one)
            return


def _distinct_heads(session: Session, name: str) -> int:
    """Of queries, keys or values, whose weights differ from the head's before; 0 if there are no such weights."""
    heads = session.settings["num_heads"]
    heads = heads if name.endswith("w_q.weight") else session.settings.get("num_kv_heads") or heads
    weight = session.state[name]
    if name in session.candidate.missing or weight.shape[0] % heads:
        return 0
    blocks = weight.unflatten(0, (heads, -1))
    return 1 + sum(not torch.equal(block, other) for block, other in itertools.pairwise(blocks))


def _is_told_of_groups(session: Session) -> bool:
    """Whether the constructor takes a number of heads of keys and values: then sharing them is asked for."""
    try:
        return "num_kv_heads" in session.candidate.rebuild(num_kv_heads=1).told
    except KeyError:
        return False
    except Exception:  # the learner's code may raise anything
        return True


CONSTRUCTION = (
    (("B21",), made_in_forward),
    (("B22",), uninitialised),
    (("A28",), small_projections),
    (("A28",), shared_heads),
)
