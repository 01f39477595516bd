"""Which of a learner's weights stands for which canonical one: the layout that explains its outputs best."""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit import clock
from scratch_transformer.kit.judge.running import running
from scratch_transformer.kit.kind import Probe
from scratch_transformer.kit.resolve.candidate import Resolved, tensors
from scratch_transformer.kit.resolve.trial import MISTAKEN, NOTHING, Score, Trial
from scratch_transformer.kit.resolve.weights import align
from scratch_transformer.kit.resolve.weights.besides import leave_out
from scratch_transformer.kit.resolve.weights.layout import Layout, Parameters, prepare, walk

if TYPE_CHECKING:
    from scratch_transformer.kit.resolve.library.library import Library

SECONDS = 2.0
"""Of computing, for the search for weights in one way to build and call a component."""
MOST_LAYOUTS, MOST_MISTAKEN = 150, 40
ATTENTIONS = "attentions"
"""How the note on a layout begins that has a layer's attentions the other way round."""
BOTH = "does for both"
"""How it ends if there is one for both."""


IDLE: weakref.WeakKeyDictionary[nn.Module, dict[str, list[str]]] = weakref.WeakKeyDictionary()
"""What was found out about modules before, in other ways to call them."""


def find_weights(
    candidate: Resolved, trial: Trial, probes: list[Probe], library: Library, thorough: bool = True
) -> Score:
    """Sets the layout that explains the outputs best: a right design before a mistake, the usual before the unusual."""
    if candidate.module is None or not trial.shapes:
        return trial.score(candidate, probes, library.most_tiers)
    candidate.parameters = Parameters(candidate.module)  # after the first call: lazy modules have their shapes now
    prepare(candidate.module)
    if library.leaves_out:
        candidate.besides_layers = leave_out(candidate.module) or candidate.besides_layers
        candidate.parameters = Parameters(candidate.module)
    return _found(candidate, trial, probes, library, thorough)


def _without_idle(
    candidate: Resolved, trial: Trial, probes: list[Probe], library: Library, thorough: bool, enough: int = NOTHING
) -> Score:
    """The same, the weights on which nothing depends being no part of it; the score is NOTHING if there are none.

    enough: what it must be less than: a norm that is made and not used is a mistake, and no weight to be left out.
    """
    assert candidate.parameters is not None and candidate.module is not None
    idle = _idle(candidate, probes[0]) if probes and not (library.is_late and library.hurries) else {}
    if not idle:
        return NOTHING, float("inf")
    before = candidate.parameters, candidate.layout, candidate.missing
    candidate.parameters = Parameters(candidate.module, [name for names in idle.values() for name in names])
    again = _found(candidate, trial, probes, library, thorough, is_whole=False)
    if again[0] >= enough or (again[0] == MISTAKEN and _leaves_out_the_first(before[0], idle)):
        candidate.parameters, candidate.layout, candidate.missing = before
        candidate.explained, candidate.shown = None, {}
        return NOTHING, float("inf")
    unused = _unused(candidate, before[0], probes[0], idle)
    paths = dict.fromkeys(re.sub(r"\.\d+(?=\.|$)", "", path) for path in unused)  # the same of every layer
    if paths:
        candidate.notes.append(f"Nothing depends on its {' and '.join(paths)}.")
    candidate.idle = tuple(path for path in unused if path in _first_level(before[0]))
    return again


OF_A_LIST = re.compile(r"(.*?(?:\.|(?i:layer|block)_?))(\d+)\.")
"""layers.0.norm.weight, layers.DecoderLayer_0.norm.weight."""


def _leaves_out_the_first(parameters: Parameters, idle: Mapping[str, list[str]]) -> bool:
    """Whether nothing depends on the first layer of a list, but on a later one: such is not made of fewer layers."""
    unused = {name for names in idle.values() for name in names}
    lists: dict[str, dict[str, bool]] = {}
    for name in parameters.tensors:
        if (found := OF_A_LIST.match(name)) is not None:
            layers = lists.setdefault(found[1], {})
            layers[found[2]] = layers.get(found[2], True) and name in unused
    return any(is_unused[0] and not all(is_unused) for is_unused in ([*layers.values()] for layers in lists.values()))


