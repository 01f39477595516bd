"""Decoding functions, called with a toy model in place of a trained one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.resolve.functions.arrays import reached
from scratch_transformer.kit.resolve.names.inputs import INPUTS
from scratch_transformer.kit.resolve.names.words import plain

SOURCE = 7
"""Every id of the source that a decoder is given: no target of the toy model starts with it."""
HEADS = ("generator", "project", "fc_out", "projection", "lm_head", "head", "out", "linear")
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


class ToyModel(nn.Module):
    """Whatever is called with ids, the toy's logits come back.

    encode(src, ...) gives a memory, decode(..., ids, ...) and calling the model logits, generator and project pass on.
    """

    def __init__(self, next_logits: Callable[[Tensor], Tensor], reading: Reading) -> None:
        super().__init__()
        self.next_logits, self.reading = next_logits, reading
        self.nothing = nn.Parameter(torch.zeros(1))
        self.device = torch.device("cpu")
        self.config = SimpleNamespace(block_size=LONG, context_length=LONG, n_ctx=LONG, max_len=LONG, max_seq_len=LONG)
        self._modules.update({name: Head(reading.head_logs) for name in HEADS})

    def encode(self, *args: Any, **options: Any) -> Tensor:
        return torch.zeros(1, 3, 4)

    def forward(self, *args: Any, **options: Any) -> Any:
        given = [*args, *options.values()]
        of_arrays = any(isinstance(value, np.ndarray) for value in given)
        values = [torch.tensor(v) if isinstance(v, (list, tuple, np.ndarray)) else v for v in given]
        ids = [v for v in values if isinstance(v, Tensor) and not v.is_floating_point() and v.dtype != torch.bool]
        ids = [v for v in ids if v.dim() <= 2 and not bool((v == SOURCE).all())]  # masks have more dimensions
        logits = self.next_logits(ids[0].reshape(-1, ids[0].shape[-1]))
        logits = logits[:, -1] if self.reading.last_only else logits
        logits = logits if ids[0].dim() == 2 else logits[0]
        answer: Any = logits.numpy() if of_arrays else logits
        return (answer, None) if self.reading.pair else answer

    decode = decoder = forward


    def __getattr__(self, name: str) -> Any:
        """What a model of other names has: an embedding leaves the ids as they are, a decoder gives the logits."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            found = next((make for words, make in OTHER_NAMES if re.search(words, plain(name))), None)
            if found is None or name.startswith("_"):
                raise
            return found(self)


OTHER_NAMES: tuple[tuple[str, Callable[[ToyModel], Any]], ...] = (
    (r"^module$|^model$|^transformer$|^net$", lambda model: model),
    (r"unembed|proj|head|generator|tologits|classifier", lambda model: Head(model.reading.head_logs)),
    (r"^(src|tgt|trg|target|source|token|tok|word)?_?(embed|emb|embedding|embeddings)$", lambda model: nn.Identity()),
    (r"^encode", lambda model: model.encode),
    (r"^decode", lambda model: model.forward),
)
"""Words in the names of a model's parts, and what the toy has there."""


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
