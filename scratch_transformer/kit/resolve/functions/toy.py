"""A toy model in place of a trained one: whatever it is asked for by a decoding function, its logits come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scratch_transformer.kit import clock
from scratch_transformer.kit.canonical.decoding import longest_of
from scratch_transformer.kit.judge.frames import learners_frame, line_of, parsed, values_asked_for
from scratch_transformer.kit.kinds.decoding import BOS, EOS
from scratch_transformer.kit.resolve.build.tokenizer import Tokenizer, is_tokenizer
from scratch_transformer.kit.resolve.call import told
from scratch_transformer.kit.resolve.call.told import LAYERS, LONG, SOURCE, SOURCE_LENGTH, WORDS
from scratch_transformer.kit.resolve.functions.pasts import Pasts
from scratch_transformer.kit.resolve.names.inputs import first_or_last
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

HEADS = ("generator", "project", "fc_out", "projection", "lm_head", "head", "out", "linear")
OF_METHODS = "model"
"""What `self` is called in a method that stands for a function."""
ABSENT = ("module", "generate", "tokenizer")
"""What a model is asked for and the toy does not have: that of a parallel model, of a library's."""
PADDING = 0
"""An id that is none of the first, the last or the source's."""
MARK = (0.0, 1.0, -2.0, 4.0)
"""Of an embedded id: the id itself comes first."""


@dataclass(frozen=True)
class Reading:
    """How a decoding function is called. prompt: the form of the first ids, where it takes those and no "number";
    "text" of them, or "source" where the text is that of the source.

    last_only: the model answers with the scores of the next word alone. pair: with logits and a loss.
    head_logs: the model's projection ends in log_softmax. sequence_first: ids are a column.
    begin, end: the numbers that its code has written in for the first and the last id.
    """

    prompt: str = "row"
    last_only: bool = False
    pair: bool = False
    head_logs: bool = False
    sequence_first: bool = False
    begin: int = BOS
    end: int = EOS

    def toys(self, ids: Tensor) -> Tensor:
        """The toy's own ids for those of somebody's code: its first and its last one among them."""
        if (self.begin, self.end) == (BOS, EOS):
            return ids
        ids, begin = (_exchanged(some, self.end, EOS) for some in (ids, torch.tensor(self.begin)))
        return _exchanged(ids, int(begin), BOS)


