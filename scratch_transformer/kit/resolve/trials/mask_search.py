"""In which form a learner's forward takes its masks: by trial, all usual ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from scratch_transformer.kit import clock
from scratch_transformer.kit.judge.detectors.unread import QUERIES
from scratch_transformer.kit.judge.session import says_nothing
from scratch_transformer.kit.kind import Inputs, Probe
from scratch_transformer.kit.resolve.call.beside import Causal, Open
from scratch_transformer.kit.resolve.call.masks import IDS, POLARITIES, SQUARE, Form, forms
from scratch_transformer.kit.resolve.call.plan import MASKS, Plan
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.names.inputs import KEY_PADDING, LENGTHS, is_mask
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.resolve.trial import MISTAKEN, NOTHING, Score, Trial

COUNTS = Form("True = may attend", "lengths")
OF_CAUSAL = Form("True = may attend", "lengths, causal inside")
MOST_MISTAKEN_MASKS, MOST_MIXED = 8, 60
MIXED = ("(B, 1, T, S)", "(B, 1, 1, S)", "(B, S)", "(T, S)", "(B, T, S)", "(B, 1, S)")
NEUTRAL = ("True = may attend", "1 = may attend", "True = blocked", "0 or -inf, added")
SHAPES = (
    ("(B, 1, T, S)", "(B, 1, 1, S)"), ("(B, T, S)", "(B, 1, S)"), ("(T, S)", "(B, S)"),
    ("(B, 1, T, S)", "(B, 1, T, S)"),
    ("(B, T, S)", "(B, T, S)"), ("(B, 1, T, S)", "(B, S)"), ("(B, T, S)", "(B, S)"), ("(B, S)", "(B, S)"),
    ("(T, S, B)", "(T, S, B)"),
    ("(T, S, B)", "(1, S, B)"), ("(B, S), causal inside", "(B, S)"), ("(B, S), causal inside", "(B, 1, 1, S)"),
    ("(T, S)", "(B, 1, 1, S)"), ("(B, 1, S)", "(B, 1, S)"), ("(B, 1, 1, S)", "(B, 1, 1, S)"),
    ("(B, h, T, S)", "(B, h, T, S)"),
)  # fmt: skip
"""Usual shapes of the decoder's own mask, and of the mask of the source."""
OF_TWO_SORTS = (
    ("(T, S)", "(B, S)"), ("(1, 1, T, S)", "(B, 1, 1, S)"), ("(1, T, S)", "(B, 1, S)"), ("(T, S)", "(B, 1, 1, S)"),
)  # fmt: skip
"""The same of masks that hide the future, and of those of padding, each meant in its own way."""


def with_required_masks(
    plan: Plan, every: bool, likely: Sequence[str] = (), flags: Sequence[str] = ()
) -> Iterator[Plan]:
    """The plan, with a form for every mask that must be given, of each usual polarity and shape.

    every: give all masks that can be given, as there are no probes without. likely: polarities to try first.
    flags: parameters whose code asks whether they are true.
    """
    given = [(parameter, name) for parameter, name, needed in plan.mask_parameters if (needed or every) and name]
    sees_all = torch.ones(1, 1, 3, dtype=torch.bool) if "next_logits" in plan.arguments.values() else None
    nameless = {parameter: sees_all for parameter, name, needed in plan.mask_parameters if needed and not name}
    bare, plan = plan, replace(plan, constants={**plan.constants, **nameless})
    if not given:
        is_causal = not every and set(plan.arguments.values()) == {"ids"}
        takers = [parameter for parameter, name, _ in plan.mask_parameters if not name] if is_causal else []
        if takers and {*takers} <= {*flags}:  # if mask: mask = torch.ones(n, n).triu(1)
            yield replace(bare, constants={**bare.constants, **dict.fromkeys(takers, True)})
        yield plan
        if is_causal:
            yield from _causal(bare, likely)
        elif nameless and sees_all is None:
            yield from _open(bare, [*nameless], likely)
        return
    if not every:
        free = tuple((parameter, name, False) for parameter, name, _ in plan.mask_parameters)
        yield replace(plan, constants={**plan.constants, **{p: None for p, _ in given}}, mask_parameters=free)
    tried: list[dict[str, tuple[str, Form]]] = []
    paddings = [p for p, _ in given if KEY_PADDING.search(plain(p))]
    if len(paddings) == len(given):  # src_attention_mask is of padding, unless there is a src_padding_mask
        paddings = [p for p in paddings if "pad" in plain(p)]
    for polarity in dict.fromkeys((*likely, *NEUTRAL)):
        if 0 < len(paddings) < len(given) and all(
            is_mask(p) for p, _ in given
        ):  # as torch.nn.Transformer is given them
            apart = {p: (n, Form(polarity, "(B, S)" if p in paddings else "(T, S)")) for p, n in given}
            tried.append(apart)
            yield plan.with_masks(apart)
        for wide, narrow in SHAPES:
            shapes = {"src_mask": narrow, "memory_mask": narrow}
            taken = {p: (n, Form(polarity, shapes.get(n, wide)) if is_mask(p) else IDS) for p, n in given}
            padding = {p: (n, Form(polarity, narrow)) for p, n in given if KEY_PADDING.search(plain(p))}
            own = {"mask", "tgt_mask"} if len(given) > 1 else set()
            counts = {p: (n, OF_CAUSAL if n in own else COUNTS) for p, n in given if LENGTHS.search(plain(p))}
            taken, padding = taken | counts, padding | counts
            for masks in ({**taken, **padding}, taken) if taken.keys() > padding.keys() else (taken,):
                if masks not in tried:
                    tried.append(masks)
                    yield plan.with_masks(masks)


