"""The canonical modules of many recipes with given weights, run on probes: each module and each output made once."""

from __future__ import annotations

import functools
import operator
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit import clock
from scratch_transformer.kit.judge.consulted import Consulted, KnownOutputs
from scratch_transformer.kit.kind import Inputs, Kind, Probe, Settings
from scratch_transformer.kit.recipe import RIGHT, Parts, Recipe

STRUCTURE = (
    "final_norm",
    "embedding_norm",
    "positions",
    "wrapped",
    "head",
    "head_layer",
    "norms",
    "memory_norm",
    "layers",
    "depth",
    "gated",
    "qk_norm",
)
"""The entries of a recipe that decide which parameters a module has."""


THROWN: dict[str, tuple[str, ...]] = {
    "norm_order": ("thrown away",),
    "summand": ("nothing", "its input", "earlier output"),
    "network": ("thrown away",),
}
"""The values of entries with which a sublayer's output is lost."""


SHAPES: dict[tuple[Any, ...], dict[str, torch.Size]] = {}
"""The shapes of the weights of whatever was built: which designs are possible is asked again for every way to call."""


class Variants:
    """Of one kind with its settings. Recipes with the same parameters share a module."""

    def __init__(self, kind: Kind, settings: Settings) -> None:
        self.kind, self.settings = kind, settings
        self._key = kind, *settings.items()
        self._modules: dict[tuple[Any, ...], tuple[nn.Module, dict[str, Tensor]]] = {}
        self._forms: dict[bool, tuple[int, ...] | None] = {}
        """The shapes of outputs without and with a projection at the end, but for their length; None of what stops."""
        self._costs: dict[tuple[Any, ...], float] = {}
        """Seconds for a call of each module."""
        self._loaded: dict[tuple[Any, ...], Hashable] = {}
        self._parts: dict[tuple[Any, ...], list[tuple[str, dict[str, Any]]]] = {}
        self._weights: dict[tuple[Any, ...], frozenset[str]] = {}
        self._lacks: dict[tuple[Any, ...], bool] = {}
        self._outputs: dict[tuple[Hashable, Recipe, str], Tensor | None] = {}
        self._alike: dict[tuple[Any, ...], list[tuple[tuple[str, ...], list[dict[str, Any]]]]] = {}
        """The parts of a module that have one recipe, and the way to them, by the names of a recipe's parts."""
        self._consulted: defaultdict[tuple[Hashable, ...], KnownOutputs] = defaultdict(KnownOutputs)
        """The same by what of a recipe they depend on, for each of its structures."""

    def _made(self, recipe: Recipe) -> tuple[nn.Module, dict[str, Tensor]]:
        structure = _structure(recipe)
        if structure not in self._modules:
            made = self.kind.build(self.settings, recipe).double().eval()
            self._modules[structure] = made, made.state_dict()
            self._costs[structure] = clock.of_call(made, clock.REFERENCE)
            clock.count(clock.of_building(made))
            self._parts[structure] = [(path, vars(part)) for path, part in made.named_modules()]
            for _, own in self._parts[structure]:  # found at once, where a module looks for its parts and weights last
                own.update({**own["_modules"], **own["_parameters"]})
        return self._modules[structure]

    def _shapes(self, recipe: Recipe) -> dict[str, torch.Size]:
        """Of the weights of a recipe's module."""
        key = (*self._key, _structure(recipe))
        if key not in SHAPES:
            SHAPES[key] = {name: values.shape for name, values in self._made(recipe)[1].items()}
        return SHAPES[key]

    def weights(self, recipe: Recipe) -> frozenset[str]:
        """The names of the weights that a recipe's module has, without biases: any bias may be left out."""
        structure = _structure(recipe)
        if structure not in self._weights:
            self._weights[structure] = frozenset(n for n in self._shapes(recipe) if n.endswith("weight"))
        return self._weights[structure]

    def lacks(self, recipe: Recipe, missing: frozenset[str]) -> bool:
        """Whether a recipe's module has a matrix that the candidate has no place for, and nothing can stand for.

        A square one may be left out, as it may change nothing; a constant for any other is no model of the candidate,
        though outputs may agree: a norm undoes what a matrix of ones does. Nor is a sublayer thrown away that has none,
        and an attention is no layer: a network has matrices.
        """
        asked = _structure(recipe), missing, _throws_away(recipe)
        if asked not in self._lacks:
            own = self._shapes(recipe)
            shapes = [own[name] for name in missing if name in own]
            self._lacks[asked] = any(len(shape) == 2 and shape[0] != shape[1] for shape in shapes)
            attentions = {name.removesuffix("w_q.weight") for name in own if name.endswith("_attn.w_q.weight")}
            networks = {name.removesuffix("1.weight") for name in own if name.endswith("feed_forward.linear1.weight")}
            bare = any({f"{one}{number}.weight" for number in (1, 2)} <= missing for one in networks)
            bare |= asked[-1] and any({f"{one}w_{role}.weight" for role in "qkvo"} <= missing for one in attentions)
            self._lacks[asked] |= bare
        return self._lacks[asked]

    def module(self, recipe: Recipe, key: Hashable, state: Mapping[str, Tensor]) -> nn.Module:
        """The module of a recipe with these weights. key: tells these weights from others."""
        module, own = self._made(recipe)
        structure = _structure(recipe)
        if self._loaded.get(structure) != key:
            for name, values in own.items():
                if name in state:
                    values.copy_(state[name])
            self._loaded[structure] = key
        self._govern(structure, recipe.parts, recipe)
        return module

    def _govern(self, structure: tuple[Any, ...], parts: Parts, recipe: Recipe | Consulted) -> None:
        """Gives every part its recipe. A module's own way to set attributes takes ten times as long."""
        names = tuple(name for name, _ in parts)
        if (structure, names) not in self._alike:
            alike: dict[Any, tuple[tuple[str, ...], list[dict[str, Any]]]] = {}
            for path, own in self._parts[structure]:
                way = (*SIDE_OF.get(path.partition("_")[0], ()), *path.split("."))
                alike.setdefault(recipe.within(*way), (way, []))[1].append(own)
            self._alike[structure, names] = [*alike.values()]
        for way, parts_alike in self._alike[structure, names]:
            within = recipe.within(*way)
            for own in parts_alike:
                own["recipe"] = within

    def output(self, recipe: Recipe, key: Hashable, state: Mapping[str, Tensor], probe: Probe) -> Tensor | None:
        """Its output on a probe; None if it crashes, as some mistakes do on some inputs."""
        name = (key, recipe, probe.name)
        if name not in self._outputs:
            structure = _structure(recipe)
            known = self._consulted[key, structure, probe.name, tuple(name for name, _ in recipe.parts)]
            leaf = known.of(recipe)
            self._outputs[name] = self._computed(recipe, key, state, probe, known) if leaf is None else leaf.output
        return self._outputs[name]

    def may_give(
        self, output: Tensor, designs: Iterable[tuple[str, Mapping[str, Any]]], key: Hashable,
        state: Mapping[str, Tensor], probe: Probe,
    ) -> bool:  # fmt: skip
        """Whether any design, or a mistake in it, gives outputs of this shape: mistakes only change the length.

        Of what has no weights, such as masks, mistakes change more.
        """
        for _, entries in designs if state else ():
            if (has_head := bool(entries.get("head"))) not in self._forms:
                made = self.output(RIGHT.with_(entries), key, state, probe)
                self._forms[has_head] = None if made is None else _without_length(made)
            if self._forms[has_head] in (None, _without_length(output)):
                return True
        return not state

    def _computed(
        self, recipe: Recipe, key: Hashable, state: Mapping[str, Tensor], probe: Probe, known: KnownOutputs
    ) -> Tensor | None:
        module, consulted = self.module(recipe, key, state), Consulted(recipe)
        clock.count(self._costs[_structure(recipe)])
        self._govern(_structure(recipe), recipe.parts, consulted)
        output: Tensor | None
        try:
            output = called(module, probe.inputs)  # the reference writes into none of them
        except (RuntimeError, ValueError, IndexError):
            output = None
        known.note(consulted, output)
        return output


