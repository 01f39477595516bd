"""A learner's module or function with the canonical interface of its kind."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit import clock
from scratch_transformer.kit.definitions import is_of_torch, is_own, leads_to, names_in, parameters_of, reads, source_of
from scratch_transformer.kit.judge.variants import is_float
from scratch_transformer.kit.kind import STEPS, Candidate, Inputs, Kind, State, Steps
from scratch_transformer.kit.resolve.call import batching, beginnings, beside, caching, documented, of_keys, unread
from scratch_transformer.kit.resolve.call.masks import POLARITIES, Form
from scratch_transformer.kit.resolve.call.plan import MASKS, CannotCall, EndsTheProgram, Plan
from scratch_transformer.kit.resolve.call.precision import FiniteRows, double, told_of_old_masks
from scratch_transformer.kit.resolve.names.inputs import MASKED, causal_flags, says_sides
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.resolve.weights.layout import ZERO, Layout, Parameters, neutral
from scratch_transformer.kit.resolve.weights.twice import PROJECTED

CAUSAL = re.compile(r"gpt|causal|masked|decod|autoregress|lm$|language|generat", re.IGNORECASE)
"""In the name of what hides the future by itself."""
OF_A_CORE = re.compile(r"causal|masked|autoregress", re.IGNORECASE)
"""The same of the core of attention: a decoder has another one for what the encoder gives."""
CONTINUES = re.compile(r"^start_?pos|^past|cache")
"""An argument of what writes text, word by word."""
PADDING_OF_TARGET = re.compile(
    r"\b(tgt|trg|target|tar|dec|y)\w*\s*(==|!=)|\b(tgt|trg|target|tar|dec|y)\w*\.(eq|ne)\("
    r"|\b(tgt|trg|target|dec)\w*pad\w*mask\s*=|pad\w*\(\s*(tgt|trg|target|dec)"
)
"""In the text of what makes a mask of the target's padding."""
ADDED = "0 or -inf, added"
"""The polarity of a mask that needs no reading."""
OF_PADDING = tuple(Form(polarity, s) for s in ("(B, S)", "(B, 1, 1, S)", "(B, 1, S)") for polarity in POLARITIES)
"""The forms of a mask of padding."""
OTHER_LENGTH = re.compile(r"must match|is invalid for input of size")
Rebuild = Callable[[Mapping[str, Any]], "Candidate"]