CAUSAL_SHAPES = ("(T, S)", "(B, 1, T, S)", "(B, T, S)", "(B, S), causal inside")


def _causal(plan: Plan, likely: Sequence[str]) -> Iterator[Plan]:
    """For what is causal and yet takes a mask: the plan with one that hides the future, in each usual form."""
    takers = [parameter for parameter, name, _ in plan.mask_parameters if not name]
    for polarity in dict.fromkeys((*likely, *NEUTRAL)) if takers else ():
        for shape in CAUSAL_SHAPES:
            masks = {p: Causal(Form(polarity, shape)) for p in takers}
            yield replace(plan, constants={**plan.constants, **masks})


OPEN_SHAPES = ("(B, 1, 1, S)", "(B, S)", "(B, 1, T, S)", "(B, T, S)", "(T, S)")


def _open(plan: Plan, takers: list[str], likely: Sequence[str]) -> Iterator[Plan]:
    """For what must be given a mask that its kind has none of, and stops with None: one that hides nothing."""
    for polarity, shape in itertools.product(dict.fromkeys((*likely, *NEUTRAL)), OPEN_SHAPES):
        masks = dict.fromkeys(takers, Open(Form(polarity, shape)))
        yield replace(plan, constants={**plan.constants, **masks})


def find_masks(candidate: Resolved, trial: Trial, tiers: int, among: Sequence[Probe]) -> Score:
    """Sets the forms of all masks by trial. Returns how well the masked probes among these are explained then."""
    wanted = {name for probe in trial.probes for name in MASKS if probe.inputs.get(name) is not None}
    takers = [(p, name) for p, name, _ in candidate.plan.mask_parameters if name in wanted]
    if not takers:
        return 0, 0.0
    masked = [p for p in among if any(p.inputs.get(name) is not None for name in MASKS)]
    search = _separate if len({name for _, name in takers}) == 1 else _joint
    score = search(candidate, trial, takers, masked, tiers)
    candidate.plan = _with_numbers(candidate, masked)
    return score


def _with_numbers(candidate: Resolved, masked: Sequence[Probe]) -> Plan:
    """Its plan, with masks of 0 and 1 in place of boolean ones where those, and not these, are refused: 1 - mask.

    Nobody is to blame for a mask of another type than the code was written for.
    """
    boolean = candidate.plan
    taken = {p: (name, form.of_numbers) for p, (name, form) in boolean.masks.items()}
    is_asked = candidate.used_old_masks or len(taken) > 1  # of one mask, every call so far has told
    for probe in masked if taken != boolean.masks and is_asked else ():
        try:
            if not candidate.accepts(probe.inputs) or not candidate.old_masks(**probe.inputs):
                continue
            before, candidate.plan = candidate(**probe.inputs), boolean.with_masks(taken)
            is_same = candidate.accepts(probe.inputs) and torch.equal(candidate(**probe.inputs), before)
            if is_same and not candidate.old_masks(**probe.inputs):
                return candidate.plan
        except Exception:  # the learner's code may raise anything
            continue
        finally:
            candidate.plan = boolean
    return boolean


