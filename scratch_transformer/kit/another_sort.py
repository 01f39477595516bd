"""What looks like a component, is not understood, and is of a sort of which nothing is known here: said in one line."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_own, leads_to, names_in, nodes_of, parameters_of, source_of
from scratch_transformer.kit.judge.running import running
from scratch_transformer.kit.kind import LAYERS, NETWORKS, Kind
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve import fitness, foreign, guess, not_there, other_designs, sorts
from scratch_transformer.kit.resolve.call import together
from scratch_transformer.kit.resolve.call.forwards import MODELS
from scratch_transformer.kit.resolve.functions import methods, writing
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.roles import role_of
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.resolve.trials.match import Outcome
from scratch_transformer.kit.resolve.weights.layout import walk
from scratch_transformer.kit.syntax import assignments, nodes_in

MADE = ("q", "k", "v")
SAID = other_designs.SAID
GATE = re.compile(r"(glu|gated_?linear_?units?)(_?(fast|fused|v))?\d*$", re.IGNORECASE)


def name_of(value: Any, outcome: Outcome, verdict: str, library: Library) -> str:
    """What it is, of which nothing is known here, where it is not understood and nothing is named; else ""."""
    if verdict not in ("unknown mismatch", "crashed", "could not be built"):
        return ""
    if why := lacks(library):  # with the reference in its place, too, the rest is not understood
        return why
    if (why := not_there.asks_for_absent(value)) and (outcome.candidate is None or outcome.candidate.replaced):
        return why
    module = outcome.candidate.module if outcome.candidate is not None else None
    if outcome.kind.name in NETWORKS and module is not None and not [*module.parameters()]:
        return foreign.WEIGHTLESS
    if inspect.isfunction(value) and foreign.why_not(value) == foreign.RETURNS_NOTHING:
        return foreign.RETURNS_NOTHING
    if is_half(value, module or outcome.made):
        return foreign.HALF
    why = _of_its_calls(value, outcome.kind) or _of_lists(outcome)
    if verdict == "unknown mismatch":
        why = why or _of_its_parts(value, outcome, module, library)
    if not why and outcome.kind.name.endswith(LAYERS) and attends_to_two(value, module, library):
        return SAID.format("a layer that attends to two other sequences")
    if not why and outcome.kind.name.endswith("Attention"):
        why = _of_scores(value)
    elif not why and module is not None and verdict == "unknown mismatch":  # what is made of such is no other
        attends = [type(part) for part in module.modules() if "att" in type(part).__name__.lower()]
        why = next(filter(None, map(_of_scores, filter(is_own, attends))), "")
    is_unknown = not why and verdict == "unknown mismatch"
    return why or other_designs.design_of(value) or (within(module, library) if is_unknown else "")


def within(module: nn.Module | None, library: Library) -> str:
    """Of which unknown design a part of it is, of one that was judged before it."""
    parts = [type(part) for _, part in walk(module)] if module is not None else []
    return next((library.designs[part] for part in parts if part in library.designs), "")


def design_of(value: Any, outcome: Outcome, library: Library) -> str:
    """Of which unknown design something is in which mistakes were named, by its words, its norms or a part; "" of
    none.
    """
    module = outcome.candidate.module if outcome.candidate is not None else None
    by_parts = _of_its_norms(outcome.kind.name, outcome, library) or within(module, library)
    return other_designs.design_of(value) or by_parts


def _of_scores(value: Any) -> str:
    """Of an attention whose scores a linear layer makes, or changes, as it multiplies queries by keys, too."""
    if not scores_by_a_network(value):
        return ""
    return SAID.format(CHANGED if PRODUCT.search(source_of(value)) else "additive attention")


CHANGED = "attention whose scores go through a linear layer, too"
PRODUCT = re.compile(r"(matmul|bmm)\([^\n]*(transpose|permute|mT\b|\.T\b)|@ *\w+\.(transpose|permute|mT\b|T\b)")
"""Of queries with keys: the weights are multiplied by values that are not transposed."""


def is_half(value: Any, made: Any) -> bool:
    """Whether a class has one linear layer, and is told both widths of a feed-forward network: Up(d_model, d_ff)."""
    told = {setting for p in parameters_of(value) for setting in settings_of(p.name)[:1]}
    return (
        {"d_model", "d_ff"} <= told
        and isinstance(made, nn.Module)
        and _linears(made) == 1 == len([*made.modules()]) - 1
    )


def scores_by_a_network(value: Any) -> bool:
    """Whether a softmax is taken of what a linear layer gives as one number for each word: nn.Linear(2 * hidden, 1)."""
    nodes = nodes_of(value)
    given = [(ast.unparse(one), node.value) for node in nodes if isinstance(node, ast.Assign) for one in node.targets]
    softmaxes: list[ast.AST] = [
        node for node in nodes if isinstance(node, ast.Call) and "softmax" in ast.unparse(node.func).lower()
    ]
    softmaxes += [node for _, node in given if _gives_one(node) and "Softmax" in ast.unparse(node)]  # an nn.Sequential
    scores = [name for name, made in given if _gives_one(made)]
    for name, made in given:  # energy = self.energy(joined); scores = energy.squeeze(-1)
        scores += [name] if _names(made) & {*scores} else []
    return any(_gives_one(node) or _names(node) & {*scores} for node in softmaxes)


def _gives_one(made: ast.AST) -> bool:
    """Whether there is a linear layer with one output in an expression."""
    linear = [node for node in nodes_in(made, ast.Call) if ast.unparse(node.func).endswith("Linear")]
    width = [{word.arg: word.value for word in node.keywords}.get("out_features", *node.args[1:2]) for node in linear]
    return any(isinstance(one, ast.Constant) and one.value == 1 for one in width)


def _names(node: ast.AST) -> set[str]:
    """The names and attributes that are read in it."""
    return {ast.unparse(one) for one in ast.walk(node) if isinstance(one, (ast.Name, ast.Attribute))}


def _of_its_calls(value: Any, kind: Kind) -> str:
    """Of a function: what computes, or writes, is what it calls."""
    writes = "next_logits" in kind.inputs
    writes_within = (writes or inspect.isfunction(value)) and not sorts.trains(value)
    if writes_within and (other := decoder_within(value)):
        return foreign.HANDS_ON.format(other)
    if writes and writing.chooses_one(value):
        return foreign.ONE_WORD
    if writes and inspect.isfunction(value) and joins_words(value):
        return foreign.OF_WORDS
    computes = {"x", "query", "ids"} & {*kind.inputs} and not writes
    parts = parts_given(value) if computes and inspect.isfunction(value) else []
    return foreign.GIVEN_PARTS.format(", ".join(parts)) if parts else ""


def joins_words(function: Any) -> bool:
    """Whether it makes a text of what it is given, for what looks its words up: encode(" ".join(words))."""
    first = next(iter(parameters_of(function)), None)
    nodes, given = nodes_of(function), {first.name} if first is not None else set()
    for target, made in assignments(nodes):
        if isinstance(target, ast.Name) and given & _names(made):
            given.add(target.id)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    within = [one for call in calls for one in call.args if isinstance(one, ast.Call)]
    joined = [one for one in within if isinstance(one.func, ast.Attribute) and one.func.attr == "join" and one.args]
    return any(isinstance(one.func.value, ast.Constant) and given & _names(one.args[0]) for one in joined)  # type: ignore[attr-defined]


OF_TENSORS = re.compile(r"""^["']*(typing\.)?(List|list|Sequence)\[(torch\.)?Tensor\]""")


