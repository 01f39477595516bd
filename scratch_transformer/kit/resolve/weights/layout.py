"""Where the canonical weights are among a learner's parameters: packed, transposed, one per head, shared, missing.

All of the learner's parameters, one after the other, are one long vector. A *layout* says for every number of every
canonical weight where it is in that vector, or which constant stands for it: `ZERO`, `ONE`. So a layout is written as
tensor operations on a tensor of positions: a packed matrix is `positions[:d_model]`, a transposed one `positions.T`.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import re
import warnings
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_of_torch
from scratch_transformer.kit.resolve.weights.twice import project_once

ZERO, ONE = -1, -2
CONSTANTS = torch.tensor([1.0, 0.0], dtype=torch.float64)
"""What stands at these positions, behind the numbers of a vector."""
Layout = dict[str, Tensor]
"""Canonical name -> positions, of the shape of the canonical weight."""


FIRST: weakref.WeakKeyDictionary[nn.Module, dict[str, Tensor]] = weakref.WeakKeyDictionary()
"""What modules had when they were looked at first: what one layout leaves out must not be left by another."""


class Parameters:
    """A module's parameters as one vector. tensors: by path; initial: copies of vectors. positions: of each, in it.

    unregistered: those that PyTorch does not know of, in plain lists, or plain tensors where there is nothing else, in
    all of it or in a part that projects.
    Frozen tables of sines are left alone.
    without: paths of those that nothing depends on.
    """

    def __init__(self, module: nn.Module, without: Collection[str] = ()) -> None:
        self.module = module
        self.tensors: dict[str, Tensor] = {}
        self._places: dict[str, tuple[slice, torch.Size]] = {}
        self.unregistered: list[str] = []
        starts: dict[int, int] = {}
        size = 0
        has_none = not any(part._parameters for _, part in walk(module))
        for path, part in walk(module):
            is_plain = has_none or _has_plain_weights(part)
            for name, values in (_plain_tensors(part) if is_plain else part._parameters).items():
                if values is None or _is_table(values):
                    continue
                full = f"{path}.{name}" if path else name
                if full in without:
                    continue
                if id(values) not in starts:
                    starts[id(values)], size = size, size + values.numel()
                start = starts[id(values)]
                self.tensors[full] = values
                self._places[full] = slice(start, start + values.numel()), values.shape
        self.size = size
        kept = FIRST.setdefault(module, dict[str, Tensor]())
        for name, tensor in self.tensors.items():
            if name not in kept or kept[name].shape != tensor.shape:
                kept[name] = tensor.detach().double().clone()
        self.first = self._vector(kept)
        vectors = {name: values for name, values in self.tensors.items() if values.squeeze().dim() < 2}
        self.initial = {name: values.detach().clone() for name, values in vectors.items()}
        registered = {id(values) for values in module.parameters()}
        self.unregistered = [name for name, values in self.tensors.items() if id(values) not in registered]

    @functools.cached_property
    def positions(self) -> dict[str, Tensor]:
        return {name: torch.arange(p.start, p.stop).reshape(shape) for name, (p, shape) in self._places.items()}

    def are_placed_as(self, other: Parameters | None) -> bool:
        """Whether a layout of another module's parameters is one of these."""
        return other is not None and self._places == other._places

    def read(self) -> Tensor:
        return self._vector(self.tensors)

    def _vector(self, tensors: Mapping[str, Tensor]) -> Tensor:
        vector = torch.zeros(max(self.size, 1), dtype=torch.float64)
        for name in self.tensors:
            vector[self._places[name][0]] = tensors[name].detach().reshape(-1).double()
        return vector

    def write(self, vector: Tensor) -> None:
        for name, values in self.tensors.items():
            place, shape = self._places[name]
            values.data = vector[place].reshape(shape).to(values.dtype, copy=True)

    @contextlib.contextmanager
    def changed(self, names: Iterable[str]) -> Iterator[None]:
        """These have other values in the block."""
        values = self.read()
        others = values.clone()
        for name in names:
            others[self.positions[name]] = 2.0 * others[self.positions[name]] + 1.0
        self.write(others)
        try:
            yield
        finally:
            self.write(values)

    def unplaced(self, layout: Layout) -> list[str]:
        """Those to be trained that stand for no weight of a layout."""
        placed = torch.zeros(self.size, dtype=torch.bool)
        for positions in layout.values():
            placed[positions[positions >= 0]] = True
        return [n for n, values in self.tensors.items() if values.requires_grad and not placed[self.positions[n]].any()]

    def load(self, layout: Layout, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Puts canonical values where the layout says. Returns what the parameters then stand for."""
        vector = torch.cat([self.first, CONSTANTS])
        for name, positions in layout.items():
            if name in state:
                vector[positions] = state[name].reshape(positions.shape).double()
        vector[-len(CONSTANTS) :] = CONSTANTS
        self.write(vector)
        return {
            name: vector[layout[name]].to(values.dtype) if name in layout else neutral(name, values)
            for name, values in state.items()
        }

    def gradients(self, layout: Layout, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Those of the parameters, for the canonical ones; without parameters that stand for none."""
        vector, is_known = torch.zeros(self.size, dtype=torch.float64), torch.zeros(self.size, dtype=torch.bool)
        for name, positions in layout.items():
            at = positions.flatten()
            if name in gradients:
                vector.index_add_(0, at[at >= 0], gradients[name].double().flatten()[at >= 0])
                is_known[at[at >= 0]] = True
        return {name: vector[own] for name, own in self.positions.items() if bool(is_known[own].all())}


def copied(module: nn.Module) -> nn.Module:
    """A copy with the weights that the module had first: those of another trial would do for a layout left out."""
    made = copy.deepcopy(module)
    own, first = Parameters(made).tensors, FIRST.get(module, {})
    for name, values in own.items():
        if name in first:
            values.data = first[name].to(values.dtype, copy=True)
    FIRST.pop(made, None)
    return made


def _is_table(values: Tensor) -> bool:
    """Frozen, between -1 and 1 and up to there: sines and cosines, not to be learned; or what is wrong in their place,
    computed from 0 on, each row near the last one. What torch.rand draws is above 0 from its first row on.
    """
    lazy = isinstance(values, nn.parameter.UninitializedParameter)
    if values.requires_grad or values.dim() < 2 or lazy or not values.numel():
        return False
    rows = values.detach().double().flatten(0, -2)
    alike = torch.cosine_similarity(rows[1:-1], rows[2:], dim=-1)
    begins = bool(((rows[0] == 0) | (rows[0] == 1)).all())
    is_between = 0.9 < float(rows.abs().max()) <= 1 + 1e-6 and (begins or float(rows.min()) < 0)
    return is_between or (begins and bool(alike.mean() > 0.5))


def neutral(name: str, like: Tensor) -> Tensor:
    """What a parameter that isn't there does: a bias adds 0, a scale multiplies by 1, a projection changes nothing."""
    if name.endswith("bias"):
        return torch.zeros_like(like)
    if like.dim() == 2 and like.shape[0] == like.shape[1]:
        return torch.eye(like.shape[0], dtype=like.dtype)
    return torch.ones_like(like)


@functools.lru_cache(maxsize=4096)
def missing(shape: tuple[int, ...], name: str) -> Tensor:
    """Positions for a weight that the learner's module has no place for."""
    values = neutral(name, torch.zeros(shape))
    return torch.where(values == 1, ONE, ZERO)


def walk(module: nn.Module, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, nn.Module]]:
    """Every submodule with its path, also those in plain lists and dictionaries, which PyTorch does not see.

    Each once; but a layer that a list has several times is every one of these layers.
    """
    seen = set() if seen is None else seen
    seen.add(id(module))
    yield path, module
    children = list(_children(module))
    ids = [id(part) for _, part in children]
    are_repeated = len(set(ids)) < len(ids)
    for name, part in children:
        if id(part) not in seen or (are_repeated and name.isdigit() and ids.count(id(part)) > 1):
            yield from walk(part, f"{path}.{name}" if path else name, set(seen) if name.isdigit() else seen)


