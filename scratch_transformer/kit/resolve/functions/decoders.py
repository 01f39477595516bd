"""Decoding functions, called with a toy model in place of a trained one."""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.arrays.libraries import reached
from scratch_transformer.kit.canonical.decoding import longest_of
from scratch_transformer.kit.definitions import names_in
from scratch_transformer.kit.kinds.decoding import BOS, EOS, MAX_LEN
from scratch_transformer.kit.kinds.optimizing import NEUTRAL
from scratch_transformer.kit.resolve.build.config import Config
from scratch_transformer.kit.resolve.build.tokenizer import ids_of
from scratch_transformer.kit.resolve.call import told
from scratch_transformer.kit.resolve.call.told import SOURCE, SOURCE_LENGTH, WORDS
from scratch_transformer.kit.resolve.functions import answers, sources, surroundings
from scratch_transformer.kit.resolve.functions.methods import BEGINNING, MORE, helpers_of
from scratch_transformer.kit.resolve.functions.toy import HEADS, PADDING, Reading, ToyModel
from scratch_transformer.kit.resolve.functions.training import SAMPLING
from scratch_transformer.kit.resolve.names.inputs import INPUTS, OF_ENDS, first_or_last
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

OF_SOURCE = re.compile(r"^(src|source|sent)|sentence|english|input")
OF_TEXTS = {"lower", "split", "strip", "encode"}
"""What a function asks of a text, and of no ids: the words that it knows are in its file."""
EITHER = ("start", "begin")
"""Names of the first id, or of the first ids."""
TEXT = " ".join([str(SOURCE)] * SOURCE_LENGTH)
"""Of the source."""


def readings(
    function: Any, arguments: Mapping[str, str], parameter: str, has_tokenizer: bool, head_logs: bool | None
) -> Iterator[Reading]:
    """All that are worth trying, the likeliest first. parameter: that of the model.

    head_logs: None if nobody knows.
    """
    prompt = prompt_of(arguments, function)
    names = {name for one in reached(function) for name in one.__code__.co_names}
    logs = [head_logs] if head_logs is not None else [False, True] if names & set(HEADS) else [False]
    texts = ("source", "text") if OF_SOURCE.search(plain(prompt)) else ("text", "source")
    of_words = texts if any(names_in(one) & OF_TEXTS for one in reached(function)) and not has_tokenizer else ()
    forms = (*(texts if has_tokenizer else ()), *of_words, "row", "ids", "list") if prompt else ("row",)
    forms = ("number", *forms) if plain(prompt) in EITHER else forms
    ends = _ends(function, bool(prompt) or "bos" in arguments.values())
    for (begin, end), column, form in itertools.product(ends, (False, True), forms):
        for last_only in (False, True) if "logit" not in plain(parameter) else (True, False):
            for pair in (False,) if last_only else (False, True):
                yield from (Reading(form, last_only, pair, log, column, begin, end) for log in logs)


def _ends(function: Any, is_told: bool) -> list[tuple[int, int]]:
    """The first and the last id. is_told: the first, by an argument, so that no number stands for it."""
    numbers = _numbers(function)
    usual = [(BOS, end) for end in dict.fromkeys((EOS, *numbers)) if end != BOS]
    pairs = itertools.combinations(sorted(numbers), 2)  # the first word of a vocabulary comes before the last
    return usual if is_told else usual + [pair for pair in pairs if pair[0] != BOS]


def _numbers(function: Any) -> list[int]:
    """Ids that are written in: if next_word == 3; 0 is in torch.zeros(1, 1)."""
    code = inspect.unwrap(function).__code__
    found = [*code.co_consts, *[0] * ("zeros" in code.co_names)]
    return [*dict.fromkeys(n for n in found if type(n) is int and 0 <= n < WORDS)]


def ends_in(function: Any) -> dict[str, int]:
    """Globals of a function, and of those that it calls, that hold the first or the last id -> that of the toy."""
    found: dict[str, int] = {}
    for one in reached(function):
        for name in one.__code__.co_names:
            end = first_or_last(plain(name))
            if end is not None and type(one.__globals__.get(name)) is int:
                found[name] = end
    return found


def _windows_in(function: Any) -> list[str]:
    """Globals of a function, and of those that it calls, that say how long a text its model takes."""
    return [
        name
        for one in reached(function)
        for name in one.__code__.co_names
        if _says_longest(name) and type(one.__globals__.get(name)) is int
    ]


