"""Decoding functions, called with a toy model in place of a trained one."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.resolve.functions.arrays import reached
from scratch_transformer.kit.resolve.names.inputs import INPUTS
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

SOURCE = 7
"""Every id of the source that a decoder is given: no target of the toy model starts with it."""
HEADS = ("generator", "project", "fc_out", "projection", "lm_head", "head", "out", "linear")
ABSENT = ("module", "generate", "tokenizer")
"""What a model is asked for and the toy does not have: that of a parallel model, of a library's."""
MARK = (0.0, 1.0, -2.0, 4.0)
"""Of an embedded id: the id itself comes first."""
LONG = 64
"""The longest sequence that the toy model says it takes."""


@dataclass(frozen=True)
class Reading:
    """How a decoding function is called. prompt: the form of the first ids, where it takes those and no number.

    last_only: the model answers with the scores of the next word alone. pair: with logits and a loss.
    head_logs: the model's projection ends in log_softmax.
    """

    prompt: str = "row"
    last_only: bool = False
    pair: bool = False
    head_logs: bool = False


def readings(function: Any, parameter: str, takes_prompt: bool, head_logs: bool | None) -> Iterator[Reading]:
    """All that are worth trying, the likeliest first. head_logs: None if nobody knows."""
    names = {name for one in reached(function) for name in one.__code__.co_names}
    logs = [head_logs] if head_logs is not None else [False, True] if names & set(HEADS) else [False]
    for prompt in ("row", "ids", "list") if takes_prompt else ("row",):
        for last_only in (False, True) if "logit" not in plain(parameter) else (True, False):
            for pair in (False,) if last_only else (False, True):
                yield from (Reading(prompt, last_only, pair, log) for log in logs)


WHOLE = ("module", "model", "transformer", "net")
"""Names under which a wrapper has the model itself."""


class ToyModel(nn.Module):
    """Whatever is called with ids, the toy's logits come back.

    encode(src, ...) gives a memory, decode(..., ids, ...) and calling the model logits, generator and project pass on.
    """

    def __init__(self, next_logits: Callable[[Tensor], Tensor], reading: Reading) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(1))
        self.device = torch.device("cpu")
        self.config = SimpleNamespace(block_size=LONG, context_length=LONG, n_ctx=LONG, max_len=LONG, max_seq_len=LONG)
        for name in HEADS:
            self.add_module(name, Head(reading.head_logs))
        self.next_logits, self.reading = next_logits, reading

    def __getattr__(self, name: str) -> Any:
        """Any other part that a model may have; its longest sequence."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or name in ABSENT or "reading" not in vars(self):
                raise
            if plain(name) in WHOLE:
                return self
            return LONG if "max_len" in settings_of(name)[:1] else functools.partial(self._part, plain(name))

    def encode(self, *args: Any, **options: Any) -> Tensor:
        return torch.zeros(1, 3, len(MARK))

    def _part(self, word: str, *args: Any, **options: Any) -> Any:
        """What a part of this name makes of ids, of their embeddings, of logits that are there, or of the source."""
        given = [*args, *options.values()]
        found, floats = _ids_in(given), [v for v in given if isinstance(v, Tensor) and v.is_floating_point()]
        embedded = next((v for v in floats if _is_embedded(v)), None)
        if "mask" in word:
            return torch.ones(1, 1, 1, given[0].shape[-1], dtype=torch.bool)
        if re.search("emb|pos|tok", word) and (found or embedded is not None):
            return embedded if embedded is not None else _embedded(found[0]) * ("pos" not in word)
        if found or embedded is not None:
            return self.forward(*given)
        return Head(self.reading.head_logs)(floats[0]) if floats and "enc" not in word else self.encode()

    def forward(self, *args: Any, **options: Any) -> Any:
        given = [*args, *options.values()]
        of_arrays = any(isinstance(value, np.ndarray) for value in given)
        values = [torch.tensor(v) if isinstance(v, (list, tuple, np.ndarray)) else v for v in given]
        ids = _ids_in(values)
        logits = self.next_logits(ids[0].reshape(-1, ids[0].shape[-1]))
        logits = logits[:, -1] if self.reading.last_only else logits
        logits = logits if ids[0].dim() == 2 else logits[0]
        answer: Any = logits.numpy() if of_arrays else logits
        return (answer, None) if self.reading.pair else answer

    decode = decoder = forward


def _ids_in(values: Sequence[Any]) -> list[Tensor]:
    """The target's ids among arguments, or those that were embedded."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    whole = [v for v in tensors if not v.is_floating_point() and v.dtype != torch.bool]
    ids = [v for v in whole if v.dim() <= 2 and not bool((v == SOURCE).all())]  # masks have more dimensions
    return ids or [(v[..., 0] / v[..., 1]).round().long() for v in tensors if _is_embedded(v)]