def _unused(candidate: Resolved, parameters: Parameters, probe: Probe, idle: Mapping[str, list[str]]) -> list[str]:
    """Of parts on which what is compared does not depend, those on which nothing does.

    Other things that are returned beside it may: the pooled sentence, and what is told from that. Of a model whose
    layers are compared, what runs after them may do its work there.
    """
    parts = dict(candidate.module.named_modules()) if candidate.module is not None else {}
    if candidate.ends_within:
        runs = running(candidate.module, lambda: _output(candidate, probe))
        return [path for path in idle if path in parts and parts[path] not in runs]
    expected = _returned(candidate, probe)
    unused = []
    for path, names in idle.items():
        with parameters.changed(names):
            others = _returned(candidate, probe) if len(expected) > 1 else []
        if all(map(torch.equal, expected, others)):
            unused.append(path)
    return unused


def _returned(candidate: Resolved, probe: Probe) -> list[Tensor]:
    """Every tensor that a call returns."""
    found, function = list[Tensor](), candidate.function

    def noted(*args: Any, **options: Any) -> Any:
        output = function(*args, **options)
        found.extend(tensor.double().nan_to_num() for tensor in tensors(output))
        return output

    candidate.function = noted
    try:
        _output(candidate, probe)
    finally:
        candidate.function = function
    return found


def _idle(candidate: Resolved, probe: Probe) -> dict[str, list[str]]:
    """Parts with a matrix, or several parameters, on none of which the output depends: path -> names of these.

    What layers are copied from is one: self.layer = layer; self.layers = clones(layer, n). So is what a part of a part
    has and does not use: an nn.LayerNorm beside the γ and β that its forward computes with.
    """
    assert candidate.parameters is not None
    assert candidate.module is not None
    if candidate.module in IDLE:
        return IDLE[candidate.module]
    parameters, idle = candidate.parameters, dict[str, list[str]]()
    expected = _output(candidate, probe)

    def matters(names: list[str]) -> bool:
        with parameters.changed(names):
            output = _output(candidate, probe)
        return output is None or expected is None or not torch.equal(output, expected)

    for path, names in _first_level(parameters).items() if expected is not None else ():
        inner = [own for own in _by_owner(names).items() if len(own[1]) < len(names)]
        for part, own in inner if matters(names) else [(path, names)]:
            is_part = len(own) > 1 or (own[0] != part and parameters.tensors[own[0]].dim() == 2)
            if is_part and not matters(own):
                idle[part] = own
    own = [name for name in parameters.tensors if "." not in name]
    if expected is not None and 1 < len(own) < len(parameters.tensors) and not matters(own):
        idle |= {name: [name] for name in own}
    if expected is not None:
        IDLE[candidate.module] = idle
    return idle


def _first_level(parameters: Parameters) -> dict[str, list[str]]:
    """The names of all parameters by the part that has them; of what holds the parts of a model, by those."""
    groups: dict[str, list[str]] = {}
    held = [name for name, part in parameters.module.named_children() if isinstance(part, nn.ModuleDict)]
    for name in parameters.tensors:
        first, *others = name.split(".")
        path = f"{first}.{others[0]}" if first in held else first  # self.transformer.ln_f
        groups.setdefault(path, []).append(name)
    return groups


def _by_owner(names: list[str]) -> dict[str, list[str]]:
    """Names of parameters by the path of the module to which they belong."""
    owners: dict[str, list[str]] = {}
    for name in names:
        owners.setdefault(name.rpartition(".")[0], []).append(name)
    return owners


def _output(candidate: Resolved, probe: Probe) -> Tensor | None:
    try:
        return candidate(**probe.inputs)
    except Exception:  # the learner's code may raise anything
        return None


