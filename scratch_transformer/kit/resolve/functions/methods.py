"""A model's own methods that write text, generate(self, idx, max_new_tokens): functions of the model, as any others.

And of whatever draws the words that it writes, one draw: a function of logits, a temperature, top-k or top-p.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.canonical.optimizing import SAID
from scratch_transformer.kit.definitions import names_in, source_of, tree_of
from scratch_transformer.kit.resolve.functions import writing
from scratch_transformer.kit.resolve.functions.toy import Reading, ToyModel
from scratch_transformer.kit.resolve.functions.training import SAMPLING
from scratch_transformer.kit.resolve.names.inputs import INPUTS, first_or_last
from scratch_transformer.kit.resolve.names.words import plain

WRITES = re.compile(r"generate|greedy|translate|beamsearch|sample|infer|predict")
CALLS = re.compile(r"\bself(\.forward|\.decode|\.model|\.transformer|\.net)?\((?!\))")
"""That it asks the model for what comes next, in its code."""
HELPS = re.compile(r"sampl|top_?[kp]|pick|filter|choose|select|next|temperature|penal|crop")
"""What such a method leaves to others of its class."""
MODEL = "model"


def methods_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """Those methods of a class of modules, by name."""
    members = vars(thing).items() if isinstance(thing, type) and issubclass(thing, nn.Module) else ()
    for name, one in members:
        if inspect.isfunction(one) and _may_write(name, one):
            function = _of_the_model(inspect.unwrap(one), thing)
            if function is not None:
                yield name, function


def _may_write(name: str, method: Any) -> bool:
    tree = tree_of(method)
    is_named = bool(WRITES.search(plain(name)) and CALLS.search(source_of(method)))
    return is_named or (tree is not None and writing.writes(tree, "self"))  # complete(self, ids, n)


def static_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """The static methods of a class of modules, by name."""
    members = vars(thing).items() if isinstance(thing, type) and issubclass(thing, nn.Module) else ()
    for name, one in members:
        if isinstance(one, staticmethod) and inspect.isfunction(one.__func__):
            yield name, one.__func__


def helpers_of(function: Any) -> dict[str, Any]:
    """Methods of its class that choose the next word for it, and need nothing else of the class."""
    owner = getattr(function, "owner", None)
    classes = reversed(owner.__mro__[: owner.__mro__.index(nn.Module)]) if owner is not None else ()
    members = [item for cls in classes for item in vars(cls).items()]
    return {name: one for name, one in members if hasattr(one, "__get__") and HELPS.search(name)}


def ends_of(function: Any) -> set[int | None]:
    """The first and the last id, as far as a method reads them from its own model: self.eos_id."""
    is_method = getattr(function, "owner", None) is not None
    return {first_or_last(plain(name)) for name in function.__code__.co_names} if is_method else set()


def draw_of(writes: Any) -> Any:
    """One word that generate(model, idx, max_new_tokens, temperature, top_k) draws, as a function of the logits.

    None of what cannot be told by what it draws.
    """
    parameters = inspect.signature(writes).parameters if inspect.isfunction(writes) else {}
    named = {name: plain(name) for name in parameters}
    told = [name for name, word in named.items() if any(word in words for words in SAMPLING.values())]
    limit = next((name for name, word in named.items() if MORE.search(word) and word in INPUTS["max_len"].split()), "")
    first, ids, *_ = [*parameters, "", ""]
    takes_both = named.get(first) in INPUTS["next_logits"].split() and named.get(ids) in INPUTS["ids"].split()
    is_known = {first, ids, limit, *told}.__contains__
    is_told_all = all(is_known(name) or p.default is not p.empty for name, p in parameters.items())
    if not (takes_both and limit and told and is_told_all and "multinomial" in names_in(writes)):
        return None
    always = {name: True for name, word in named.items() if word in ("dosample", "sample")}

    @functools.wraps(writes)
    def draw(logits: Tensor, **options: Any) -> Tensor:
        row, error = logits.reshape(1, 1, -1), None
        for last_only, pair in ((False, False), (False, True), (True, False)):
            toy = ToyModel(lambda ids: row.expand(*ids.shape, -1), Reading("row", last_only, pair), helpers_of(writes))
            try:
                written = torch.as_tensor(
                    writes(toy, torch.tensor([SAID]), **{limit: 1}, **always, **options)
                ).flatten()
                return written[:1] if written[1:].tolist() == [*SAID] else written[-1:]
            except Exception as raised:  # the learner's code takes other answers from its model
                error = error or raised
        raise error if error is not None else AssertionError

    given = [p for name, p in parameters.items() if name in told]
    logits = inspect.Parameter("logits", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    draw.__signature__ = inspect.Signature([logits, *given])  # type: ignore[attr-defined]
    draw.owner = getattr(writes, "owner", None)  # type: ignore[attr-defined]
    return draw


MORE = re.compile(r"new|step|ntoken|numtoken|gen|words")
"""In what says how many words to write besides those that are there."""


def _of_the_model(method: Any, owner: type) -> Any:
    """The same code, whose first argument is called `model`, as in a function that is given one; None if it is not."""
    code = method.__code__
    if not code.co_argcount or code.co_varnames[0] != "self" or MODEL in (*code.co_varnames, *code.co_cellvars):
        return None
    renamed = code.replace(
        co_varnames=(MODEL, *code.co_varnames[1:]),
        co_cellvars=tuple(MODEL if name == "self" else name for name in code.co_cellvars),
    )
    function: Any = types.FunctionType(
        renamed, method.__globals__, method.__name__, method.__defaults__, method.__closure__
    )
    function.__kwdefaults__, function.__annotations__ = method.__kwdefaults__, method.__annotations__
    function.__module__, function.__qualname__ = method.__module__, method.__qualname__
    function.owner = owner
    return function