def _separate(
    candidate: Resolved, trial: Trial, takers: list[tuple[str, str]], masked: list[Probe], tiers: int
) -> Score:
    """One canonical mask: each parameter that can take it by itself; the best first."""
    start, results = candidate.plan, []
    of_keys = [(p, name) for p, name in takers if not QUERIES.search(p)] or takers
    of_queries = [p for p, name in takers if (p, name) not in of_keys]
    for parameter, name in of_keys:
        others = {p: taken for p, taken in start.masks.items() if p != parameter}
        usual = forms(parameter, candidate.plan.order != "sequence first")
        options = [{**others, parameter: (name, form)} for form in usual]
        found = _best(candidate, trial, start, options, masked, tiers)[:2]
        for more in (_beside_queries(parameter, name, usual, of_queries), _square(parameter, name)):
            if more and found[0][0] >= MISTAKEN:
                alike = _best(candidate, trial, start, more, masked, min(tiers, MISTAKEN))[:2]
                found = min(found, alike, key=lambda one: one[0])
        results.append((*found, parameter))
    results.sort(key=lambda result: result[0])
    explained = [(masks, parameter) for (tier, *_), masks, parameter in results if tier < NOTHING and masks]
    chosen = {p: masks[p] for masks, parameter in explained for p in (parameter, *of_queries) if p in masks}
    if not chosen:
        chosen = results[0][1]
    candidate.plan = start.with_masks(chosen)
    return results[0][0][0], results[0][0][2]


def _beside_queries(
    parameter: str, name: str, usual: list[Form], of_queries: list[str]
) -> list[dict[str, tuple[str, Form]]]:  # fmt: skip
    """A mask of the keys, and one of the queries beside it in the same form."""
    if not of_queries:
        return []
    return [
        {parameter: (name, form), **dict.fromkeys(of_queries, (name, form.of_queries))}
        for form in usual
        if form.of_queries is not None
    ]


def _square(parameter: str, name: str) -> list[dict[str, tuple[str, Form]]]:
    """A mask of one row, which what takes it makes rows of too: of as many queries as keys, which no memory has."""
    if name == "memory_mask":
        return []
    return [{parameter: (name, Form(polarity, SQUARE))} for polarity in POLARITIES]


def _joint(candidate: Resolved, trial: Trial, takers: list[tuple[str, str]], masked: list[Probe], tiers: int) -> Score:
    """Several canonical masks: all in one form, else every combination of the shapes that do not crash."""
    start = candidate.plan
    as_before = [dict(start.masks)] if {p for p, _ in takers} <= start.masks.keys() else []
    alike = [{p: (name, form) for p, name in takers} for form in forms(takers[0][0], start.order != "sequence first")]
    same = [*as_before, *_of_two_sorts(takers), *alike]
    rank, masks, least = _best(candidate, trial, start, same, masked, tiers)
    if rank[0] >= NOTHING and least:  # nothing was taken that says all: other shapes for some may be
        mixed = _mixed(takers, start.order != "sequence first")
        rank, masks, _ = min(
            (rank, masks, least),
            _best(candidate, trial, start, mixed, masked, tiers, least),
            key=lambda found: found[0],
        )
    candidate.plan = start.with_masks(masks)
    return rank[0], rank[2]


def _of_two_sorts(takers: list[tuple[str, str]]) -> list[dict[str, tuple[str, Form]]]:
    """Masks of padding in one form, and those that hide tokens in another: -inf to add, as torch.nn.Transformer makes.

    As torch takes them, (B, S) and (T, S), or as what is added to the scores.
    """
    paddings = [p for p, _ in takers if KEY_PADDING.search(plain(p))]
    if not 0 < len(paddings) < len(takers):
        return []
    return [
        {p: (name, Form(of_padding, narrow) if p in paddings else Form(polarity, wide)) for p, name in takers}
        for wide, narrow in OF_TWO_SORTS
        for polarity, of_padding in itertools.product(NEUTRAL, NEUTRAL)
        if polarity != of_padding
    ]


def _mixed(takers: list[tuple[str, str]], batch_first: bool) -> list[dict[str, tuple[str, Form]]]:
    """Forms of one polarity and of several shapes, the likeliest for each name first."""
    shapes = [[form.shape for form in forms(p, batch_first) if form.shape in MIXED] for p, _ in takers]
    choices = [list(dict.fromkeys(of_one)) for of_one in shapes]
    ranked = sorted(itertools.product(*(range(len(of_one)) for of_one in choices)), key=sum)
    return [
        {p: (name, Form(polarity, choices[i][n])) for i, ((p, name), n) in enumerate(zip(takers, ranks, strict=True))}
        for polarity in NEUTRAL
        for ranks in ranked[:MOST_MIXED]
    ]