def _says_longest(name: str) -> bool:
    return settings_of(name)[:1] == ("max_len",)


ENDS = re.compile(r"eos|eot|</s>|\[sep\]|sep_?token|<end>|(end|stop)_?(token|id|symbol|idx|word)", re.IGNORECASE)


def asks_for_end(function: Any) -> bool:
    """Whether a function that is given a tokenizer speaks of a last token."""
    codes = [one.__code__ for one in reached(function)]
    words = [str(word) for code in codes for word in (*code.co_names, *code.co_varnames, *code.co_consts[1:])]
    return any(ENDS.search(word) for word in words)


class Likeliest(TorchFunctionMode):
    """Takes the likeliest word where a word is drawn by its probability. used: whether one was."""

    used = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in (torch.multinomial, Tensor.multinomial):
            self.used = True
            probabilities = args[0] if args else (kwargs or {})["input"]
            return probabilities.argmax(-1, keepdim=True)
        if func in (torch.topk, Tensor.topk):  # 50 of a toy that knows fewer words
            given = {**dict(zip(("input", "k", "dim", "largest", "sorted"), args, strict=False)), **(kwargs or {})}
            if "dim" not in given or given["dim"] in (-1, given["input"].dim() - 1):
                given["k"] = min(given["k"], given["input"].shape[-1])
            return torch.topk(**given)
        return func(*args, **(kwargs or {}))


class LikeliestOfArrays:
    """The same of NumPy's draws, in place of a generator: choice(n, p=probabilities)."""

    def __init__(self, likeliest: Likeliest, *seed: Any) -> None:
        self._likeliest, self._other = likeliest, np.random.Generator(np.random.PCG64(0))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, **options: Any) -> Any:
        if p is None:
            return self._other.choice(a, size, replace)
        self._likeliest.used = True
        place = int(np.argmax(p))
        drawn = place if np.ndim(a) == 0 else a[place]
        return drawn if size is None else np.full(size, drawn)


@contextmanager
def _likeliest() -> Iterator[Likeliest]:
    """The likeliest word of what torch or NumPy draws."""
    random: Any = np.random
    before = random.choice, random.default_rng
    with Likeliest() as likeliest:
        random.choice = LikeliestOfArrays(likeliest).choice
        random.default_rng = functools.partial(LikeliestOfArrays, likeliest)
        try:
            yield likeliest
        finally:
            random.choice, random.default_rng = before


class Decoder:
    """A decoding function as one of the canonical inputs. arguments: its parameters -> canonical inputs."""

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, str], reading: Reading) -> None:
        self.function, self.reading = function, reading
        places = {name: parameter for parameter, name in arguments.items()}
        self.model, self.prompt, self.limit = (
            places["next_logits"],
            prompt_of(arguments, function),
            places.get("max_len", ""),
        )
        self.samples, self.note, self.around = False, "", surroundings.stand_ins(function)
        self.answers = answers.of_writer(function)
        taken = inspect.signature(function).parameters.values()
        large = [
            p for p in taken if plain(p.name) in SAMPLING["top_k"] and type(p.default) is int and p.default > WORDS
        ]
        self.told: dict[str, Any] = {p.name: WORDS for p in large}  # top_k=50, of a toy that knows fewer words
        self.told |= {p.name: NEUTRAL["penalty"] for p in taken if plain(p.name) in SAMPLING["penalty"]}
        asked = [p.name for p in taken if p.default is p.empty and p.name not in arguments]
        for option, all_words in (("top_k", WORDS), ("top_p", NEUTRAL["top_p"])):
            self.told |= {name: all_words for name in asked if plain(name) in SAMPLING[option]}
        self.windows = [p.name for p in taken if p.name not in arguments and _says_longest(p.name)]

    def __call__(self, **given: Any) -> Tensor:
        next_logits = given[self.model]
        given[self.model] = ToyModel(next_logits, self.reading, helpers_of(self.function), self.answers)
        if self.prompt:
            number = given.get(self.prompt, BOS)
            first = torch.tensor([number])
            text = " ".join(map(str, first.tolist()))
            forms = {"row": first[None], "ids": first, "list": first.tolist(), "text": text, "source": TEXT}
            forms["number"] = number
            given[self.prompt] = forms[self.reading.prompt]
        if MORE.search(plain(self.limit)):
            given[self.limit] -= 1  # the first id is there already
        given = {**given, **sources.as_taken(self.function, given), **self.told}
        values = self.around | ends_in(self.function)
        if (longest := longest_of(next_logits)) is not None:
            given |= dict.fromkeys(self.windows, longest)
            given |= {name: told.config(longest) for name, value in given.items() if isinstance(value, Config)}
            values |= dict.fromkeys(_windows_in(self.function), longest)
        with _likeliest() as likeliest, surroundings.replaced(self.function, values), _printed() as said:
            output = self.function(**given)
            output = [*output] if inspect.isgenerator(output) else " ".join(said) if output is None else output
        self.samples = likeliest.used
        found = first_of(output)
        is_text = isinstance(found, str) or (
            isinstance(found, (list, tuple)) and any(isinstance(one, str) for one in found)
        )
        ids = _without_padding(torch.as_tensor(ids_of(found) if is_text else found).flatten().long(), self.reading.end)
        return self.reading.toys(ids if self.limit else self._beginning(ids))

    def _beginning(self, ids: Tensor) -> Tensor:
        """As many as the reference writes: how many it writes at most is its own affair."""
        longest = MAX_LEN if ids[:1].tolist() == [self.reading.begin] else MAX_LEN - 1
        if len(ids) > longest:
            self.note = f"It is not told how many words to write at most: of longer texts the first {MAX_LEN} count."
        return ids[:longest]