OF_A_NORM = re.compile(r"(?i)_?(weights?|bias(es)?|scales?|shifts?|gains?|gammas?|betas?|g|b)")
"""What the scale and the shift of a norm are called."""


def _plain_tensors(part: nn.Module) -> dict[str, Tensor]:
    """Matrices of fractions that are attributes and neither parameters nor buffers: self.weight = torch.empty(…).

    And vectors that are called as a norm's scale and shift are. What is kept beside a table of sines, zeros of its
    shape, is none.
    """
    own = {name: value for name, value in vars(part).items() if isinstance(value, Tensor)}
    own = {name: value for name, value in own.items() if value.is_floating_point()}
    of_norms = {name for name, value in own.items() if value.dim() == 1 < value.numel() and OF_A_NORM.fullmatch(name)}
    found = {name: value for name, value in own.items() if value.dim() == 2 or name in of_norms}
    return {} if any(map(_is_table, found.values())) else found


def _has_plain_weights(part: nn.Module) -> bool:
    """Whether a part has no parameters, and several matrices that were drawn: self.w_q = torch.rand(d, d)."""
    if is_of_torch(type(part)) or any(True for _ in part.parameters()):
        return False
    drawn = [value for value in _plain_tensors(part).values() if 2 * len(value.unique()) > value.numel() > 1]
    return len(drawn) > 1


def _children(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, part in module._modules.items():
        if part is not None:
            yield name, part
    for name, value in vars(module).items():
        if name[0] == "_" or type(value) in PLAIN or not isinstance(value, (dict, list, tuple)):
            continue
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            if isinstance(part, nn.Module):
                yield f"{name}.{key}", part
            elif isinstance(part, (list, tuple)):
                for inner, deep in enumerate(part):
                    if isinstance(deep, nn.Module):
                        yield f"{name}.{key}.{inner}", deep


PLAIN = frozenset((str, int, bool, float, type(None), Tensor, nn.Parameter))
"""Types of what holds no modules: most attributes."""


def _looked_up(part: nn.Module) -> Tensor | None:
    """The table of an nn.Embedding, or of a class like it, which has a matrix and nothing else."""
    own = [] if isinstance(part, nn.Linear) else [*part.parameters()]
    is_table = isinstance(part, nn.Embedding) or (len(own) == 1 and own[0].dim() == 2 and not [*part.children()])
    return own[0] if is_table else None


SEGMENTS = re.compile(r"segment|token_?type|(^|[._])segs?(_?emb|\.|$)")


def prepare(module: nn.Module) -> None:
    """Float64 and evaluation mode, also for what PyTorch does not see: modules in lists, tensors in attributes.

    Embeddings of segments are zeros: a reference that has none is no other model then; and of two projections in a row
    the first changes nothing.
    """
    project_once(module)
    seen_by_torch: set[nn.Module] = set()
    for path, part in walk(module):
        if SEGMENTS.search(path.lower()) and (table := _looked_up(part)) is not None:
            table.data.zero_()
        if part not in seen_by_torch:
            part.eval()
            part.double()
            seen_by_torch.update(part.modules())
        for name, value in vars(part).items():
            if isinstance(value, Tensor) and value.is_floating_point() and not isinstance(value, nn.Parameter):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    setattr(part, name, value.double())
