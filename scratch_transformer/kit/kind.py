"""What the kit is made of: kinds of components, probes, mistakes, candidates, and what is found out about them.

A *kind* ("LayerNorm") has a canonical interface: `module(**inputs) -> Tensor`, with fixed names and shapes of inputs
and parameters. The reference, its variants and every learner's class, once resolved, share it. So a diagnosis compares
modules of one interface on probes.

Shapes: batch first. Masks are boolean, True = may attend, and broadcast to (B, heads, T, S).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from scratch_transformer.kit.recipe import RIGHT, Recipe

Settings = Mapping[str, Any]
State = dict[str, Tensor]
Inputs = dict[str, Any]
Oracle = Callable[[Settings, Recipe, State, Inputs], Tensor]
Verdict = Literal[
    "matches the builtin",
    "matches the paper, not the builtin",
    "harmless deviation",
    "mistake",
    "unknown mismatch",
    "crashed",
]
Severity = Literal["mistake", "paper", "harmless", "note"]
"""Of an entry of the catalogue: wrong; as in the paper and not in PyTorch; of no consequence; worth knowing."""


@dataclass(frozen=True)
class Probe:
    """Inputs that make mistakes visible.

    inputs: canonical inputs by name. An absent mask is None.
    valid: where the output counts, broadcastable to it; None = everywhere. Outputs at padded queries are nobody's.
    shows: for a reader: "tokens with a tiny variance".
    quiet: run with small weights, so that what the norms inside see has a variance about as small as their ε.
    provoking: made to show a mistake; what it shows is larger than on input as it comes.
    """

    name: str
    inputs: Inputs
    valid: Tensor | None = None
    shows: str = ""
    quiet: bool = False
    provoking: bool = False

    @property
    def is_ordinary(self) -> bool:
        return not (self.quiet or self.provoking)

    @property
    def has_mask(self) -> bool:
        return any("mask" in name and value is not None for name, value in self.inputs.items())


@dataclass(frozen=True, eq=False)
class Kind:
    """A component that learners write.

    name: "LayerNorm".
    what: one sentence for a beginner.
    synonyms: names under which it is found, in lower case without underscores.
    source: the section of the paper.
    inputs: the canonical names of forward's arguments.
    defaults: settings, all dimensions distinct.
    build: (settings, recipe) -> canonical module, its parameters not yet set. `Recipe()` is the reference.
    probes: (settings, seed) -> probes, float64.
    mistakes: ids of the catalogue's entries that can occur in it; "B8:GELU" for one form only, "A25:" for the nameless.
    designs: recipes that are all right ("pre-norm", "post-norm"), by the words that describe them.
    full: the recipe with all parameters that any design has; a candidate's `missing` ones are of these.
    oracle: (settings, design's recipe, state, inputs) -> output of the builtin from torch.nn, or None if there is none.
    builtin: what the oracle is: "torch.nn.LayerNorm"; "" without one.
    extras: probes for one mistake each, tried after everything else.
    today: the same kind with the designs of today, for code that speaks of them; None if it has those.
    """

    name: str
    what: str
    synonyms: tuple[str, ...]
    source: str
    inputs: tuple[str, ...]
    defaults: Settings
    build: Callable[[Settings, Recipe], nn.Module]
    probes: Callable[[Settings, int], tuple[Probe, ...]]
    mistakes: tuple[str, ...] = ()
    designs: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    full: Mapping[str, Any] = field(default_factory=dict)
    oracle: Oracle | None = None
    builtin: str = ""
    extras: tuple[Extra, ...] = ()
    today: Kind | None = None

    @property
    def ids(self) -> frozenset[str]:
        """The mistakes that can occur in it, whatever their form."""
        return frozenset(id.partition(":")[0] for id in self.mistakes)

    def complete(self, settings: Settings) -> dict[str, Any]:
        """All settings: the given ones, and defaults for the others."""
        return {**self.defaults, **settings}

    def reference(self, settings: Settings | None = None, recipe: Recipe = RIGHT, seed: int = 0) -> nn.Module:
        """The canonical module in float64 and in evaluation mode, all its parameters random."""
        module = self.build(self.complete(settings or {}), recipe).double().eval()
        module.load_state_dict(random_state(module, seed))
        return module


@dataclass(frozen=True)
class Extra:
    """A probe that tells apart what all other probes leave alike, such as a query that may attend to nothing.

    mistakes: the ids that it can show.
    probe: (settings) -> probe.
    limit: the largest relative error that counts as equal.
    low_precision: run the candidate in float32, and take any larger error for the (only) mistake, whose exact numbers
        are rounding errors.
    """

    mistakes: tuple[str, ...]
    probe: Callable[[Settings], Probe]
    limit: float = 1e-6
    low_precision: bool = False


def asked_of(kind: Kind, settings: Settings, seed: int, quiet: bool = False) -> State:
    """Random values for all weights that any design of a kind has; drawn once, for whatever is given them."""
    return dict(_asked_of(kind, tuple(settings.items()), seed, quiet))


@functools.lru_cache(maxsize=512)
def _asked_of(kind: Kind, settings: tuple[tuple[str, Any], ...], seed: int, quiet: bool) -> State:
    return random_state(kind.build(dict(settings), RIGHT.with_(kind.full)).double(), seed, quiet)


def random_state(module: nn.Module, seed: int, quiet: bool = False) -> State:
    """Random values for every parameter and learned buffer: biases that start at zero hide a forgotten bias."""
    from scratch_transformer.conformance.draw import Draw

    draw = Draw(seed)
    return {name: draw.normal(*values.shape, scale=_scale(name, quiet)) for name, values in module.state_dict().items()}


def _scale(name: str, quiet: bool) -> float:
    """Norms scale to 0.005, and biases are as small: a variance of 2.5e-5 beside ε = 1e-5."""
    is_small = quiet and ("norm" in name or name.endswith("bias") or "embed" in name)
    return 0.005 if is_small else 0.5


class Steps(NamedTuple):
    """How what keeps keys and values is called for the next tokens."""

    tells_start: bool = True
    """Where they begin is told wherever it may be; else it counts what is kept."""
    joins: bool = False
    """It returns what is new alone, and whoever calls it keeps that behind what there was."""
    counts: bool = False
    """Whoever calls it counts the tokens that an object holds."""


STEPS = (
    Steps(), Steps(tells_start=False), Steps(joins=True), Steps(tells_start=False, joins=True), Steps(counts=True),
)  # fmt: skip


class Candidate:
    """What is diagnosed: a module of the canonical interface. `resolve/` makes one of a learner's class.

    kind, settings: what it is, and the settings that it was really built with (not the ones that were assumed).
    module: the learner's own module, for what only an inventory shows; None for a function.
    missing: canonical parameters that the learner's module has no place for.
    notes: sentences about how it was resolved. limits: about what could not be checked because of how it is made.
    replaced: names of its parts that the reference stands in for.
    masks_left: parameters for masks that its kind has no input for: of padding, where it hides the future itself.
    masks_unread: parameters for masks that change nothing, as neither it nor what it hands them to reads them.
    defaults: settings -> values that its constructor has where nothing is passed.
    shown: choices of the recipe that resolving it has shown already. explained: the recipe with its numbers, if any.
    added_twice: names of its parts that have their residual inside, where it agrees with parts that have none.
    besides_layers: the name of a network that a model has besides its layers, without which it was explained.
    of_whole: what it gave last, where its layers are compared in place of that.
    idle: its parts that nothing depends on, where its numbers are explained without them.
    told: the settings that went into it, where it was built again.
    is_tried: whether resolving it compared it with every design.
    drops: whether dropout that ignores eval() takes place. Without it, everything else can be compared.
    differentiates: whether a call keeps what a backward pass needs.
    refused: a mask's parameter, and the error with which it stops when it is given any.
    definition: its class or function.
    unmasked: the error with which it stops where it is given no mask, which is None by default.
    stopped: the error with which it stops with sequences that are not its longest, where it works with those alone.
    bare: the parameters of its constructor that are None by default and were given numbers, and what it stops with
        where it is built without them; None if it does not.
    stops_along: the error with which it stops in all ways, where torch's attention in it, which goes along the first
        dimension, was let go along the second.
    looks_for_padding: whether padding of the target has a mask of its own, that it is given or makes.
    speaks_of_padding: whether it takes a mask, or its text has a word of masks or padding.
    takes_vectors: whether it embeds nothing, and the reference's embeddings were put around it.
    says_sides: whether names say which of its inputs is the source, and which the target.
    is_causal_by_name: whether somebody expects that it hides the future without being given a mask.
    used_old_masks: whether a call so far used a mask as PyTorch takes none today.
    text: its code, as far as it can be read.
    makes: of what makes a mask, "boolean", "numbers" that are 0 or not, or "added", 0 and far below; "" of others.
    blocked_is: "True" or "False", the value that its file blocks in the masks that it makes; "" if that is not known.
    """

    def __init__(self, kind: Kind, module: nn.Module | None, settings: Settings | None = None) -> None:
        self.kind = kind
        self.module = module
        self.settings: dict[str, Any] = dict(settings or {})
        self.missing: frozenset[str] = frozenset()
        self.notes: list[str] = []
        self.limits: list[str] = []
        self.replaced: list[str] = []
        self.masks_left: tuple[str, ...] = ()
        self.masks_unread: tuple[str, ...] = ()
        self.defaults: dict[str, Any] = {}
        self.shown: dict[str, Any] = {}
        self.explained: Recipe | None = None
        self.idle: tuple[str, ...] = ()
        self.added_twice: tuple[str, ...] = ()
        self.besides_layers = ""
        self.ends_within = False
        self.of_whole: list[Tensor] = []
        self.told: frozenset[str] = frozenset()
        self.is_tried = False
        self.drops = False
        self.differentiates = False
        self.refused: tuple[str, Exception] | None = None
        self.stopped: BaseException | None = None
        self.stops_along: BaseException | None = None
        self.bare: Callable[[], tuple[list[str], Exception] | None] = lambda: None
        self.definition: Any = type(module)
        self.unmasked: Exception | None = None
        self.looks_for_padding = self.speaks_of_padding = True
        self.takes_vectors = False
        self.is_causal_by_name = self.says_sides = True
        self.used_old_masks = False
        self.blocked_is = self.text = self.makes = ""

    @property
    def goes_along_the_first(self) -> bool:
        """Whether it was called with the length before the batch, and does not say that this is the order."""
        return False

    @property
    def projected_twice(self) -> tuple[str, bool]:
        """Names of its layers before an attention that projects again, of which one was made to change nothing: these,
        or the attention's own, where something stands between.
        """
        return "", False

    @property
    def adds_masks(self) -> bool:
        """Whether every mask that it is given is of 0 and -∞, and added to the scores."""
        return False

    @property
    def is_called_alone(self) -> bool:
        """Whether, as it is called, a token may be all that it attends to: then its own value is no mistake of its."""
        return False

    @property
    def gives_positions_for(self) -> bool:
        """Whether it is given vectors, and returns the code of their positions alone, which is added to them."""
        return False

    @property
    def has_bare_matrices(self) -> bool:
        """Whether matrices are parameters of its own, and not nn.Linear's, which keeps them as (out, in)."""
        return False

    @property
    def has_bare_norms(self) -> bool:
        """Whether it may normalize where it has no weights for that, by F.rms_norm."""
        return False

    @property
    def unregistered(self) -> list[str]:
        """Weights that PyTorch does not know of, as parameters are named."""
        return []

    def load(self, state: State) -> State:
        """Give the learner's parameters these values, named canonically.

        Returns the state that they now stand for, with all canonical names: what a shared or a scalar parameter holds,
        and the neutral value (a bias of 0, a scale of 1) for a missing one.
        """
        assert self.module is not None
        self.module.load_state_dict(state)
        return dict(state)

    def own_gradients(self, gradients: State) -> State:
        """Of the learner's parameters, by path, for those of the canonical ones."""
        return dict(gradients)

    def accepts(self, inputs: Inputs) -> bool:
        """Whether it can be given these inputs: not every forward takes a mask."""
        return True

    def __call__(self, **inputs: Any) -> Tensor:
        """Canonical inputs to canonical output."""
        assert self.module is not None
        output: Tensor = self.module(**inputs)
        return output

    def apart(self, **inputs: Any) -> list[Tensor]:
        """Its outputs with the padding in one mask and the future in another, where it takes two for the same."""
        return []

    def masks_keys_alone(self, **inputs: Any) -> bool:
        """Whether what is to hide the future takes a mask for that which only says which keys are padding."""
        return False

    @property
    def causal_flag(self) -> str:
        """A parameter of its forward, False by default, with which the future is hidden; "" if there is none."""
        return ""

    def told_causal(self, **inputs: Any) -> Tensor | None:
        """Its output where a flag of its forward, is_causal=True, hides the future too; None if it has none."""
        return None

    def narrow(self, **inputs: Any) -> Tensor | None:
        """Its output for masks with one row for all queries, where it was given one row for each; None if it cannot."""
        return None

    def with_padding(self, keep: Tensor, **inputs: Any) -> Iterator[tuple[str, Tensor | Exception]]:
        """Its outputs, or what it stops with, where the one mask that is left is of padding, by the mask's form.

        keep: (B, T), True = no padding.
        """
        yield from ()

    def uncounted(self, **inputs: Any) -> tuple[str, Exception] | None:
        """The parameter for its positions, which it need not be given, and what it stops with without; else None."""
        return None

    def besides(self, **inputs: Any) -> list[str]:
        """Parameters on which its output depends and that stand for no weight of the reference, with their sizes."""
        return []

    def masks_by_default(self) -> list[str]:
        """The parameters for its masks that are None by default, where it stops with that."""
        return []

    def without_masks(self, **inputs: Any) -> Exception | None:
        """What it stops with where the masks are left out that it is given whatever is asked, and need not be."""
        return None

    def several(self, **inputs: Any) -> Exception | None:
        """What it stops with, of what is called with one sentence in a batch, for all of them; None if it runs."""
        return None

    def in_a_batch(self, **inputs: Any) -> Tensor | Exception | None:
        """What a module of one sentence at a time gives for each in a batch of one, or stops with; None of others."""
        return None

    def with_added_masks(self) -> Candidate | None:
        """The same, given masks of 0 and -inf; None if it takes none, or is given such already."""
        return None

    def with_other_masks(self) -> dict[str, Candidate]:
        """The same, given masks in which one value blocks or another, of each type: "True = blocked", and so on."""
        return {}

    def with_flag(self, name: str, value: bool) -> Candidate:
        """The same, its forward given a flag."""
        return self

    def with_finite_rows(self) -> Candidate | None:
        """The same, a query that may attend to nothing getting numbers in place of NaN; None if that cannot be."""
        return None

    def with_turned_mask(self) -> Candidate | None:
        """The same, its causal mask given the other way round; None if that is not given beside one of padding."""
        return None

    def old_masks(self, **inputs: Any) -> list[str]:
        """The masks that it uses in a call and PyTorch refuses today, in words."""
        return []

    def first(self, name: str) -> Tensor | None:
        """What a parameter held before any weights were loaded, by its canonical name; None if that is not known."""
        return None

    def documented_otherwise(self) -> str:
        """What its documentation says of a mask where it does the opposite: "mask: True = may attend"; else ""."""
        return ""

    def documented_batch_first(self) -> str:
        """What is said of the shape of tokens that it takes length first: "(batch, length, d_model)"; else ""."""
        return ""

    def batch_first_around(self) -> str:
        """The class that hands what it returns, length first, on to what is batch first; else ""."""
        return ""

    def exchanged_masks(self) -> tuple[str, ...]:
        """The parameters that take the source's mask and the target's, where their names say the opposite; else ()."""
        return ()

    def inventory(self) -> dict[str, tuple[int, ...]]:
        """The learner's parameters: name -> shape."""
        parameters = {} if self.module is None else dict(self.module.named_parameters())
        return {name: tuple(values.shape) for name, values in parameters.items()}

    def rebuild(self, **settings: Any) -> Candidate:
        """The same class built with other settings: an odd d_model, dropout = 0.5. Whatever it raises is passed on.

        Raises KeyError if the class has no such setting.
        """
        raise KeyError(f"{self.kind.name} cannot be built again with {settings}")

    def rebuild_beside_lent(self, dropout: float) -> Candidate:
        """The same with dropout, also where the reference stands in for a part, whose dropout is not the learner's."""
        return self.rebuild(dropout=dropout)

    def stepwise(self, inputs: Inputs, chunks: tuple[int, ...], steps: Steps = STEPS[0]) -> Tensor | None:
        """The outputs for a sequence that comes in pieces, keys and values being kept; None if it keeps none."""
        return None

    def turned_by_its_file(self, **inputs: Any) -> Iterator[tuple[str, Tensor]]:
        """What makes tables of angles in its file, and the output with each, where it is given one."""
        return iter(())

    def intermediates(self, **inputs: Any) -> dict[str, Tensor]:
        """Outputs of submodules by canonical path ("layers.0.self_attn"), where they are known."""
        return {}


@dataclass(frozen=True)
class Mistake:
    """An entry of the catalogue.

    id, title: "LN1", "unbiased variance".
    severity: see `Severity`; "mistake" of most.
    does, expected, fix: sentences for a beginner.
    mathematics: the equation of both, for `explain`.
    source: the paper's section.
    changes: of the reference's recipe; several where the mistake has several forms, by the words for each form.
    severities: of forms that are less, or more, severe than the mistake in general.
    fixes: of forms that the fix in general does not mend.
    demo: Python source of about ten lines that shows it, ending in a print.
    explain_only: why running code cannot show it.
    """

    id: str
    title: str
    does: str
    expected: str
    fix: str
    source: str
    severity: Severity = "mistake"
    mathematics: str = ""
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    severities: Mapping[str, Severity] = field(default_factory=dict)
    fixes: Mapping[str, str] = field(default_factory=dict)
    demo: str = ""
    explain_only: str = ""


PARTS = {
    "encoder": "encoder",
    "decoder": "decoder",
    "self_attn": "self-attention",
    "cross_attn": "attention to the encoder",
    "norm1": "first sublayer",
    "norm2": "second sublayer",
    "norm3": "third sublayer",
    "layers": "layers",
    "norm": "last norm",
}
"""Parts by their canonical names, in words. A sublayer goes by its norm."""


@dataclass(frozen=True)
class Finding:
    """A mistake in somebody's code, with the numbers that show it.

    form: which form of the mistake. entries: of the recipe of a whole that contains it, where its own does not show it.
    explains: whether it is the reason why the numbers differ, though no recipe has it: they are other ones every time.
    twins: other forms with the same numbers in the sizes at hand.
    part: where it is made, if the whole's other part is right: "decoder", "cross_attn".
    name: of what is at fault in the code, where the form does not say it: "self.pe".
    path: the flag with which alone it is made, if that is not how it was built: "self.flash = True".
    does, fix: in place of the mistake's own, where those do not fit what was found.
    at: the file and the number of the line that the evidence ends with, where a run has shown them.
    owner: the class or function of another file in which it is made, of a whole that has it as a part.
    """

    mistake: Mistake
    evidence: str
    form: str = ""
    entries: Mapping[str, Any] = field(default_factory=dict)
    explains: bool = False
    twins: tuple[str, ...] = ()
    part: str = ""
    name: str = ""
    path: str = ""
    does: str = ""
    fix: str = ""
    at: tuple[str, int] = ("", 0)
    owner: Any = None

    @property
    def words(self) -> str:
        """Which form of the mistake it is, and where, as far as the numbers tell."""
        if self.path:
            return f"{replace(self, path='').words}, with {self.path}".removeprefix(", ")
        if self.part:
            where = " of the ".join(PARTS[name] for name in reversed(self.part.split(".")))
            return f"{self.form}, in the {where} alone".removeprefix(", ")
        if not self.twins:
            return self.form
        return f"{', or '.join((self.form, *self.twins))}: with its sizes these are the same"

    @property
    def severity(self) -> Severity:
        return self.mistake.severities.get(self.form, self.mistake.severity)


NETWORKS = ("FeedForward", "SwiGLU")
"""The kinds of feed-forward networks."""
LAYERS = ("Layer", "Block")
"""How the names of kinds end that are one layer."""
NO_MASK = "It takes no mask, so masks were not checked."
NOT_GIVEN = "Not checked, as it cannot be given such inputs: {}."
OF_FLAG = "Its {} is a flag and no mask: it was checked without."
ONE_LENGTH = "It works with sequences of its longest length alone: only such were checked."
"""Limits."""


@dataclass(frozen=True)
class Diagnosis:
    """What was found out about a candidate.

    error: the largest relative error against the builtin (or the reference) over all probes.
    ordinary: the largest over those that are ordinary input; None if it is the same.
    unexplained: mistakes are named, but the numbers differ for another reason too.
    against: what was compared with: "torch.nn.LayerNorm".
    findings: what explains the error, and what else was seen; sorted by severity.
    alternatives: other explanations that all probes leave alike: lists of ids.
    design: what it is, of several right ways: "pre-norm, GELU".
    divergence: without an explanation, the first intermediate that differs.
    limits: what was not checked, and why. replaced: parts that the reference stood in for.
    probe: the probe on which the error is largest.
    """

    kind: str
    verdict: Verdict
    error: float
    against: str
    findings: tuple[Finding, ...] = ()
    alternatives: tuple[tuple[str, ...], ...] = ()
    design: str = ""
    divergence: str = ""
    probe: str = ""
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    recipe: Recipe = RIGHT
    ordinary: float | None = None
    unexplained: bool = False

    @property
    def is_explained(self) -> bool:
        """Whether its numbers are known to be those of its recipe."""
        return self.verdict not in ("unknown mismatch", "crashed")

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(finding.mistake.id for finding in self.findings)
