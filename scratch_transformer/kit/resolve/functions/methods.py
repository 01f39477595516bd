"""A model's own methods that write text, generate(self, idx, max_new_tokens): functions of the model, as any others.

And of whatever draws the words that it writes, one draw: a function of logits, a temperature, top-k or top-p.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import itertools
import re
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.canonical.optimizing import SAID
from scratch_transformer.kit.definitions import is_module_class, names_in, nodes_of, source_of, tree_of
from scratch_transformer.kit.kinds.decoding import BOS, EOS
from scratch_transformer.kit.resolve.build.tokenizer import Tokenizer, Words, ids_of, is_table_of_words, is_tokenizer
from scratch_transformer.kit.resolve.call.told import LONG, WORDS
from scratch_transformer.kit.resolve.functions import answers, surroundings, writing
from scratch_transformer.kit.resolve.functions.toy import OF_METHODS, Reading, ToyModel
from scratch_transformer.kit.resolve.functions.training import SAMPLING
from scratch_transformer.kit.resolve.names.inputs import INPUTS, first_or_last
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.syntax import assignments

WRITES = re.compile(r"generate|greedy|translate|beamsearch|sample|infer|predict")
CALLS = re.compile(r"\bself(\.forward|\.decode|\.model|\.transformer|\.net)?\((?!\))")
"""That it asks the model for what comes next, in its code."""
HELPS = re.compile(r"sampl|top_?[kp]|pick|filter|choose|select|next|temperature|penal|crop")
"""What such a method leaves to others of its class."""


def methods_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """Those methods of a class of modules, by name; or of a class that has a model, if they write with that."""
    is_module = is_module_class(thing)
    for name, one in vars(thing).items() if isinstance(thing, type) else ():
        if inspect.isfunction(one) and (_may_write(name, one) if is_module else _writes_with_its_model(one)):
            function = _of_the_model(inspect.unwrap(one), thing)
            if function is not None:
                yield name, function


def _may_write(name: str, method: Any) -> bool:
    is_named = bool(WRITES.search(plain(name)) and CALLS.search(source_of(method)))
    return is_named or _writes_with_its_model(method)  # complete(self, ids, n)


def _writes_with_its_model(method: Any) -> bool:
    tree = tree_of(method)
    return tree is not None and writing.writes(tree, "self")


def static_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """The static methods of a class, by name."""
    for name, one in vars(thing).items() if isinstance(thing, type) else ():
        if isinstance(one, staticmethod) and inspect.isfunction(one.__func__):
            yield name, one.__func__


def helpers_of(function: Any) -> dict[str, Any]:
    """Methods of its class that choose the next word for it, and need nothing else of the class; its tokenizer."""
    owner = getattr(function, "owner", None)
    lineage = owner.__mro__ if owner is not None else ()
    end = lineage.index(nn.Module) if nn.Module in lineage else len(lineage) - 1
    classes = reversed(lineage[:end]) if lineage else ()
    members = [item for cls in classes for item in vars(cls).items()]
    helpers = {name: one for name, one in members if hasattr(one, "__get__") and HELPS.search(name)}
    return {**surroundings.attributes(function), **helpers}


def ends_of(function: Any) -> set[int | None]:
    """The first and the last id, as far as a method reads them from its own model: self.eos_id."""
    is_method = getattr(function, "owner", None) is not None
    return {first_or_last(plain(name)) for name in function.__code__.co_names} if is_method else set()


def draw_of(writes: Any) -> Any:
    """One word that generate(model, idx, max_new_tokens, temperature, top_k) draws, as a function of the logits.

    Or that it draws for a text, with a tokenizer; or the one that next_token(model, idx, temperature) draws. None of
    what cannot be told by what it draws.
    """
    parameters = inspect.signature(writes).parameters if inspect.isfunction(writes) else {}
    named = {name: plain(name) for name in parameters}
    told = [name for name, word in named.items() if any(word in words for words in SAMPLING.values())]
    is_draw = bool(told) and "multinomial" in names_in(writes)
    has_tokenizer = is_draw and surroundings.has_tokenizer(writes)
    places = _places_of(parameters, told, has_tokenizer) if is_draw else {}
    if not places or not (places["limit"] or writing.is_straight(writes)):
        return None
    given: dict[str, Any] = {name: Tokenizer(BOS, EOS) for name in parameters if is_tokenizer(name)}
    given |= {name: Words(WORDS) for name in parameters if is_table_of_words(name)}
    given |= {name: True for name, word in named.items() if word in ("dosample", "sample")}
    given |= {name: LONG for name in _windows_of(parameters) if name != places["ids"]}
    given |= {name: [] for name in parameters if STOPS.match(name)}
    given |= {
        name: NEVER for name in parameters if END.match(name) and parameters[name].default is inspect.Parameter.empty
    }
    given |= {places["limit"]: 1 + len(SAID) * (not MORE.search(named[places["limit"]]))} if places["limit"] else {}
    answer = answers.of_writer(writes)
    around, reads = surroundings.stand_ins(writes), bool(given.keys() & {*filter(is_tokenizer, parameters)})
    begins = [" ".join(map(str, SAID))] * (reads or has_tokenizer) + [torch.tensor([SAID]), [*SAID]]

    @functools.wraps(writes)
    def draw(logits: Tensor, **options: Any) -> Tensor:
        row, error = logits.reshape(1, 1, -1), None
        for begin, (last_only, pair) in itertools.product(begins, ANSWERS):
            reading = Reading("row", last_only, pair)
            toy = ToyModel(lambda ids: row.expand(*ids.shape, -1), reading, helpers_of(writes), answer)
            said = {places["model"]: toy, places["ids"]: copy.deepcopy(begin)}
            try:
                with surroundings.replaced(writes, around):
                    return _last_of(writes(**said, **given, **options))
            except Exception as raised:  # the learner's code takes other answers from its model
                error = error or raised
        raise error if error is not None else AssertionError

    taken = [p for name, p in parameters.items() if name in told]
    logits = inspect.Parameter("logits", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    draw.__signature__ = inspect.Signature([logits, *taken])  # type: ignore[attr-defined]
    draw.owner = getattr(writes, "owner", None)  # type: ignore[attr-defined]
    return draw


ANSWERS = ((False, False), (False, True), (True, False))
"""Of a model: the scores of all words; with a loss; of the next word alone."""


def _places_of(parameters: Mapping[str, inspect.Parameter], told: Sequence[str], has_tokenizer: bool) -> dict[str, str]:
    """Which parameters of a writer take the model, the first ids, and how many words; {} if others must be given."""
    named = {name: plain(name) for name in parameters}
    model = next((name for name, word in named.items() if word in INPUTS["next_logits"].split()), "")
    texts = [name for name in parameters if is_tokenizer(name) or is_table_of_words(name)]
    rest = [name for name in parameters if name not in (model, *told, *texts)]
    limits = INPUTS["max_len"].split()
    limit = next((name for name in rest if named[name] in limits or LIMIT.match(named[name])), "")
    has_text = bool(texts) or has_tokenizer
    ids = [n for n in rest if named[n] in INPUTS["ids"].split() or (BEGINNING if has_text else IDS).search(named[n])]
    ids += [n for n in rest if named[n] == "context"]
    known = {
        model,
        limit,
        *ids[:1],
        *told,
        *texts,
        *_windows_of(parameters),
        *filter(STOPS.match, rest),
        *filter(END.match, rest),
    }
    asked = [
        name
        for name, p in parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    is_told_all = known.issuperset(asked)
    return {"model": model, "ids": ids[0], "limit": limit} if model and ids and is_told_all else {}


def _windows_of(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """Those that must be told how long a text the model takes, and not how many words to write."""
    longest = [name for name in parameters if settings_of(name)[:1] == ("max_len",)]
    is_limit = INPUTS["max_len"].split()
    return [
        name for name in longest if parameters[name].default is inspect.Parameter.empty and plain(name) not in is_limit
    ]


LIMIT = re.compile(r"max\w*(gen|new)\w*(len|length|tokens?|words)$")
STOPS = re.compile(r"(?i)stop_?(token|word|id)\w*s$|(eos|end)_?(token)?_?ids$")
"""How it is called how long a text is written, and which ids end it: none, where one draw is meant."""
END, NEVER = re.compile(r"(?i)(eos|end)_?(token)?_?(id|idx)?$"), -1
"""How the one id is called that ends it, and what it is where one draw is meant: none that is drawn."""
BEGINNING = re.compile(r"prompt|start|text|seed|sentence|context$|begin|input")
IDS = re.compile(
    rf"^({BEGINNING.pattern.replace('$', '')}|initial|first)s?(ids|idxs?|tok(en)?s?|token(ids|s)|ind(ex|ices))$"
)
"""Of the words that are written on, where there is no text: prompt_ids."""


def _last_of(written: Any) -> Tensor:
    """The word that was drawn, of all that was written: the last one, or the first, before those that were there."""
    found = ids_of(written) if isinstance(written, str) else written
    found = [*found] if inspect.isgenerator(found) else found
    ids = torch.as_tensor(found).flatten()
    return ids[:1] if ids[1:].tolist() == [*SAID] else ids[-1:]


def goes_on(function: Any) -> bool:
    """Whether its model is given all words so far, and each new one is joined to them: idx = torch.cat((idx, next))."""
    nodes = nodes_of(inspect.unwrap(function))
    texts = {ast.unparse(to) for to, made in assignments(nodes) if JOINED.match(ast.unparse(made))}
    texts |= {ast.unparse(to) for to, made in assignments(nodes) if _is_text(made, texts)}  # idx_cond = idx[:, -n:]
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "self" and node.args]
    return bool(calls) and all(_is_text(call.args[0], texts) for call in calls)


def _is_text(node: ast.expr, texts: Collection[str]) -> bool:
    """Whether it is one of these texts, or that from some word on, always or where it is too long."""
    if isinstance(node, ast.IfExp):
        return _is_text(node.body, texts) and _is_text(node.orelse, texts)
    return ast.unparse(node.value if isinstance(node, ast.Subscript) else node) in texts


JOINED = re.compile(r"torch\.(cat|concat|hstack)\(")
MORE = re.compile(r"new|step|ntoken|numtoken|gen|words")
"""In what says how many words to write besides those that are there."""


def _of_the_model(method: Any, owner: type) -> Any:
    """The same code, whose first argument is called `model`, as in a function that is given one; None if it is not."""
    code = method.__code__
    if not code.co_argcount or code.co_varnames[0] != "self" or OF_METHODS in (*code.co_varnames, *code.co_cellvars):
        return None
    renamed = code.replace(
        co_varnames=(OF_METHODS, *code.co_varnames[1:]),
        co_cellvars=tuple(OF_METHODS if name == "self" else name for name in code.co_cellvars),
    )
    return of_class(method, owner, renamed)


def of_class(method: Any, owner: type, code: types.CodeType) -> Any:
    """A method as a function with this code that knows its class, `owner`, which the method does not."""
    function: Any = types.FunctionType(
        code, method.__globals__, method.__name__, method.__defaults__, method.__closure__
    )
    function.__kwdefaults__, function.__annotations__ = method.__kwdefaults__, method.__annotations__
    function.__module__, function.__qualname__ = method.__module__, method.__qualname__
    function.owner = owner
    return function
