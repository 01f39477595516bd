"""As which of the kinds that go by its name a component is best explained, in bounded time."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from scratch_transformer.kit import clock
from scratch_transformer.kit.definitions import leads_to, names_in, reads
from scratch_transformer.kit.resolve import fitness, guess, likeness
from scratch_transformer.kit.resolve.build.config import is_config
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.call.plan import MASKS
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.resolve.trial import MISTAKEN, NOTHING
from scratch_transformer.kit.resolve.trials.match import Outcome, resolve

SEARCH, QUICK, THOROUGH = 6.0, 2.0, 4.0
"""Seconds of computing for one component; of them for each kind, first without looking for mistakes, then with."""
DOUBTFUL = NOTHING, float("inf")
"""The score of what has the right numbers as a kind that it is hardly of."""
BRIEF = 0.35
"""The share of these for a kind of today, of what speaks of nothing of today."""
LAYER_OF = {
    "Encoder": "EncoderLayer", "TokenEncoder": "EncoderLayer", "Decoder": "DecoderLayer",
    "TokenDecoder": "DecoderLayer",
}  # fmt: skip
TABLE = "PositionalEncoding"
"""What is called an embedding may be a table of sines: that is seen at once."""
WITH_MEMORY = {
    **dict.fromkeys(("EncoderLayer", "DecoderOnlyLayer"), "DecoderLayer"), "Encoder": "Decoder",
    **dict.fromkeys(("TokenEncoder", "DecoderOnly"), "TokenDecoder"),
}  # fmt: skip
"""What a kind is that is given what an encoder gives besides."""
STACKED = {"ModuleList", "ModuleDict", "Sequential", "deepcopy", "range", "clones", "get_clones", "Embedding"}
"""Names in what makes several layers, or is given ids."""


def chosen(thing: Any, kinds: tuple[str, ...], library: Library, seconds: float = SEARCH) -> Outcome:
    """What was made of it, as the kind that explains it best.

    First without looking for mistakes, as its likeliest kind and relatives of that; then with, as any of them.

    seconds: of computing, as far as the file's other components leave any.
    """
    end = clock.now() + seconds
    kinds = (*_single(thing, kinds, library), *kinds)
    is_named = likeness.is_norm_by_name(getattr(thing, "__name__", ""), library.kinds)
    relatives = [kind for kind in kinds if kind in (kinds[0], TABLE) or guess.are_related(kinds[0], kind)]
    outcomes: dict[str, Outcome] = {}
    best = None if is_named else _best(thing, relatives, library, outcomes, end, thorough=False)
    if best is None or best.score[0] >= MISTAKEN:
        runs = [o for o in outcomes.values() if o.candidate is not None and o.score[0] <= NOTHING]
        known = outcomes if runs else {}
        callable_ = [kind for kind in kinds if kind not in known or _may_be_called(known[kind])]
        stops = {kind for kind, outcome in outcomes.items() if outcome.score[0] > NOTHING}
        callable_.sort(key=lambda kind: (kind in stops, -fitness.hides_the_future(library.kinds[kind], thing)))
        best = _best(thing, callable_, library, outcomes, end, thorough=True)
    assert best is not None
    best = _turning(best, thing, kinds, library, end)
    best = _crossing(best, thing, library, end) if len(kinds) > 1 else best
    if best.candidate is not None:
        own = [note for part, note in library.rewritten.items() if part is thing or part in leads_to(thing)]
        best.candidate.limits += dict.fromkeys(own)
    best = _as_in_training(best, thing, library)
    if best.candidate is not None and best.asked:  # what was tried last had other sizes, perhaps
        library.set_globals(thing, best.asked)
    return best


def _turning(best: Outcome, thing: Any, kinds: Iterable[str], library: Library, end: float) -> Outcome:
    """Attention that may be given what turns queries and keys: given that, if it is understood so.

    What is right without may be wrong with it.
    """
    untold = best.candidate.plan.untold_turns if best.candidate is not None else ()
    left = [name for name in untold if reads(getattr(thing, "forward", thing), name)]  # a study without takes it along
    if best.candidate is None or not left or best.score[0] >= NOTHING:
        return best
    return _with_more(best, thing, [kind for kind in kinds if "Rotary" in kind], " and ".join(left), library, end)


def _crossing(best: Outcome, thing: Any, library: Library, end: float) -> Outcome:
    """What may be given what an encoder gives, def forward(x, encoder_output=None): given that, if it is understood so.

    What is right without may be wrong with it.
    """
    kind, left = WITH_MEMORY.get(best.kind.name), fitness.optional_memory(thing)
    if best.candidate is None or best.score[0] >= NOTHING or kind is None or not left:
        return best
    return _with_more(best, thing, [kind], left, library, end)


def _with_more(best: Outcome, thing: Any, kinds: Iterable[str], left: str, library: Library, end: float) -> Outcome:
    """The first of the kinds that are given what was left out, if that is understood; else the best, which says so."""
    for kind in kinds:
        library.allow(max(min(end - clock.now(), THOROUGH), QUICK), True)
        again = resolve(thing, library.kinds[kind], library)
        if again.candidate is not None and again.score[0] < NOTHING:
            return again
    if best.candidate is not None:
        best.candidate.limits.append(f"It was called without {left}: what it does with that was not checked.")
    return best


def _single(thing: Any, kinds: tuple[str, ...], library: Library) -> list[str]:
    """What is called an encoder or a decoder, and is one layer of it: its attention is its own, and it has no stack."""
    if not isinstance(thing, type) or kinds[0] not in LAYER_OF or STACKED & names_in(thing):
        return []
    parameters = parameters_of(thing)
    is_told = any(
        "num_layers" in settings_of(p.name) or plain(p.name).endswith(("layer", "layers")) for p in parameters
    )
    attends = "MultiheadAttention" in names_in(thing) or library.attends(thing)
    return [] if is_told or any(map(is_config, parameters)) or not attends else [LAYER_OF[kinds[0]]]


def _as_in_training(best: Outcome, thing: Any, library: Library) -> Outcome:
    """What hides nothing of the future unless it is given targets: as it is called in training, if that is right.

    It writes text token by token then, and needs no mask for that.
    """
    if best.kind.name not in ("DecoderOnly", "LlamaModel") or best.candidate is None or not _hides_nothing(best):
        return best
    library.allow(QUICK, False)
    library.gives_targets = True
    try:
        again = resolve(thing, best.kind, library)
    finally:
        library.gives_targets = False
    if again.candidate is None or again.score[0] >= MISTAKEN:
        parts = library.parts_of(best.candidate.made)
        if again.candidate is None and any(p.kind.startswith("Causal") and "A25" not in p.ids for p in parts):
            best.candidate.is_causal_by_name = False  # its attention hides the future, when it is told to
        return best
    again.candidate.notes.append("It hides the future only where it is given targets; it was given them.")
    return again


def _may_be_called(outcome: Outcome) -> bool:
    """What stops with a source and a target is given such of one length next."""
    return outcome.candidate is not None or (outcome.stage == "called" and "memory" in outcome.kind.inputs)


def _best(
    thing: Any, kinds: Iterable[str], library: Library, outcomes: dict[str, Outcome], end: float, thorough: bool
) -> Outcome | None:  # fmt: skip
    """The best outcome for kinds in their order, until one is explained: with a mistake, only if thorough."""
    best: Outcome | None = None
    for kind in kinds:
        left = end - clock.now()
        is_doubtful = best is not None and best.candidate is not None and best.score == DOUBTFUL
        if left < 0 and best is not None and not is_doubtful:
            break
        if best is not None and best.score[0] < NOTHING and not guess.are_related(best.kind.name, kind):
            continue  # what a mistake explains is no other thing altogether
        if _leaves_out_memory(kind, outcomes, library):
            continue
        if "Rotary" in kind and inspect.isfunction(thing) and best is not None and not fitness.may_turn(thing):
            continue
        is_unlikely = fitness.of_today(library.kinds[kind], thing) < 0
        for is_thorough in (False, True) if thorough and kind not in outcomes else (thorough,):
            most = (THOROUGH if is_thorough else QUICK) * (BRIEF if is_unlikely else 1.0)
            library.allow(max(min(left, most), 0.5), is_thorough)
            outcome = outcomes[kind] = resolve(thing, library.kinds[kind], library)
            if outcome.score[0] < MISTAKEN:
                break
        takes = fitness.takes_mask(thing) and not (outcome.candidate and outcome.candidate.plan.is_causal)
        if takes and not any(n in MASKS for n in outcome.kind.inputs) and _hides_nothing(outcome):
            outcome.score = DOUBTFUL  # what takes a mask need not be causal by itself
        is_off = outcome.candidate is not None and fitness.is_turned_off(outcome.candidate.made)
        if "Rotary" in kind and outcome.score[0] > 0 and (is_off or not fitness.may_turn(thing)):
            outcome.score = DOUBTFUL  # one head turned by no angle is one that is not turned
            outcome.candidate = None if best is not None else outcome.candidate  # it would be told how to turn
        if _has_more_than_its_kind(outcome):
            outcome.candidate = None
        if best is None or (outcome.candidate is not None and outcome.beats(best)):
            best = outcome
        if outcome.candidate is not None and outcome.score[0] < (NOTHING if thorough else MISTAKEN):
            break
    return best


def _leaves_out_memory(kind: str, outcomes: Mapping[str, Outcome], library: Library) -> bool:
    """Whether it takes what an encoder gives, as its name says, and would be called without it as this kind."""
    crosses = [o for o in outcomes.values() if o.candidate is not None and "memory" in o.kind.inputs]
    names = [getattr(type(o.candidate.made), "__name__", "") for o in crosses if o.candidate is not None]
    named = any(likeness.is_named(name, o.kind) for name, o in zip(names, crosses, strict=True))
    return named and "memory" not in library.kinds[kind].inputs and "src" not in library.kinds[kind].inputs


def _has_more_than_its_kind(outcome: Outcome) -> bool:
    """Whether what has weights only runs as the core of attention, which has none, and is nothing of that."""
    module = outcome.candidate.module if outcome.candidate is not None else None
    is_core = outcome.kind.name == "ScaledDotProductAttention" and outcome.score[0] >= NOTHING
    return is_core and module is not None and next(module.parameters(), None) is not None


def _hides_nothing(outcome: Outcome) -> bool:
    """Whether it is causal for all its kind knows only because a causal mask that is missing is named as a mistake."""
    recipe = outcome.candidate.explained if outcome.candidate is not None else None
    return outcome.score[0] > 0 and (recipe is None or "ignored" in (recipe.causal, recipe.masking))