class Resolved(Candidate):
    """made: the learner's module, or function. plan: how to call it. layout: where its weights are.

    post: what turns its output into the canonical one (adds x where it returns only the positions).
    """

    def __init__(
        self, kind: Kind, made: Any, settings: Mapping[str, Any], plan: Plan, layout: Layout | None = None,
        rebuild: Rebuild | None = None,
    ) -> None:  # fmt: skip
        self.look_for_layout: Callable[[], tuple[Layout, frozenset[str]]] | None = None
        """Finds the layout, and what it has no place for, when either is first asked for."""
        super().__init__(kind, made if isinstance(made, nn.Module) else None, settings)
        self.made, self._rebuild = made, rebuild
        self.has_lent = False
        """Whether the reference stands in for a part: built with other sizes, that says nothing of the learner's."""
        self.function: Callable[..., Any] = made
        self._layout: Layout = layout or {}
        self.shape_of: Callable[[Inputs], torch.Size | None] = lambda inputs: None
        self.post: Callable[[Tensor, Inputs], Tensor] = lambda output, inputs: output
        self.returns_alone = False
        """Whether it gives the code of the positions, and whoever calls it adds x."""
        self.one_length = False
        """Whether it only works with sequences of its longest length."""
        self.tables_of_its_file: Callable[[], dict[str, tuple[Tensor, ...]]] = dict
        """Of angles, by what makes them."""
        self.has_finite_rows = False
        """Whether a query that may attend to nothing gets numbers, whatever it would get by itself."""
        self.mask_flag = ""
        """A parameter for a mask that its code only asks whether it is true."""
        self.last_of = ""
        """The sequence of whose tokens it answers for the last alone."""
        thing = getattr(made, "function", made)
        self.definition = type(thing) if isinstance(thing, nn.Module) else thing
        self.defaults = {name: default_of(self.definition, name) for name in ("eps", "rope_base")}
        own = [name for _, name, _ in plan.mask_parameters if name in ("mask", "tgt_mask")]
        self.text = _source(thing)
        sees_padding = _sees_padding(self.text)
        self.plan = replace(plan, sees_padding=sees_padding)
        self.looks_for_padding = len(own) > 1 or sees_padding
        self.speaks_of_padding = bool(plan.mask_parameters) or _speaks_of_padding(self.text)
        self.is_to_hide = _is_causal(kind, thing)
        """Whether it hides the future by its name, or is told to by a mask."""
        self.is_causal_by_name = _is_given_future(kind, plan) or (self.is_to_hide and not _takes_mask(plan, thing))
        self.says_sides = says_sides(plan.arguments)
        self.update_missing()

    @functools.cached_property
    def parameters(self) -> Parameters | None:
        """Read when they are needed: most ways to call something stop before that."""
        return Parameters(self.made) if isinstance(self.made, nn.Module) else None

    @functools.cached_property
    def has_bare_matrices(self) -> bool:
        parts = self.module.modules() if self.module is not None else ()
        own = [own for part in parts if not isinstance(part, nn.Linear) for own in part.parameters(recurse=False)]
        return any(values.dim() == 2 and values.shape[0] == values.shape[1] for values in own)

    @functools.cached_property
    def has_bare_norms(self) -> bool:  # looked for, as the parameters are, in what runs
        return _has_bare_norms(getattr(self.made, "function", self.made))

    @property
    def layout(self) -> Layout:
        self._look()
        return self._layout

    @layout.setter
    def layout(self, layout: Layout) -> None:
        self._layout, self.look_for_layout = layout, None

    @property
    def missing(self) -> frozenset[str]:
        self._look()
        return self._missing

    @missing.setter
    def missing(self, names: frozenset[str]) -> None:
        self._missing = names

    def _look(self) -> None:
        look, self.look_for_layout = self.look_for_layout, None
        if look is not None:
            self._layout, more = look()
            self.update_missing()
            self._missing |= more

    def update_missing(self) -> None:
        """Canonical parameters for which the layout has only constants."""
        self._missing = frozenset(name for name, positions in self.layout.items() if bool((positions < 0).all()))

    @property
    def adds_masks(self) -> bool:
        forms = [form for _, form in self.plan.masks.values()]
        return bool(forms) and all(form.polarity.endswith(", added") for form in forms)

    @property
    def is_called_alone(self) -> bool:
        """In another order of dimensions its tokens may be taken for samples or heads, of which there may be one."""
        is_core = self.kind.name == "ScaledDotProductAttention"
        return self.plan.order != "batch first" or (is_core and self.settings.get("num_heads", 1) == 1)

    @property
    def goes_along_the_first(self) -> bool:
        return self.plan.order == "sequence first" and not documented.is_length_first(self.made)

    @property
    def gives_positions_for(self) -> bool:
        is_given = bool(self.plan.arguments) and self.plan.order in ("batch first", "sequence first")
        return self.returns_alone and self.module is not None and is_given

    @property
    def projected_twice(self) -> tuple[str, bool]:
        parts = self.module.modules() if self.module is not None else ()
        return next((own for part in parts if (own := getattr(part, PROJECTED, None))), ("", False))

    @property
    def unregistered(self) -> list[str]:
        """Parameters in plain lists, and plain tensors, which no optimizer sees."""
        return self.parameters.unregistered if self.parameters else []

    def load(self, state: State) -> State:
        if self.parameters is None:  # a function that takes no weights
            self.missing = frozenset(state)
            return {name: neutral(name, values) for name, values in state.items()}
        return self.parameters.load(self.layout, state)

    def own_gradients(self, gradients: State) -> State:
        return {} if self.parameters is None else self.parameters.gradients(self.layout, gradients)

    def accepts(self, inputs: Inputs) -> bool:
        """Whether the learner's forward can be given these inputs: not all take a mask."""
        is_one = all(self.plan.accepts(one) for one in batching.singles(inputs, self.plan.order))
        return is_one and not (self.one_length and self._is_of_other_length(inputs))

    def _is_of_other_length(self, inputs: Inputs) -> bool:
        try:
            output, expected = self(**inputs), self.shape_of(inputs)
        except RuntimeError as error:
            return bool(OTHER_LENGTH.search(str(error)))
        return expected is not None and len(expected) == output.dim() == 3 and output.shape[1] > expected[1]

    @functools.cached_property
    def _cost(self) -> float:
        """Seconds for what its parts compute in a call."""
        return clock.of_call(self.made, 0.0)

    def __call__(self, **inputs: Any) -> Tensor:
        high = all(value.dtype == torch.float64 for value in inputs.values() if is_float(value))
        drops = self.drops or (self.module is not None and self.module.training)
        with told_of_old_masks() as found, double(high, drops), torch.set_grad_enabled(self.differentiates):
            try:
                if self.last_of:
                    return beginnings.with_every_beginning(self._answer, inputs, self.last_of)
                return self._answer(inputs)
            except SystemExit as error:
                raise EndsTheProgram("exit()").with_traceback(error.__traceback__) from None
            finally:
                self.used_old_masks |= bool(found)

    def _answer(self, inputs: Inputs) -> Tensor:
        with FiniteRows() if self.has_finite_rows else contextlib.nullcontext():
            return self.post(batching.one_by_one(self._once, inputs, self.plan.order), inputs)

    def _once(self, inputs: Inputs) -> Tensor:
        """One call, of the whole batch or of what the function takes at a time."""
        clock.count(clock.STOPPED)
        if self.plan.order == caching.TOKENWISE and self.module is not None:
            output = caching.tokenwise(self.module, self.plan, inputs, lambda output: self._as_wide(output, inputs))
        else:
            output = self.plan.output(self._tensor(self.function(**self.plan.give(inputs)), inputs))
        least = clock.SINGLE if self.plan.order in batching.AXES else clock.CALL
        clock.count(least + self._cost - clock.STOPPED)
        return output

    def _tensor(self, output: Any, inputs: Inputs) -> Tensor:
        """The output among what was returned: the first tensor of the right shape, else the first."""
        found = list(tensors(output))
        if not found:
            raise CannotCall(f"it returns {type(output).__name__}, no tensor")
        expected = self.shape_of(inputs)
        if expected is not None:
            turned = [t for t in found if self.plan.output(t).shape == expected]
            found = turned or [_unflattened(t, expected) for t in found]
        return found[0]

    def apart(self, **inputs: Any) -> list[Tensor]:
        if self.plan.order in batching.AXES:
            return []
        with double(drops=False):
            given = self.plan.apart(inputs)
            return [self.post(self.plan.output(self._tensor(self.function(**g), inputs)), inputs) for g in given]

    def masks_keys_alone(self, **inputs: Any) -> bool:
        expected = self.shape_of(inputs)

        def runs(plan: Plan) -> bool:
            try:
                with self._called_by(plan):
                    return bool(self(**inputs).shape == expected)
            except Exception:  # the learner's code may raise anything
                return False

        return self.is_to_hide and of_keys.alone(self.plan, runs)

    @contextlib.contextmanager
    def _called_by(self, plan: Plan) -> Iterator[None]:
        """Within it, calls are made in another way."""
        told, self.plan = self.plan, plan
        try:
            yield
        finally:
            self.plan = told

    @property
    def causal_flag(self) -> str:
        if self.mask_flag:
            return self.mask_flag
        is_alone = all("pad" in plain(name) for name in self.plan.masks)  # no mask hides the future
        own = causal_flags(parameters_of(self.function), is_alone)
        return next((name for name in own if name not in self.plan.arguments), "")

    def told_causal(self, **inputs: Any) -> Tensor | None:
        flag = self.causal_flag
        if not flag:
            return None
        with self._called_by(replace(self.plan, constants={**self.plan.constants, flag: True})):
            return self(**inputs)

    def narrow(self, **inputs: Any) -> Tensor | None:
        wide = plan = self.plan
        for parameter, (name, form) in wide.masks.items():
            other = plan.with_masks({**plan.masks, parameter: (name, form.narrowed)})
            if inputs.get(name) is not None and form.narrowed != form and other.accepts(inputs):
                plan = other
        if plan is wide:
            return None
        with self._called_by(plan):
            return self(**inputs)

    def besides(self, **inputs: Any) -> list[str]:
        left = [] if self.parameters is None else self.parameters.unplaced(self.layout)
        if self.parameters is None or not left:
            return []
        expected, found = self(**inputs), dict[str, str]()
        for name in left:
            with self.parameters.changed([name]):
                try:
                    is_same = torch.equal(self(**inputs), expected)
                except Exception:  # the learner's code may raise anything
                    is_same = False
            said = re.sub(r"\.\d+(?=\.|$)", "", name)  # the same of every layer
            found |= {} if is_same else {said: f"{said} {tuple(self.parameters.tensors[name].shape)}"}
        return [*found.values()]

    def unread(self) -> tuple[str, ...]:
        """The parameters for masks that nothing reads; where there is no other, only its name says what it hides."""
        inputs = next((p.inputs for p in self.kind.probes(self.settings, 0) if self.accepts(p.inputs)), None)

        def run(plan: Plan) -> Tensor:
            with self._called_by(plan):
                return self(**(inputs or {}))

        found = () if inputs is None or self.module is None else unread.masks(self.function, self.plan, run)
        if found and {name for name, _, _ in self.plan.mask_parameters} <= {*found}:
            self.is_causal_by_name |= self.is_to_hide
        return found

    def with_padding(self, keep: Tensor, **inputs: Any) -> Iterator[tuple[str, Tensor | Exception]]:
        told, (B, T) = self.plan, keep.shape
        for form in OF_PADDING if len(self.masks_left) == 1 else ():
            given = form.give(keep[:, None, None], B, self.settings.get("num_heads", 1), T, T)
            made: Tensor | Exception
            try:
                with self._called_by(replace(told, constants={**told.constants, self.masks_left[0]: given})):
                    made = self(**inputs)
            except Exception as error:  # the learner's code may raise anything
                made = error
            yield f"{self.masks_left[0]} of the form {form}", made

    def uncounted(self, **inputs: Any) -> tuple[str, Exception] | None:
        free = {p.name for p in parameters_of(self.function) if p.default is None}
        given = [n for n, value in self.plan.constants.items() if isinstance(value, beside.Positions) and n in free]
        for name in given:
            if (error := self._without([name], inputs)) is not None:
                return name, error
        return None

    def _without(self, names: Collection[str], inputs: Inputs) -> Exception | None:
        """What it stops with where some of what it is always given is left out."""
        left = {name: value for name, value in self.plan.constants.items() if name not in names}
        masks = {name: value for name, value in self.plan.masks.items() if name not in names}
        try:
            with self._called_by(replace(self.plan, constants=left, masks=masks)):
                self(**inputs)
        except Exception as error:  # the learner's code may raise anything
            return error
        return None

    def without_masks(self, **inputs: Any) -> Exception | None:
        names = {*self.plan.constants, *self.plan.masks} & {*self.masks_by_default()}
        bare = {name: None if name in MASKS else value for name, value in inputs.items()}
        return self._without(names, bare) if names else None

    def masks_by_default(self) -> list[str]:
        free = {p.name for p in parameters_of(self.function) if p.default is None}
        return [name for name, _, _ in self.plan.mask_parameters if name in free]

    def several(self, **inputs: Any) -> Exception | None:
        if self.plan.order != batching.IN_A_BATCH:
            return None
        try:
            with double(drops=False):
                self._once(inputs)
        except Exception as error:  # the learner's code may raise anything
            return error
        return None

    def in_a_batch(self, **inputs: Any) -> Tensor | Exception | None:
        if self.plan.order != batching.ALONE or self.module is None:
            return None
        other = copy.copy(self)
        other.plan = replace(self.plan, order=batching.IN_A_BATCH)
        try:
            return other(**inputs)
        except Exception as error:  # the learner's code may raise anything
            return error

    def with_added_masks(self) -> Candidate | None:
        is_added = all(form.polarity == ADDED for form in self._masks_of_tokens().values())
        return None if is_added else self._with_polarity(ADDED)

    def with_other_masks(self) -> dict[str, Candidate]:
        return {of: self._with_polarity(of) for of in POLARITIES} if self._masks_of_tokens() else {}

    def _masks_of_tokens(self) -> dict[str, Form]:
        """How its masks are given, but for those that are numbers of tokens."""
        return {p: form for p, (_, form) in self.plan.masks.items() if not form.shape.startswith("lengths")}

    def _with_polarity(self, polarity: str) -> Candidate:
        return self._with_forms({p: replace(form, polarity=polarity) for p, form in self._masks_of_tokens().items()})

    def with_flag(self, name: str, value: bool) -> Candidate:
        other = copy.copy(self)
        other.plan = replace(self.plan, constants={**self.plan.constants, name: value})
        return other

    def with_finite_rows(self) -> Candidate | None:
        other = copy.copy(self)
        other.has_finite_rows = True
        return other

    def with_turned_mask(self) -> Candidate | None:
        own = {p: form for p, (name, form) in self.plan.masks.items() if name == "mask"}
        turned = {p: form.turned for p, form in own.items() if form.is_of_causal and form.turned is not None}
        return self._with_forms(turned) if len(own) > 1 and turned else None

    def _with_forms(self, forms: Mapping[str, Form]) -> Candidate:
        """The same, given these masks in these forms."""
        before, other = self.plan.masks, copy.copy(self)
        other.plan = self.plan.with_masks({**before, **{p: (before[p][0], form) for p, form in forms.items()}})
        said = {f"Its {p} was given as {before[p][1]}.": f"Its {p} was given as {form}." for p, form in forms.items()}
        other.notes = [said.get(note, note) for note in self.notes]
        return other

    def stepwise(self, inputs: Inputs, chunks: tuple[int, ...], steps: Steps = STEPS[0]) -> Tensor | None:
        if self.module is None or self.plan.order != "batch first" or self.function != self.module.forward:
            return None
        plan = self.plan.without_targets() if self.plan.gives_targets else self.plan
        if plan is not self.plan and max(chunks) > 1:
            return None  # without targets it hides nothing of the future: it is given one token at a time
        with double(drops=False), torch.no_grad():
            wide = functools.partial(self._as_wide, inputs=inputs)
            found = caching.pieces(self.module, plan, inputs, chunks, wide, steps, self.settings)
            return None if found is None else self.post(found, inputs)

    def _as_wide(self, output: Any, inputs: Inputs) -> Tensor:
        """The first tensor of a piece with as many features as the whole has; else the first."""
        found, expected = list(tensors(output)), self.shape_of(inputs)
        fits = [t for t in found if expected is not None and t.shape[-1:] == expected[-1:] and t.dim() == len(expected)]
        return (fits or found)[0]

    def old_masks(self, **inputs: Any) -> list[str]:
        with told_of_old_masks() as found:
            self(**inputs)
        return found

    def first(self, name: str) -> Tensor | None:
        positions = self.layout.get(name)
        if self.parameters is None or positions is None or bool((positions < 0).any()):
            return None
        return self.parameters.first[positions]

    def documented_otherwise(self) -> str:
        return documented.contradiction(getattr(self.made, "function", self.made), self.plan.masks)

    def documented_batch_first(self) -> str:
        is_alone = self.plan.order == batching.ALONE
        return documented.batch_first(self.made, is_alone) if is_alone or self.plan.order == "sequence first" else ""

    def batch_first_around(self) -> str:
        return documented.batch_first_around(self.made) if self.goes_along_the_first else ""

    def exchanged_masks(self) -> tuple[str, ...]:
        return self.plan.exchanged if len(self.plan.exchanged) > 1 else ()

    def rebuild(self, **settings: Any) -> Candidate:
        if self._rebuild is None or self.stops_along is not None or self.has_lent:
            raise KeyError(f"{self.kind.name} cannot be built again")
        return self._rebuild(settings)

    def rebuild_beside_lent(self, dropout: float) -> Candidate:
        return (
            self._rebuild({"dropout": dropout})
            if self._rebuild is not None and self.has_lent
            else self.rebuild(dropout=dropout)
        )

    def turned_by_its_file(self, **inputs: Any) -> Iterator[tuple[str, Tensor]]:
        given = {name: one for name, one in self.plan.constants.items() if isinstance(one, beside.Table)}
        for maker, parts in self.tables_of_its_file().items() if given else ():
            tables = {name: beside.options(name, [parts], one.rows)[0] for name, one in given.items()}
            with self._called_by(replace(self.plan, constants={**self.plan.constants, **tables})):
                yield maker, self(**inputs)

    def intermediates(self, **inputs: Any) -> dict[str, Tensor]:
        """Outputs of the learner's own submodules whose canonical path the layout tells."""
        if self.module is None or self.plan.order == caching.TOKENWISE or self.last_of:
            return {}
        outputs: dict[str, Tensor] = {}
        groups = self._groups()
        handles = [
            part.register_forward_hook(self._keep(canonical, outputs))
            for path, part in self.module.named_modules()
            if path and (canonical := groups.get(self._weights_within(path)))
        ]
        try:
            self(**inputs)
        finally:
            for handle in handles:
                handle.remove()
        return outputs

    def _keep(self, path: str, outputs: dict[str, Tensor]) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            found = next(tensors(output), None)
            if found is not None:
                outputs.setdefault(path, self.plan.output(found).clone())  # what is changed in place later was right

        return hook

    def _groups(self) -> dict[bytes, str]:
        """The weights within each canonical module -> its path; of several with the same, the longest."""
        within: dict[str, list[Tensor]] = {}
        for name, positions in self.layout.items():
            parts = name.split(".")
            for end in range(1, len(parts)):
                within.setdefault(".".join(parts[:end]), []).append(positions)
        found: dict[bytes, str] = {}
        for path in sorted(within, key=len, reverse=True):
            found.setdefault(_as_key(within[path]), path)
        return found

    def _weights_within(self, path: str) -> bytes:
        """The same of the learner's module at a path; nothing that any canonical one has, if it has no weights."""
        assert self.parameters is not None
        own = [p for name, p in self.parameters.positions.items() if name.startswith(f"{path}.")]
        return _as_key(own) if own else b"none"