class AnyMask(Tensor):
    """A mask of the memory, for as many samples and with as many dimensions as it is taken to have."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return super().__torch_function__(func, types, args, kwargs or {})
        except (RuntimeError, IndexError):
            if func in (Tensor.expand, Tensor.repeat, Tensor.__getitem__):
                return args[0]
            raise


WHOLE = ("module", "model", "transformer", "net")
"""Names under which a wrapper has the model itself."""


class ToyModel(nn.Module):
    """Whatever is called with ids, the toy's logits come back.

    encode(src, ...) gives a memory, decode(..., ids, ...) and calling the model logits, generator and project pass on.
    """

    def __init__(
        self,
        next_logits: Callable[[Tensor], Tensor],
        reading: Reading,
        helpers: Mapping[str, Any] = MappingProxyType({}),
        answers: Any = None,
    ) -> None:
        """helpers: what a method that stands for a function calls of its own class, and a tokenizer that it has.

        answers: makes what the model gives with its logits in it, where that is an object.
        """
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(1))
        self.device = torch.device("cpu")
        self.longest = longest_of(next_logits) or LONG
        names = ("block_size", "context_length", "n_ctx", "max_len", "max_seq_len")
        self.config = SimpleNamespace(**dict.fromkeys(names, self.longest))
        for name in HEADS:
            self.add_module(name, Head(reading.head_logs))
        self.next_logits, self.helpers, self.reading = next_logits, helpers, reading
        self.pasts, self.answers = Pasts(), answers

    def __getattr__(self, name: str) -> Any:
        """Any other part that a model may have; its longest sequence."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "reading" not in vars(self):
                raise
            if name in self.helpers:
                helper = self.helpers[name]
                return helper.__get__(self) if hasattr(type(helper), "__get__") else helper
            if name.startswith("_") or name in ABSENT:
                raise
            if plain(name) in WHOLE:
                return self
            if (end := first_or_last(plain(name))) is not None:
                return end
            number = self.number(name)
            return Part(self, plain(name)) if number is None else number

    def number(self, name: str) -> int | None:
        """Its longest sequence, the id of padding, how many words it knows; None of what is no such number."""
        meant = next(iter(settings_of(name)), "").removeprefix("src_").removeprefix("tgt_")
        numbers = {"max_len": self.longest, "pad": PADDING}
        return WORDS if plain(name) in ("vocabsize", "nvocab", "numtokens") else numbers.get(meant)

    def encode(self, *args: Any, **options: Any) -> Any:
        """A memory; with a mask of it, or several, where the code takes those: memory, mask = model.encode(src)."""
        memory, more = told.memory(), values_asked_for() - 1
        return (memory, *[torch.ones(1, 1, 1, 3, dtype=torch.bool).as_subclass(AnyMask)] * more) if more else memory

    def part(self, word: str, *args: Any, **options: Any) -> Any:
        """What a part of this name makes of ids, of their embeddings, of logits that are there, or of the source."""
        given = [*args, *options.values()]
        found, floats = _ids_in(given), [v for v in given if isinstance(v, Tensor) and v.is_floating_point()]
        embedded = next((v for v in floats if _is_embedded(v)), None)
        if "device" in word:  # self.get_device()
            return self.device
        if "cache" in word:
            return self.pasts.start()
        if "mask" in word:
            return torch.ones(1, 1, 1, given[0].shape[-1], dtype=torch.bool)
        if re.search("emb|pos|tok", word) and (found or embedded is not None):
            return embedded if embedded is not None else _embedded(found[0]) * ("pos" not in word)
        if "enc" in word and "dec" not in word:
            return self.encode()
        if found or embedded is not None:
            return self.forward(*given)
        return Head(self.reading.head_logs)(floats[0]) if floats and "enc" not in word else self.encode()

    def forward(self, *args: Any, **options: Any) -> Any:
        clock.count(clock.TOY)
        given = [*args, *options.values()]
        of_arrays = any(isinstance(value, np.ndarray) for value in given)
        values = [_of_numbers(v) if isinstance(v, (list, tuple, np.ndarray)) else v for v in given]
        ids = _ids_in(values)[0]
        turned = self.reading.sequence_first and ids.dim() == 2
        ids = ids.T if turned else ids
        new = ids.shape[-1]
        ids, past = self.pasts.joined(ids, given, options)
        with torch._C.DisableTorchFunction():  # what the toy computes is nothing that the learner's code calls
            order = self.reading.toys(torch.arange(WORDS))
            logits = self.next_logits(self.reading.toys(ids.reshape(-1, ids.shape[-1])))[..., order]
        logits = logits[:, -1] if self.reading.last_only else logits[:, -new:]
        logits = logits if ids.dim() == 2 or _is_beside_a_batch(values) else logits[0]
        logits = logits.transpose(0, 1) if turned and not self.reading.last_only else logits
        if self.answers is not None:
            return self.answers(logits, past)
        answer: Any = logits.numpy().view(Numbers) if of_arrays else logits
        return (answer, *[past] * max(1, values_asked_for() - 1)) if self.reading.pair else answer

    decode = decoder = forward


class Numbers(np.ndarray):
    """An array that may be asked for its data, as tensors of the learner's own are."""

    @property
    def data(self) -> Any:
        return self


def _of_numbers(values: Any) -> Any:
    """As a tensor, if there are numbers in it: a cache is a list too, of None at first."""
    try:
        return torch.tensor(values)
    except (TypeError, ValueError, RuntimeError):
        return values


def _exchanged(ids: Tensor, one: int, other: int) -> Tensor:
    return torch.where(ids == one, other, torch.where(ids == other, one, ids))