def _without_padding(ids: Tensor, end: int) -> Tensor:
    """A text without what stands behind its last word, in a tensor that was full of padding at first."""
    ends = (ids == end).nonzero().flatten()
    is_padded = len(ends) > 0 and bool((ids[ends[0] + 1 :] == PADDING).all())
    return ids[: ends[0] + 1] if is_padded else ids


@contextmanager
def _printed() -> Iterator[list[str]]:
    """What is printed, in place of printing it: of some writers that is all that there is."""
    said: list[str] = []
    before = builtins.print
    builtins.print = lambda *words, **options: said.extend(map(str, words))
    try:
        yield said
    finally:
        builtins.print = before


def prompt_of(arguments: Mapping[str, str], function: Any) -> str:
    """The parameter that takes the first ids, where there is none for the first id alone.

    Of a function that has a tokenizer from elsewhere, it may be a text that need not be given: start="Once".
    """
    places = {name: parameter for parameter, name in arguments.items()}
    if "prompt" in places:
        return places["prompt"]
    found = places.get("bos", "")
    if not found and "bos" not in arguments and surroundings.has_tokenizer(function):
        texts = [p.name for p in inspect.signature(function).parameters.values() if isinstance(p.default, str)]
        return next((name for name in texts if BEGINNING.search(plain(name))), "")
    is_one = OF_ENDS["bos"].fullmatch(plain(found)) or plain(found) in INPUTS["bos"].split()
    return "" if is_one and plain(found) not in EITHER else found


def first_of(output: Any) -> Any:
    """The ids among what a decoding function returned: with scores, with other hypotheses."""
    if isinstance(output, Tensor):
        is_column = output.dim() == 2 and output.shape[1] == 1
        return output[:, 0] if is_column else output[0] if output.dim() == 2 else output
    if isinstance(output, list) and output and all(isinstance(one, Tensor) and one.numel() == 1 for one in output):
        return [int(one) for one in output]  # word by word
    if isinstance(output, tuple) and isinstance(output[0], Tensor) and output[0].is_floating_point():
        output = next((one for one in output if isinstance(one, str)), output)  # the last scores, and the text
    while isinstance(output, (list, tuple)) and output and not isinstance(output[0], (int, str, np.integer)):
        if isinstance(output[0], Tensor) and output[0].dim() == 0:
            return [int(one) for one in output]
        if isinstance(output[0], float) and len(output) > 1:  # the score comes first
            output = output[1:]
            continue
        output = output[0]
    if isinstance(output, Tensor):
        return first_of(output)
    return output[0] if isinstance(output, list) and _are_texts(output) else output


def _are_texts(found: list[Any]) -> bool:
    """Whether several texts were written, of one beginning, and not the words of one."""
    return len(found) > 1 and all(isinstance(one, str) and len(ids_of(one)) > 1 and one == found[0] for one in found)


def gives_log_probabilities(projection: Any, d_model: int) -> bool:
    """Whether a learner's projection to the vocabulary ends in log_softmax."""
    try:
        sums = projection(torch.linspace(-1, 1, d_model, dtype=torch.float64).reshape(1, 1, -1)).logsumexp(-1)
    except Exception:  # the learner's code may raise anything
        return False
    return bool((sums.abs() < 1e-5).all())