def _as_key(positions: list[Tensor]) -> bytes:
    """The same for the same set of weights, those that are nowhere left out."""
    every = torch.cat([one.flatten() for one in positions]).unique()
    return every[(every != ZERO) & (every != -2)].numpy().tobytes()


@functools.lru_cache(maxsize=1024)
def _sees_padding(text: str) -> bool:
    return bool(PADDING_OF_TARGET.search(text))


def _source(thing: Any) -> str:
    of: Any = type(thing) if isinstance(thing, nn.Module) else thing
    return source_of(of)


BARE = re.compile(r"rms_?norm|layer_norm$|^normalize$", re.IGNORECASE)


def _has_bare_norms(thing: Any) -> bool:
    """Whether its code calls a normalization, or it has one, without weights; or makes one anew in every call."""
    if not isinstance(thing, nn.Module):
        return False
    norms = [part for part in thing.modules() if "norm" in type(part).__name__.lower()]
    if any(next(norm.parameters(), None) is None for norm in norms):
        return True
    own: set[Any] = {type(part) for part in thing.modules() if not is_of_torch(type(part))}
    return any(_names_a_bare_norm(cls) for cls in own)


@functools.lru_cache(maxsize=1024)
def _names_a_bare_norm(cls: type) -> bool:
    reached = (cls, *leads_to(cls))
    names = {name for one in reached for name in names_in(one)}
    made = {name for one in reached if isinstance(one, type) for name in names_in(vars(one).get("forward"))}
    return any(BARE.search(name) and name.islower() for name in names) or bool(made & {"LayerNorm", "RMSNorm"})