def _of_lists(outcome: Outcome) -> str:
    """Of what is given any number of tensors in one: forward(texts: list[Tensor]). q, k, v = inputs are three."""
    made = outcome.made
    if not isinstance(made, nn.Module) or together.of_parts(made) is not None:
        return ""
    said = {p.name: inspect.formatannotation(p.annotation) for p in parameters_of(made.forward)}
    lists = [name for name, annotation in said.items() if OF_TENSORS.match(annotation)]
    return foreign.LISTS.format(", ".join(lists)) if lists else ""


def _of_its_parts(value: Any, outcome: Outcome, module: nn.Module | None, library: Library) -> str:
    """Of what runs: the parts that it has and no other of its kind, or the shape of what it returns."""
    kind, count = outcome.kind.name, _linears(module)
    if kind in NETWORKS and _is_bare_gate(module):
        return SAID.format("a gated linear unit without a projection after it")
    if kind in NETWORKS and count > (3 if fitness.speaks_of_gates(value) and not _gates_within(module) else 2):
        return SAID.format(f"a feed-forward network of {count} linear layers")
    if said := _of_its_norms(kind, outcome, library):
        return said
    is_linear = kind == "Linear" or (kind == "Projection" and "linear" in type(module).__name__.lower())
    if is_linear and _has_more(module):
        return foreign.ACTIVATED
    if kind == "Projection" and _is_network(module):
        return SAID.format(f"a projection to the vocabulary of {count} linear layers")
    shape = _shape(outcome, library)
    if shape is not None and _is_pooled(outcome, shape):
        return foreign.POOLED
    if kind in MODELS and only_attends(module, library):
        return SAID.format("attention alone, without feed-forward networks and norms")
    if shape is not None and _is_of_scores(outcome, shape):
        return foreign.NO_VALUES
    if any(makes_queries_by_networks(part) for part in (module, outcome.made)):
        return SAID.format("attention whose queries, keys or values are made by networks")
    return ""


