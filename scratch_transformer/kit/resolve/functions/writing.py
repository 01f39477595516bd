"""What writes text, whatever it is called: a loop that asks a model for the next word of what it has written so far."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from scratch_transformer.kit.definitions import names_in, parameters_of, tree_of
from scratch_transformer.kit.resolve.functions import surroundings
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.syntax import arguments_of, last_name, names_within, nodes_in

CHOICES = ("argmax", "argmin", "max", "topk", "argsort", "multinomial", "sample")
"""What chooses the next word of its scores."""
JOINS = ("cat", "concat", "concatenate", "hstack")
ADDS = ("append", "extend")
COUNTS = ("range", "trange")
OF_MODULES = ("eval", "train", "to", "parameters", "zero_grad", "state_dict")
"""What a model is asked for that is no word."""


@functools.lru_cache(maxsize=1024)
def is_greedy(function: Any) -> bool:
    """Whether a function is given a model, or is its method, and writes text with it, without a beam."""
    names = [p.name for p in parameters_of(function)]
    is_method = getattr(function, "owner", None) is not None
    models = ["self"] if is_method else [name for name in names if input_of(name, ("next_logits",))]
    tree = tree_of(function) if inspect.isfunction(function) and models else None
    is_beam = any("beam" in plain(name) for name in (getattr(function, "__name__", ""), *names))
    return tree is not None and not is_beam and any(writes(tree, model) for model in models)


def is_straight(function: Any) -> bool:
    """Whether it has no loop: of what gives a word, that it gives one, and leaves it to others to go on."""
    tree = tree_of(function)
    return tree is not None and not any(isinstance(node, (ast.For, ast.While)) for node in ast.walk(tree))


def chooses_one(function: Any) -> bool:
    """Whether a function is given a model and ids, and gives the next word alone."""
    models = [p.name for p in parameters_of(function) if input_of(p.name, ("next_logits",))]
    if not inspect.isfunction(function) or not models or not is_straight(function):
        return False
    calls = nodes_in(tree_of(function), ast.Call)
    is_asked = any(_asks(call.func, model) for call in calls for model in models)
    return is_asked and any(last_name(call.func) in CHOICES for call in calls)


def prints(function: Any) -> bool:
    """Whether a function writes text and prints it."""
    return is_greedy(function) and "print" in names_in(function)


@functools.lru_cache(maxsize=1024)
def with_its_model(function: Any) -> Any:
    """What is given its model first, of a function that writes text with a global one; anything else as it is."""
    tree = tree_of(function) if inspect.isfunction(function) else None
    names = [p.name for p in parameters_of(function)] if tree is not None else []
    if tree is None or any(input_of(name, ("next_logits",)) for name in names):
        return function
    read = [name for name in names_in(function) - {*names} if input_of(name, ("next_logits",))]
    model = next((name for name in sorted(read) if _is_global(function, name) and writes(tree, name)), "")
    if not model:
        return function

    @functools.wraps(function)
    def given_a_model(**given: Any) -> Any:
        with surroundings.given([function.__globals__], {model: given.pop(model)}):
            return function(**given)

    signature = inspect.signature(function)
    first = inspect.Parameter(model, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given_a_model.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[first, *signature.parameters.values()]
    )
    return given_a_model


def _is_global(function: Any, name: str) -> bool:
    """Whether a function reads a global of this name, which is no class or function of its file."""
    value = function.__globals__.get(name)
    return name in function.__code__.co_names and not isinstance(value, type) and not inspect.isfunction(value)


def writes(tree: ast.AST, model: str) -> bool:
    """Whether code has a loop in which the model is given what grows by the word that is chosen."""
    loops = (node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While)) and _counts(node))
    return any(_is_writing(loop, model) for loop in loops)


def _counts(loop: ast.For | ast.While) -> bool:
    """Whether it counts words, and does not go through somebody's batches."""
    return isinstance(loop, ast.While) or any(name in COUNTS for name in _called(loop.iter))


def _called(trees: ast.AST | Iterable[ast.AST]) -> set[str]:
    """The last words of what is called in it."""
    return {last_name(call.func) for call in nodes_in(trees, ast.Call)}


def _is_writing(loop: ast.For | ast.While, model: str) -> bool:
    nodes = nodes_in(loop.body, ast.AST)
    called = _called(loop.body)
    if "backward" in called or not called & {*CHOICES}:
        return False
    grown, chosen = {*_grown(nodes)}, {*_chosen(nodes)}  # with a cache, the model is given the new word alone
    return bool(grown) and any(names & (grown | chosen) for names in _given(nodes, model))


def _chosen(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names of what is chosen: word = logits.argmax(-1)."""
    for node in nodes:
        if isinstance(node, ast.Assign) and any(one in CHOICES for one in _called(node.value)):
            yield from (ast.unparse(target) for target in node.targets)


def _grown(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names of what a word is put to: ids = cat([ids, word]), ids.append(word), ids += [word], ids[:, t] = word."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                name = ast.unparse(target)
                joined = any(one in JOINS for one in _called(node.value)) or isinstance(node.value, ast.BinOp)
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    yield target.value.id
                elif joined and name in names_within(node.value):
                    yield name
        elif isinstance(node, ast.AugAssign):
            yield ast.unparse(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDS:
            yield ast.unparse(node.func.value)


def _given(nodes: list[ast.AST], model: str) -> Iterator[set[str]]:
    """The names of what the model is given at each call, and of what that was made of in the loop."""
    made = [(ast.unparse(target), node) for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    for node in nodes:
        if isinstance(node, ast.Call) and _asks(node.func, model):
            names = names_within(arguments_of(node))
            for _ in made:
                names |= {name for target, one in made if target in names for name in names_within(one.value)}
            yield names


def _asks(called: ast.expr, model: str) -> bool:
    """Whether it is the model, or a part or method of it, that is called: model(…), model.decoder.embed(…)."""
    if isinstance(called, ast.Attribute) and called.attr in OF_MODULES:
        return False
    while isinstance(called, ast.Attribute):
        called = called.value
    return isinstance(called, ast.Name) and called.id == model