def _ids_in(values: Sequence[Any]) -> list[Tensor]:
    """The target's ids among arguments, or those that were embedded."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    whole = [v for v in tensors if not v.is_floating_point() and v.dtype != torch.bool]
    ids = [v for v in whole if v.dim() <= 2 and not _is_source(v)]  # masks have more dimensions
    return ids or [(v[..., 0] / v[..., 1]).round().long() for v in tensors if _is_embedded(v)]


def _is_source(ids: Tensor) -> bool:
    """The source's ids, perhaps between a first and a last one."""
    more = ids.shape[-1] - SOURCE_LENGTH if ids.numel() else 0
    begin = int(ids.flatten()[0] != SOURCE) if 1 <= more <= 2 else 0
    inner = ids[..., begin : begin + SOURCE_LENGTH] if 1 <= more <= 2 else ids
    return ids.numel() > 1 and bool((inner == SOURCE).all())  # one alone is a new word


def _embedded(ids: Tensor) -> Tensor:
    """Vectors that show their ids, whatever number they are multiplied with."""
    return torch.cat((ids[..., None].double(), torch.tensor(MARK[1:]).double().expand(*ids.shape, -1)), -1)


def _is_embedded(x: Tensor) -> bool:
    is_wide = x.is_floating_point() and x.dim() >= 2 and x.shape[-1] == len(MARK) and bool(x[..., 1].all())
    return is_wide and bool((x[..., 2:] == x[..., 1:2] * torch.tensor(MARK[2:]).to(x)).all())


def _is_beside_a_batch(values: Sequence[Any]) -> bool:
    """Whether embedded words without a batch come with a memory that has one, which what is made of both has then."""
    tensors = [value for value in values if isinstance(value, Tensor) and value.is_floating_point()]
    return any(v.dim() == 2 and _is_embedded(v) for v in tensors) and any(
        v.dim() == 3 and not _is_embedded(v) for v in tensors
    )


def is_asked_in_vain(error: BaseException | None) -> bool:
    """Whether something stopped in a learner's line that calls the toy model: what that gives is not the learner's."""
    frame = learners_frame(error)
    if error is None or frame is None:
        return False
    line = line_of(error, frame)
    nodes = (node for node in parsed(frame.f_code.co_filename) if getattr(node, "lineno", 0) == line)
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {OF_METHODS} if "self" in names else set()
    return any(isinstance(frame.f_locals.get(name), (ToyModel, Part)) for name in names)


class Part:
    """Of the toy model, by its name: called as that part, or one of several layers alike; counted with, its length."""

    def __init__(self, model: ToyModel, word: str) -> None:
        self.model, self.word = model, word

    def __index__(self) -> int:
        return self.model.longest

    def __neg__(self) -> int:
        return -self.model.longest

    def __lt__(self, other: Any) -> Any:
        return self.model.longest < other

    def __le__(self, other: Any) -> Any:
        return self.model.longest <= other

    def __gt__(self, other: Any) -> Any:
        return self.model.longest > other

    def __ge__(self, other: Any) -> Any:
        return self.model.longest >= other

    def __rsub__(self, other: Any) -> Any:
        return other - self.model.longest

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.model.part(self.word, *args, **options)

    def __len__(self) -> int:
        return LAYERS

    def __getitem__(self, index: int) -> Part:
        if index >= LAYERS:
            raise IndexError(index)
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "device":  # self.embed.weight.device
            return self.model.device
        if is_tokenizer(name):  # self.state.tokenizer
            return Tokenizer(BOS, EOS)
        number = self.model.number(name)
        return Part(self.model, plain(name)) if number is None else number


class Head(nn.Module):
    """The toy's logits are there already, so it passes them on; what is within it does, too."""

    def __init__(self, logs: bool) -> None:
        super().__init__()
        self.logs = logs
        self.proj = self.linear = self.fc = self.projection = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return x.log_softmax(-1) if self.logs else x