def _found(
    candidate: Resolved, trial: Trial, probes: list[Probe], library: Library, thorough: bool, is_whole: bool = True
) -> Score:
    """is_whole: whether there may be weights among the parameters on which nothing depends."""
    assert candidate.parameters is not None and candidate.module is not None
    is_whole &= candidate.kind.name != "ResidualConnection"  # whose norm is all that it has
    made = align.layouts(candidate.parameters, trial.shapes, trial.settings, library.kind_of_class, library.choices)
    deadline = min(clock.now() + SECONDS, library.deadline)
    options = list(itertools.islice(made, 1))
    known = None
    if options and not options[0][0]:  # which explains most that is right: the others are made where it does not
        known = _score(candidate, trial, probes, options[0][1], MISTAKEN)
        if known[0] == 0:
            return _taken(candidate, library, options[0], known)
    options += itertools.islice(made, MOST_LAYOUTS - 1)
    usual = [option for option in options if not option[0]]
    crossed = [option for option in options if option[0].startswith(ATTENTIONS)][:1]
    crossed += [option for option in options if option[0].endswith(BOTH)][:2]
    rounds: tuple[tuple[list[tuple[str, Layout]], int], ...] = (([*usual[:6], *crossed], MISTAKEN),)
    if thorough:
        rounds = ((usual, MISTAKEN), (options, MISTAKEN))
    if thorough and library.thorough:
        rounds = (rounds[0], (usual[:MOST_MISTAKEN], NOTHING), rounds[1], (options[:MOST_MISTAKEN], NOTHING))
    found, tried = None, options
    for number, (tried, tiers) in enumerate(rounds):
        found = _best_layout(candidate, trial, probes, tried, tiers, deadline, None if number else known)
        if found is not None and found[0][0] < NOTHING:
            break
        if is_whole and not number:
            again = _without_idle(candidate, trial, probes, library, thorough, MISTAKEN)
            if again[0] < MISTAKEN:
                return again
    if is_whole and (found is None or found[0][0] >= NOTHING):
        again = _without_idle(candidate, trial, probes, library, thorough)
        if again[0] < NOTHING:
            return again
    if found is None or not options:
        return trial.score(candidate, probes, library.most_tiers)
    return _taken(candidate, library, tried[found[1]], found[0])


def _taken(candidate: Resolved, library: Library, option: tuple[str, Layout], score: Score) -> Score:
    """The candidate with this layout; what it tells of its attentions is remembered."""
    assert candidate.module is not None
    words, candidate.layout = option
    candidate.update_missing()
    number: int = getattr(candidate.layout, "number", 0)
    if score[0] < NOTHING and number:
        known = (type(part) for _, part in walk(candidate.module))
        attentions = (cls for cls in known if (library.kind_of_class(cls) or "").endswith("Attention"))
        library.choices |= dict.fromkeys(attentions, number)  # the same in what contains it
    if words and score[0] < NOTHING:
        candidate.notes.append(words[0].upper() + words[1:] + ".")
    return score


def _best_layout(
    candidate: Resolved,
    trial: Trial,
    probes: list[Probe],
    options: list[tuple[str, Layout]],
    tiers: int,
    deadline: float,
    first: Score | None = None,
) -> tuple[Score, int] | None:
    """The layout that explains most, of those with the fewest missing weights. first: the score of the first."""
    ranked: list[tuple[tuple[int, int, int], Score, int]] = []
    for index, (_, layout) in enumerate(options):
        if index or first is None:
            score = _score(candidate, trial, probes, layout, tiers)
        else:
            score = first
        ranked.append(((score[0], len(candidate.missing), index), score, index))
        if score[0] == 0 or clock.now() > deadline:
            break
    if not ranked:
        return None
    _, score, index = min(ranked)
    return score, index


def _score(candidate: Resolved, trial: Trial, probes: list[Probe], layout: Layout, tiers: int) -> Score:
    candidate.layout = layout
    candidate.update_missing()
    return trial.score(candidate, probes, tiers)
