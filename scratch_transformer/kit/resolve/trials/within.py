"""What a model computes before it returns something else: the scores inside of a loss, the last layer's output."""

from __future__ import annotations

import itertools
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_of_torch
from scratch_transformer.kit.judge.running import parts_of, watched
from scratch_transformer.kit.resolve.call.plan import CannotCall
from scratch_transformer.kit.resolve.candidate import Resolved, tensors
from scratch_transformer.kit.resolve.structure import OF_TORCH, has_softmax

AS_LOSS = "It returns its loss alone: the scores inside are compared, and the loss is not checked."
AFTER = "What it makes of the last layer's output, {}, is not checked: the layers are compared."


def scores(candidate: Resolved, count: int) -> None:
    """From now on a candidate gives, in place of its loss, the scores of so many words that it computes last."""
    _instead(candidate, _Watch(candidate.module, count))
    candidate.limits.append(AS_LOSS)


def layers(candidate: Resolved, width: int, output: Tensor) -> None:
    """From now on a candidate gives what its layers do, as wide as that, in place of what it makes of it."""
    _instead(candidate, _Watch(candidate.module, width, heads=True))
    candidate.limits.append(AFTER.format(tuple(output.shape)))


def scores_by_a_network(module: nn.Module | None, width: int, count: int) -> bool:
    """Whether a part of a model that attends to nothing makes the scores of so many words by several linear layers."""
    for part in [*module.modules()][1:] if module is not None else ():
        layers = [one for one in part.modules() if isinstance(one, nn.Linear)]
        leads = len(layers) > 1 and (layers[0].in_features, layers[-1].out_features) == (width, count) != (width, width)
        if leads and not _attends(part):
            return True
    return False


def _instead(candidate: Resolved, watch: _Watch) -> None:
    function = candidate.function

    def forward(**given: Any) -> Tensor:
        watch.begin()
        with watched(candidate.module, watch.keep):
            candidate.of_whole[:] = [*tensors(function(**given))][:1]
        return watch.last()

    candidate.function, candidate.ends_within = forward, True


class _Watch:
    """Keeps what the parts of a module give that is so wide, for every token.

    heads: whether what a head computes between its linear layers is left out: BERT's transforms each token before the
    scores, by a class of its own or by the model's own layers.
    """

    def __init__(self, module: nn.Module | None, width: int, heads: bool = False) -> None:
        self.module, self.width, self.heads = module, width, heads
        self.attending = {part for part in parts_of(module) if part is not module and _attends(part)}
        self.begin()

    def begin(self) -> None:
        self.found: list[Tensor] = []
        self.linear: list[int] = []
        """How many were found before each linear layer."""
        self.behind: list[tuple[bool, int]] = []
        """Of each linear layer behind the last part that attends, whether its input is as wide, and the same number."""

    def _is_wide(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dim() == 3 and value.shape[-1] == self.width

    def keep(self, part: Any, args: Any, output: Any) -> None:
        output = next(tensors(output), None)
        if _is_linear(part):
            self.linear.append(len(self.found))
            self.behind.append((bool(args) and args[0].shape[-1] == self.width, len(self.found)))
        if self._is_wide(output):
            self.found.append(output)
        elif len(args) == 1 and self._is_wide(args[0]) and part is not self.module:
            inside = self.linear[len(self.linear) - sum(map(_is_linear, part.modules())) :]
            del self.found[min(inside, default=len(self.found)) :]
        if part in self.attending:
            self.behind = []

    def last(self) -> Tensor:
        last = itertools.takewhile(lambda one: one[0], reversed(self.behind if self.heads and self.attending else []))
        found = self.found[: min((count for _, count in last), default=len(self.found))]
        if not found:
            raise CannotCall("it returns a number, and none of its parts gives a score for every word")
        return found[-1]


def _is_linear(part: nn.Module) -> bool:
    """Whether it is one of torch's, or of a class that is called like them."""
    is_alone = next(part.children(), None) is None and any(p.dim() == 2 for p in part.parameters(recurse=False))
    return isinstance(part, nn.Linear) or (is_alone and "linear" in type(part).__name__.lower())


def _attends(part: nn.Module) -> bool:
    """Whether it is an attention or has one."""
    types = {type(one) for one in part.modules()}
    return any(
        cls is nn.MultiheadAttention or (OF_TORCH.search(cls.__name__) if is_of_torch(cls) else has_softmax(cls))
        for cls in types
    )