def _of_its_norms(kind: str, outcome: Outcome, library: Library) -> str:
    """Of a layer that runs more norms than it has sublayers, by their number."""
    candidate = outcome.candidate
    if candidate is None or candidate.module is None or not kind.endswith(LAYERS) or candidate.replaced:
        return ""
    attends = [part for _, part in walk(candidate.module) if _attends(part, library)]
    owner: Any = type(candidate.module)
    if not attends or "softmax" in names_in(owner):  # it attends itself, too
        return ""
    within = {one for part in attends for one in part.modules()}
    with contextlib.suppress(Exception):  # the learner's code may raise anything
        probes = library.trial(outcome.kind, candidate.settings, candidate.made).probes
        inputs = next(probe.inputs for probe in probes if candidate.accepts(probe.inputs))
        ran = running(candidate.module, lambda: candidate(**inputs)) - within
        named = {part for part in ran if "norm" in type(part).__name__.lower()}
        norms, sublayers = sum(len(named & {*part.modules()}) == 1 for part in named), len(attends) + 1
        if attends and norms == 2 * sublayers:
            return SAID.format(other_designs.BEFORE_AND_AFTER)
        if norms > sublayers:
            return SAID.format(f"a layer of {norms} norms, for {sublayers} sublayers")
    return ""


def _attends(part: nn.Module, library: Library) -> bool:
    return isinstance(part, nn.MultiheadAttention) or str(library.kind_of_class(type(part))).endswith("Attention")


def lacks(library: Library) -> str:
    """What package is absent that something asked for; "" if none."""
    absent = [error for error in library.heard.values() if getattr(error, "package", "")]
    return not_there.lacks(absent[0]) if absent else ""


def decoder_within(value: Any) -> str:
    """What writes text, and another function, translate(model, text), only calls; "" where there is none."""
    called = [one for one in leads_to(value) if inspect.isfunction(one)]
    kinds = {one: guess.kinds_of(one.__name__, one, KINDS)[:1] for one in called}
    writers = [one.__name__ for one in called if set(kinds[one]) & {"GreedyDecoding", "BeamSearch"}]
    given = [p.name for p in parameters_of(value)]
    nodes = nodes_of(value)
    again = {one for node in nodes if isinstance(node, (ast.For, ast.While)) for one in ast.walk(node)}
    asked = [node.func for node in nodes if isinstance(node, ast.Call) and node not in again]  # a loop writes itself
    of_given = [one for one in asked if isinstance(one, ast.Attribute) and ast.unparse(one.value) in given]
    writers += [ast.unparse(one) for one in of_given if methods.WRITES.match(plain(one.attr))]  # writer.predict(ids)
    return next(iter(writers), "")


def makes_queries_by_networks(made: Any) -> bool:
    """Whether queries, keys or values go through several linear layers, which no one matrix is."""
    for path, part in walk(made) if isinstance(made, nn.Module) else ():
        if role_of(path.rpartition(".")[2]) not in MADE or isinstance(part, (nn.ModuleList, nn.ModuleDict)):
            continue
        inside = [(name, one) for name, one in part.named_modules() if name]
        attends = isinstance(part, nn.MultiheadAttention) or any(role_of(name) in MADE for name, _ in inside)
        if not attends and sum(isinstance(one, nn.Linear) for _, one in inside) > 1:
            return True
    return False