def _embedded(ids: Tensor) -> Tensor:
    """Vectors that show their ids, whatever number they are multiplied with."""
    return torch.cat((ids[..., None].double(), torch.tensor(MARK[1:]).double().expand(*ids.shape, -1)), -1)


def _is_embedded(x: Tensor) -> bool:
    is_wide = x.is_floating_point() and x.dim() >= 2 and x.shape[-1] == len(MARK) and bool(x[..., 1].all())
    return is_wide and bool((x[..., 2:] == x[..., 1:2] * torch.tensor(MARK[2:]).to(x)).all())


class Head(nn.Module):
    """The toy's logits are there already, so it passes them on; what is within it does, too."""

    def __init__(self, logs: bool) -> None:
        super().__init__()
        self.logs = logs
        self.proj = self.linear = self.fc = self.projection = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return x.log_softmax(-1) if self.logs else x


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
        return func(*args, **(kwargs or {}))


class Decoder:
    """A decoding function as one of the canonical inputs. arguments: its parameters -> canonical inputs."""

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, str], reading: Reading) -> None:
        self.function, self.reading = function, reading
        places = {name: parameter for parameter, name in arguments.items()}
        self.model, self.prompt, self.limit = places["next_logits"], prompt_of(arguments), places.get("max_len", "")
        self.samples = False

    def __call__(self, **given: Any) -> Tensor:
        given[self.model] = ToyModel(given[self.model], self.reading)
        if self.prompt:
            first = torch.tensor([given[self.prompt]])
            forms = {"row": first[None], "ids": first, "list": first.tolist()}
            given[self.prompt] = forms[self.reading.prompt]
        if re.search(r"new|step|ntoken|numtoken|gen|words", plain(self.limit)):
            given[self.limit] -= 1  # the first id is there already
        with Likeliest() as likeliest:
            output = self.function(**given)
        self.samples = likeliest.used
        return torch.as_tensor(first_of(output)).flatten().long()


def prompt_of(arguments: Mapping[str, str]) -> str:
    """The parameter that takes the first ids, where there is none for the first id alone."""
    found = next((parameter for parameter, name in arguments.items() if name == "bos"), "")
    return "" if plain(found) in INPUTS["bos"].split() else found


def first_of(output: Any) -> Any:
    """The ids among what a decoding function returned: with scores, with other hypotheses."""
    if isinstance(output, Tensor):
        return output[0] if output.dim() == 2 else output
    while isinstance(output, (list, tuple)) and output and not isinstance(output[0], (int, np.integer)):
        if isinstance(output[0], Tensor) and output[0].dim() == 0:
            return [int(one) for one in output]
        if isinstance(output[0], float) and len(output) > 1:  # the score comes first
            output = output[1:]
            continue
        output = output[0]
    return first_of(output) if isinstance(output, Tensor) else output


def gives_log_probabilities(projection: Any, d_model: int) -> bool:
    """Whether a learner's projection to the vocabulary ends in log_softmax."""
    try:
        sums = projection(torch.linspace(-1, 1, d_model, dtype=torch.float64).reshape(1, 1, -1)).logsumexp(-1)
    except Exception:  # the learner's code may raise anything
        return False
    return bool((sums.abs() < 1e-5).all())