def _is_given_future(kind: Kind, plan: Plan) -> bool:
    """A decoder that is given a causal mask, and has to apply it."""
    decodes = "memory_mask" in kind.inputs or "tgt_mask" in kind.inputs
    return decodes and any(name in ("mask", "tgt_mask") for _, name, _ in plan.mask_parameters)


@functools.lru_cache(maxsize=1024)
def _speaks_of_padding(text: str) -> bool:
    """Whether a text has a word of padding or masks, besides that for words that were hidden in what it is given."""
    spoken = [word for word in re.findall(r"\w+", text) if re.search("pad|mask", word.lower())]
    return any(not MASKED.match(plain(word)) for word in spoken)


def _takes_mask(plan: Plan, thing: Any) -> bool:
    """Of what attends to itself: its caller says what is hidden, and it reads that."""
    forward = getattr(thing, "forward", thing)
    taken = [p for p, name, _ in plan.mask_parameters if name in ("mask", "tgt_mask", "")]
    return any(reads(forward, parameter) for parameter in taken)


def _is_causal(kind: Kind, thing: Any) -> bool:
    """Whether a mask or a decoder is asked for, by the kind or by the name, or it writes text, or is trained to."""
    name = str(getattr(type(thing) if isinstance(thing, nn.Module) else thing, "__name__", ""))
    writes = hasattr(thing, "generate") or hasattr(thing, "sample")
    if kind.name in ("DecoderOnly", "LlamaModel") and hasattr(thing, "forward"):  # it keeps keys for the words to come
        writes = writes or any(map(CONTINUES.search, inspect.signature(thing.forward).parameters))
        writes = writes or documented.asks_for_the_next(thing) or "llama" in name.lower()
    says = OF_A_CORE if kind.name == "ScaledDotProductAttention" else CAUSAL
    return kind.name.endswith(("Mask", "Transformer")) or bool(says.search(name)) or writes