def refusal(candidate: Resolved, among: Sequence[Probe]) -> tuple[str, Exception] | None:
    """The mask's parameter and the error of the likeliest form, of what stops with every form; else None.

    An error that comes without a mask too, as there are more keys than queries, says less than any other.
    """
    stops: list[tuple[bool, Exception]] = []
    for probe in (p for p in among if any(p.inputs.get(name) is not None for name in MASKS)):
        bare = {name: None if name in MASKS else value for name, value in probe.inputs.items()}
        if candidate.accepts(probe.inputs):
            error = _error(candidate, probe.inputs)
            if error is None:
                return None
            stops.append((candidate.accepts(bare) and _error(candidate, bare) is not None, error))
    stops.sort(key=lambda stop: stop[0])
    return (next(iter(candidate.plan.masks), "mask"), stops[0][1]) if stops else None


def _error(candidate: Resolved, inputs: Inputs) -> Exception | None:
    try:
        candidate(**inputs)
    except Exception as error:  # the learner's code may raise anything
        return error
    return None


Rank = tuple[int, int, float]


def _best(
    candidate: Resolved,
    trial: Trial,
    start: Plan,
    options: list[dict[str, tuple[str, Form]]],
    masked: list[Probe],
    most: int,
    least: int | None = None,
) -> tuple[Rank, dict[str, tuple[str, Form]], int]:
    """The option that explains most, (tier, probes left out, error), its masks, and the fewest that are left out.

    least: what an option leaves out at most, since others that leave out no more were answered.
    """
    left_out = [_left_out(candidate, start.with_masks(option), masked) for option in options]
    chosen: Sequence[int] = sorted(range(len(options)), key=left_out.__getitem__)  # what can express most goes first
    ranked: list[tuple[Rank, int]] = []
    best: tuple[Rank, int] = (NOTHING + 1, 0, float("inf")), 0
    least = len(masked) if least is None else least
    for tiers in (0, MISTAKEN, NOTHING):
        if tiers > most:
            break
        if tiers == NOTHING:
            chosen = _unlike([entry for entry in ranked if entry[0][0] >= NOTHING])[:MOST_MISTAKEN_MASKS]
        ranked = [best] if best[0][0] < NOTHING else []
        for index in chosen:
            if left_out[index] > least or left_out[index] == len(masked):
                break  # what can say more runs: it is what counts, explained or not
            is_late = bool(ranked) and clock.now() > trial.until
            if is_late and min(ranked)[0][2] < float("inf"):
                break
            candidate.plan = start.with_masks(options[index])
            usable = [probe for probe in masked if candidate.accepts(probe.inputs)]
            if is_late:  # the first with numbers of the right shape; others would hide what is to be found out
                ranked += [((NOTHING, left_out[index], 1.0), index)] if _answers(candidate, trial, usable) else []
                continue
            tier, error = trial.score(candidate, usable, tiers)
            if most == 0 and tier == NOTHING and _answers(candidate, trial, usable):
                ranked.append(((tier, left_out[index], 1.0), index))
                break
            ranked.append(((tier, left_out[index], error), index))
            if left_out[index] < least and (tier < NOTHING or (tier == NOTHING and _answers(candidate, trial, usable))):
                least = left_out[index]
            if tier == 0 or (tiers == 0 and tier < NOTHING):
                break
        best = min(ranked, default=best)
        if not ranked or best[0][0] < NOTHING:
            break
    candidate.plan = start
    return best[0], options[best[1]] if ranked else {}, least


def _unlike(ranked: list[tuple[Rank, int]]) -> list[int]:
    """Of options with the same error, which are the same mask in another form, the first.

    The likeliest goes first, then the nearest.
    """
    found: dict[tuple[int, int, str], int] = {}
    for (tier, left_out, error), index in sorted(ranked):
        found.setdefault((tier, left_out, f"{error:.6g}"), index)
    likeliest = min(found.values(), default=None)
    return sorted(found.values(), key=lambda index: index != likeliest)


def _answers(candidate: Resolved, trial: Trial, probes: Sequence[Probe]) -> bool:
    """Whether it gives numbers for all probes, one vector for each token: of logits, or of what they are made of."""
    for probe in probes:
        try:
            with double(), torch.no_grad():
                output = candidate(**probe.inputs)
        except Exception:  # the learner's code may raise anything
            return False
        expected = trial.expected_shape(probe.inputs)
        if expected is None or output.shape[:-1] != expected[:-1] or says_nothing(output):
            return False
    return True


def _left_out(candidate: Resolved, plan: Plan, masked: Sequence[Probe]) -> int:
    """How many probes have masks that cannot be given this way."""
    before, candidate.plan = candidate.plan, plan
    try:
        return sum(not candidate.accepts(probe.inputs) for probe in masked)
    finally:
        candidate.plan = before