SIDE_OF = {"src": ("encoder",), "tgt": ("decoder",)}
"""What a model does with the ids of one language belongs to the side that reads them: src_pos to the encoder."""


_entries: Callable[[Recipe], tuple[Any, ...]] = operator.attrgetter(*STRUCTURE)


@functools.cache
def _throws_away(recipe: Recipe) -> bool:
    """Whether nothing becomes of what a sublayer gives."""
    entries = ((name, getattr(recipe, name)) for name in THROWN)
    return any(v in THROWN.get(name, ()) for name, v in (*entries, *(e for _, own in recipe.parts for e in own)))


@functools.cache
def _structure(recipe: Recipe) -> tuple[Any, ...]:
    """What decides which parameters its module has, in its parts too."""
    own = [(part, [entry for entry in entries if entry[0] in STRUCTURE]) for part, entries in recipe.parts]
    return (*_entries(recipe), *((part, *entries) for part, entries in own if entries))


def _without_length(output: Tensor) -> tuple[int, ...]:
    """Its shape, but for how many tokens there are."""
    return (*output.shape[:1], *output.shape[2:]) if output.dim() > 2 else tuple(output.shape)


def call(module: Any, inputs: Inputs) -> Tensor:
    """The output for copies of the inputs, without gradients and warnings."""
    return called(module, copies(inputs))


def copies(inputs: Inputs) -> Inputs:
    """Inputs that may be changed."""
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in inputs.items()}


def with_gradients(inputs: Inputs) -> tuple[Inputs, dict[str, Tensor]]:
    """Inputs of their own, and those among them that get a gradient: what is called may not write to these."""
    own = {name: value.clone() if is_float(value) else value for name, value in inputs.items()}
    return own, {name: value.requires_grad_() for name, value in own.items() if is_float(value)}


def is_float(value: Any) -> bool:
    """Whether it is a tensor of floating-point numbers."""
    return isinstance(value, Tensor) and value.is_floating_point()


def called(module: Any, inputs: Inputs) -> Tensor:
    """The output, without gradients and warnings."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output: Tensor = module(**inputs)
        return output