def _is_bare_gate(module: nn.Module | None) -> bool:
    """Whether what is called a GLU has two matrices, or both in one: a network has one more, that leads back."""
    shapes = [values.shape for values in module.parameters() if values.dim() == 2] if module is not None else []
    goes_back = len(shapes) == 2 and shapes[0] == (2 * shapes[1][1], shapes[1][0])
    return len(shapes) in (1, 2) and not goes_back and bool(GATE.search(type(module).__name__))


def _gates_within(module: nn.Module | None) -> bool:
    """Whether of several linear layers the first alone takes tokens: a GLU with matrices of its own comes behind it."""
    layers = [part for _, part in walk(module) if isinstance(part, nn.Linear)] if module is not None else []
    return sum(layer.in_features == layers[-1].out_features for layer in layers) == 1


def _has_more(module: nn.Module | None) -> bool:
    """Whether a linear layer is one of several parts: LinearBlock, of nn.Linear and nn.GELU."""
    leaves = [part for _, part in walk(module) if not [*part.children()]] if module is not None else []
    return len(leaves) > 1 and any(isinstance(part, nn.Linear) for part in leaves)


def _is_network(module: nn.Module | None) -> bool:
    """Whether it is several linear layers, and no norm between them, which BERT has: what is known is judged."""
    parts = [type(part).__name__.lower() for _, part in walk(module)] if module is not None else []
    return _linears(module) > 1 and not any("norm" in name for name in parts)


def _linears(module: nn.Module | None) -> int:
    return sum(isinstance(part, nn.Linear) for _, part in walk(module)) if module is not None else 0


def only_attends(module: nn.Module | None, library: Library) -> bool:
    """Whether a model attends, and has nothing else with weights than embeddings and the projection to the words."""
    own = [part for _, part in walk(module)] if module is not None else []
    attends = [part for part in own if str(library.kind_of_class(type(part))).endswith("Attention")]
    within = {id(one) for part in attends for one in part.modules()}
    others = [part for part in own if id(part) not in within and [*part.parameters(recurse=False)]]
    return (
        bool(attends)
        and all(isinstance(part, (nn.Embedding, nn.Linear)) for part in others)
        and (sum(isinstance(part, nn.Linear) for part in others) <= 1)
    )


def attends_to_two(value: Any, module: nn.Module | None, library: Library) -> bool:
    """Whether a layer must be given three sequences, none of them called keys or values, and has an attention each."""
    given = [parameter.name for parameter in fitness.required_of(value)]
    own = list(module.children()) if module is not None else []
    attends = [part for part in own if _attends(part, library)]
    return len(attends) > 2 and len(given) > 2 and not any(input_of(name, ("key", "value")) for name in given)


def parts_given(function: Any) -> list[str]:
    """The parameters that a function must be given and calls, of two or more: bert_mlp(x, linear_1, linear_2)."""
    required = [parameter.name for parameter in fitness.required_of(function)]
    calls = [node.func for node in nodes_of(function, ast.Call)]
    called = {called.id for called in calls if isinstance(called, ast.Name)}
    parts = [name for name in required if name in called]
    return parts if len(parts) > 1 else []


def _is_pooled(outcome: Outcome, shape: tuple[int, ...]) -> bool:
    """Whether what is called like a model, or a layer, returns one vector for a whole sentence."""
    is_one = outcome.kind.name in MODELS or outcome.kind.name.endswith(("Layer", "Block", "coder"))
    return is_one and len(shape) < 3


def _is_of_scores(outcome: Outcome, shape: tuple[int, ...]) -> bool:
    """Whether an attention projects queries and keys alone, and returns a number for each of both in every head."""
    is_one = outcome.kind.name.endswith("Attention") and len(shape) == 4 and shape[2] == shape[3]
    weights = outcome.made.named_parameters() if is_one and isinstance(outcome.made, nn.Module) else ()
    return {role_of(name) for name, _ in weights} == {"q", "k"}


def _shape(outcome: Outcome, library: Library) -> tuple[int, ...] | None:
    """Of what something returns that the reference in place of a part does not; None where that is not known."""
    candidate = outcome.candidate
    if candidate is None or candidate.replaced or outcome.form != "wrong":
        return None
    probes = library.trial(outcome.kind, candidate.settings, candidate.made).probes
    with contextlib.suppress(Exception):  # the learner's code may raise anything
        first = next(probe for probe in probes if candidate.accepts(probe.inputs))
        return tuple(candidate(**first.inputs).shape)
    return None