def _unflattened(output: Tensor, expected: torch.Size) -> Tensor:
    """(B·T, V), as a loss wants it, as (B, T, V); anything else as it is."""
    is_flat = output.dim() == 2 and len(expected) == 3 and output.shape == (expected[0] * expected[1], expected[2])
    return output.reshape(expected) if is_flat else output


def tensors(output: Any, depth: int = 0) -> Iterator[Tensor]:
    """The tensors in what a forward returned, in order: of a tuple, a list, a dictionary, a dataclass, an object."""
    if isinstance(output, Tensor):
        yield output
    elif depth > 3 or output is None or isinstance(output, (str, int, float)):
        return
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from tensors(value, depth + 1)
    elif isinstance(output, (tuple, list)):
        for value in output:
            yield from tensors(value, depth + 1)
    elif dataclasses.is_dataclass(output):
        for field in dataclasses.fields(output):
            yield from tensors(getattr(output, field.name), depth + 1)
    elif is_own(type(output)) and not isinstance(output, nn.Module) and hasattr(output, "__dict__"):
        yield from tensors(vars(output), depth + 1)


@functools.lru_cache(maxsize=1024)
def default_of(cls: Any, setting: str) -> Any:
    """The default of the constructor's parameter for a setting, or None."""
    for parameter in parameters_of(cls):
        if setting in settings_of(parameter.name) and parameter.default is not parameter.empty:
            return parameter.default
    return None
