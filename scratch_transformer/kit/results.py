"""What is said of a component: what its numbers show, its parts' mistakes, or why it cannot be built or called."""

from __future__ import annotations

import ast
import contextlib
import linecache
import re
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import file_of, leads_to, nodes_of, parameters_of, reads, text_of_file
from scratch_transformer.kit.discover.sandbox import Guard, TimeUp, time_limit
from scratch_transformer.kit.discover.target import Source, find
from scratch_transformer.kit.judge import uncomputed
from scratch_transformer.kit.judge.detectors import inventory
from scratch_transformer.kit.judge.frames import CalledOtherwise, is_learners, said_of
from scratch_transformer.kit.judge.stops import later as later_stops
from scratch_transformer.kit.judge.stops import no_forward, no_return, selfless
from scratch_transformer.kit.judge.stops.attributes import read_in_vain
from scratch_transformer.kit.judge.stops.crashes import crash_finding, first_finding
from scratch_transformer.kit.kind import LAYERS, NO_MASK, Diagnosis, Finding, Kind, Verdict
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report import idle, lines, stubs
from scratch_transformer.kit.report.finding import FINE, Named, Result
from scratch_transformer.kit.report.fitting import fitting
from scratch_transformer.kit.report.fixes import settled_by
from scratch_transformer.kit.resolve import foreign, likeness
from scratch_transformer.kit.resolve.build import config, construct
from scratch_transformer.kit.resolve.call import forwards
from scratch_transformer.kit.resolve.call.plan import FROM_ONE, CannotCall
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.functions.toy import ToyModel, is_asked_in_vain
from scratch_transformer.kit.resolve.library import supplied
from scratch_transformer.kit.resolve.library.around import Around, as_its_class_says
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.names.settings import SOURCE, TARGET, settings_of
from scratch_transformer.kit.resolve.names.words import words
from scratch_transformer.kit.resolve.trials import misfits, uneven
from scratch_transformer.kit.resolve.trials.adjust import TURNED
from scratch_transformer.kit.resolve.trials.match import Outcome
from scratch_transformer.kit.resolve.trials.outcome import raised
from scratch_transformer.kit.resolve.trials.probing import masks_come_together, never_called

NOT_JUDGED = "What comes behind the line at which it stops was not judged."
OVERWRITTEN = "A29"
"""What shows where both masks are given at once."""
RUNS = "B26"
"""What stops in a part does not stop in a whole that runs."""
TRIAL_SECONDS = 2.0
"""Of computing, to show that something stops with whatever shapes."""


Stop = tuple[Finding | None, BaseException | None]


class Results:
    """library: what is known of the learner's code. guard: of the sandbox. only: the component that was asked for."""

    def __init__(self, library: Library, guard: Guard | None, only: str | None) -> None:
        self.library, self.guard, self.only = library, guard, only
        self.learned: list[type] = []
        """Parts of other files, which have no result of their own."""
        self.broken: dict[Any, str] = {}
        """What stops however it is called, or the name of what is not there -> the id of the mistake that does it."""
        self.stops: dict[Any, Finding] = {}
        """The mistake itself."""
        self.raised: dict[Any, BaseException | None] = {}
        """What it raises, or raises where it is given a mask, whether that is known as a mistake or not."""

    def of(
        self, name: str, source: Source, line: int, value: Any, outcome: Outcome, diagnosis: Diagnosis | None
    ) -> Result:
        """Of a class or function that was resolved. diagnosis: None if it could not be built or called."""
        kind = outcome.kind
        result = Result(name, source.where(line), kind.name, what=kind.what, against=kind.builtin or "the reference")
        if diagnosis is None:
            return self._not_built(result, value, outcome, source)
        if outcome.candidate is not None and outcome.candidate.refused is not None:
            self.raised[value] = outcome.candidate.refused[1]
        is_unknown = outcome.candidate is not None and diagnosis.verdict == "unknown mismatch"
        idle = never_called(outcome.candidate) if outcome.candidate and is_unknown else ()
        every = self.library.parts_of(outcome.candidate.made, idle) if outcome.candidate else ()
        within = tuple(part for part in every if not any(part is other for other in self.library.silent))
        silent = [part for part in every if not any(part is other for other in within)]
        one = outcome.candidate
        made = one.made if one is not None else None
        within, silent = tuple(self._as_made(p, one) for p in within), [self._as_made(p, one) for p in silent]
        if _hands_no_mask_on(value, diagnosis):
            within, silent = tuple(map(_but_for_given_masks, within)), [*map(_but_for_given_masks, silent)]
        looks_up = outcome.candidate is not None and outcome.candidate.plan.order == FROM_ONE
        diagnosis = _as_it_is_asked(diagnosis) if looks_up else diagnosis
        diagnosis = _with_those_elsewhere(_as_ignored(diagnosis, within), silent, within, source)
        parts = {f.mistake.id for part in within for f in part.findings if f.severity != "note"}
        parts &= {f.mistake.id for f in diagnosis.findings if f.severity != "note"}
        # a layer's mistake around a sublayer may be its own, though a part has it too
        parts -= {id for id in parts if diagnosis.kind.endswith(LAYERS) and lines.is_made_in(id, value)}
        beside = _of_parts(diagnosis, within) or self._of_replaced(diagnosis)
        own = [f for f in diagnosis.findings if f.mistake.id not in {*parts, *beside}]
        self.library.diagnoses[value] = diagnosis
        result.verdict, result.error, result.design = diagnosis.verdict, diagnosis.error, diagnosis.design
        result.mistakes = [located(f, value, source, made) for f in own]
        result.alternatives = [list(ids) for ids in diagnosis.alternatives]
        result.divergence, result.probe = diagnosis.divergence, diagnosis.probe
        result.ordinary, result.unexplained = diagnosis.ordinary, diagnosis.unexplained
        if looks_up or (one is not None and (one.added_twice or one.besides_layers)):
            # they are those of the rows from 0 on, with another part in the place of its own, or without one
            result.error = result.ordinary = None
        twice = filter(None, map(_adds_itself, every if is_unknown else ()))
        result.notes = list(dict.fromkeys([*diagnosis.notes, *twice]))
        if diagnosis.verdict == "crashed" and not diagnosis.findings and diagnosis.notes:
            result.problem = diagnosis.notes[-1]  # what stopped it
        result.limits = list(dict.fromkeys(diagnosis.limits))
        unsaid = _unsaid(diagnosis, silent)
        if unsaid and not beside:
            result.verdict, result.unexplained = "mistake", False
            result.mistakes = [*(located(self._as_its_parts(f), value, source, made) for f in unsaid), *result.mistakes]
            result.limits.append(_WHAT_ELSE.format(" and ".join(f.mistake.id for f in unsaid)))
        is_lost = diagnosis.verdict in ("unknown mismatch", "crashed")  # else the rest is judged without that part
        lent = outcome.candidate.replaced if is_lost and outcome.candidate is not None else ()
        within_lent = [one for part in leads_to(value) if self._names(part) & {*lent} for one in leads_to(part)]
        stops = {id for part, id in self.broken.items() if self._names(part) & {*lent} or part in within_lent}
        stops |= {self.broken[cls] for cls in self._kept(made)}
        beside += sorted(stops - {*beside, *diagnosis.ids})
        unseen = _unseen(diagnosis, within, KINDS[diagnosis.kind], value)
        inherited = [*(f.mistake.id for f in diagnosis.findings if f.mistake.id in parts), *beside, *unseen]
        result.inherited = list(dict.fromkeys(inherited))
        if beside:
            result.verdict = "mistake"
            if diagnosis.verdict == "unknown mismatch":
                result.limits.append(_WHAT_ELSE.format(" and ".join(beside)))
        result.replaced = list(dict.fromkeys(diagnosis.replaced))
        result.besides = outcome.candidate.besides_layers if outcome.candidate is not None else ""
        if "next_logits" in kind.inputs and result.verdict in FINE:
            result.limits += self._models_length_first(value)
        return self._with_what_stops_elsewhere(self._with_parts_elsewhere(result, value), source)

    def _as_made(self, part: Diagnosis, whole: Resolved | None) -> Diagnosis:
        """What was found out about a class, without what none of those has, or shows, which a whole makes of it."""
        cls = next((thing for thing, known in self.library.diagnoses.items() if known is part), None)
        own = [module for module in _modules(whole.made if whole is not None else None) if type(module) is cls]
        asked = [(f, OF_ATTRIBUTES.match(f.evidence) if f.mistake.id in KEPT_AS else None) for f in part.findings]
        lacking = [f for f, said in asked if own and said and not any(_has(module, said[1]) for module in own)]
        lost = [f for f in part.findings if f.mistake.id == OVERWRITTEN and own and not f.name]
        if lost and whole is not None and not masks_come_together(whole, type(own[0])):
            lacking += lost
        return replace(part, findings=tuple(f for f in part.findings if f not in lacking)) if lacking else part

    def _as_its_parts(self, finding: Finding) -> Finding:
        """What numbers say of a part, and not of the whole in which it is told."""
        known = self.library.diagnoses.items()
        name = next((cls.__name__ for cls, one in known if any(f is finding for f in one.findings)), "part")
        return (
            replace(finding, evidence=f"Of its {name} by itself: {finding.evidence}") if finding.evidence else finding
        )

    def _models_length_first(self, writer: Any) -> list[str]:
        """That the models of its file, all of them, return (T, B, V), where a writer of text works with (B, T, V)."""
        home, known = getattr(writer, "__module__", ""), self.library.resolved.items()
        models = {cls: c for cls, c in known if c.kind.name in forwards.MODELS and cls.__module__ == home}
        if not models or not all(TURNED in candidate.limits for candidate in models.values()):
            return []
        names = " and ".join(getattr(cls, "__name__", "its model") for cls in models)
        return [
            f"It works with a model that returns (B, T, V). {names} returns (T, B, V): with that it writes no text."
        ]

    def _with_parts_elsewhere(self, result: Result, value: Any) -> Result:
        """What is right but for a part of another file, which has no report here, is not called right."""
        home = getattr(value, "__module__", "")
        others = [cls for cls in self.library.guesses if getattr(cls, "__module__", home) != home]
        lent = [cls for cls in others if getattr(cls, "__name__", "") in result.replaced]
        if result.verdict in FINE and lent:
            own = [f.mistake.id for cls in lent for f in self._severe(cls)]
            ids = sorted({*own, *(self.broken[cls] for cls in lent if cls in self.broken)})
            result.inherited += [id for id in ids if id not in result.inherited]
            result.verdict = "mistake" if ids else "unknown mismatch"
        result.unreported = self._unreported(result.inherited)
        return result

    def _with_what_stops_elsewhere(self, result: Result, source: Source) -> Result:
        """With what makes parts of other files stop, which have no report here, first: it stops the whole."""
        parts = [cls for cls in self.learned if cls in self.stops and self._names(cls) & {*result.replaced}]
        found = [located(self.stops[cls], cls, source) for cls in parts]
        if found:
            result.mistakes, result.verdict = [*found, *result.mistakes], "mistake"
            result.inherited = [id for id in result.inherited if id not in {named.id for named in found}]
            result.unreported = self._unreported(result.inherited)
        return result

    def _unreported(self, ids: Sequence[str]) -> list[str]:
        """The parts of files that were not given which have any of these mistakes: "Attention of layers.py"."""
        found = [
            cls for cls in self.learned if {self.broken.get(cls), *(f.mistake.id for f in self._severe(cls))} & {*ids}
        ]
        files = [file_of(cls) or cls.__module__ for cls in found]
        return [f"{cls.__name__} of {Path(file).name}" for cls, file in zip(found, files, strict=True)]

    def _severe(self, part: Any) -> list[Finding]:
        """The severe mistakes of a part, as far as it was understood."""
        diagnosis = self.library.diagnoses.get(part)
        return [f for f in diagnosis.findings if f.severity == "mistake"] if diagnosis is not None else []

    def _of_replaced(self, diagnosis: Diagnosis) -> list[str]:
        """Mistakes in what the reference stands in for, as something else in it is not understood."""
        classes = [cls for cls in self.library.resolved if getattr(cls, "__name__", "") in diagnosis.replaced]
        own = [self.library.diagnoses[cls] for cls in classes if cls in self.library.diagnoses]
        deeper = [part for cls in classes for part in self.library.parts_of(self.library.resolved[cls].made)]
        found = [f for part in (*own, *deeper) for f in part.findings if f.severity == "mistake"]
        return list(dict.fromkeys(f.mistake.id for f in found if f.mistake.id not in diagnosis.ids))

    def why_broken(self, value: Any, outcome: Outcome) -> Stop:
        """The mistake with which something stops, however it is called, and what it raises."""
        self.raised[value] = error = outcome.error
        if (lost := _of_its_forward(value)) is not None:
            self.remember(value, lost)
            return lost
        finding = crash_finding(error) if isinstance(error, Exception) else None
        if finding is None:
            finding, error = first_finding(self.library.heard.values()) or (None, error)
        if finding is None and outcome.stage in ("built", "called"):
            with (
                contextlib.suppress(TimeUp),
                self.guard.on() if self.guard else nullcontext(),
                time_limit(TRIAL_SECONDS),
            ):
                look = misfits.finding if outcome.stage == "called" else misfits.of_constructor
                found = look(value, outcome.kind, self.library, error) or uneven.finding(outcome)
                finding, error = found or (None, error)
        if finding is not None and finding.severity == "mistake":
            self.remember(value, (finding, error))
        return finding, error

    def remember(self, value: Any, stop: Stop) -> None:
        """That something stops, with what mistake, and what it raises."""
        finding, self.raised[value] = stop
        if finding is not None:
            self.broken[value], self.stops[value] = finding.mistake.id, finding

    def forget(self, value: Any) -> Stop:
        """The same, of what is repaired: from now on it does not stop."""
        self.broken.pop(value, None)
        return self.stops.pop(value, None), self.raised.pop(value, None)

    def by_its_parts(self, result: Result, value: Any, outcome: Outcome, source: Source) -> None:
        """Of what was built, is called what it is, and cannot be called: the mistakes that show all the same."""
        made, kind = outcome.made, outcome.kind
        stops = result.verdict == "crashed" or (outcome.candidate is None and RUNS in result.ids)
        if not stops or not isinstance(made, nn.Module) or not likeness.is_named(result.name, kind):
            return
        seen = uncomputed.of_parts(made) if type(made) is value else uncomputed.overwritten(value)
        if found := [f for f in seen if f.mistake.id in kind.ids]:
            known = [named for named in result.mistakes if named.id not in {f.mistake.id for f in found}]
            result.mistakes = [*known, *(located(f, value, source, made) for f in found)]
            result.verdict, result.stub = "mistake", ""

    def _names(self, part: Any) -> set[str]:
        """What stands in for a part is called like it, or like its kind."""
        return {getattr(part, "__name__", ""), *self.library.guesses.get(part, ())[:1]}

    def _broken_part(self, error: BaseException | None, value: Any, outcome: Outcome) -> Any:
        """The part of what stops that stops by itself: in which the error happened, else one that it has.

        Or the name of a part that could not be defined.
        """
        if isinstance(error, NameError) and error.name in self.broken:
            return error.name
        if hasattr(value, "of_class"):  # its class may stop: it is called without that
            return None
        within = outcome.made.modules() if isinstance(outcome.made, nn.Module) else ()
        had = (type(module) for module in within if type(module) in self.broken and type(module) is not value)
        asked = construct.annotations_of(value).values() if isinstance(error, config.Unknown) else ()
        lent = supplied.names(outcome.made)  # in place of what stops when it is built
        wanted = [cls for cls in asked if cls in self.broken]
        wanted += [cls for cls in self.broken if cls is not value and self._names(cls) & {*lent}]
        wanted += self._kept(outcome.made)
        return supplied.culprit(error, value, self.broken) or next(had, None) or next(iter(wanted), None)

    def _kept(self, made: Any) -> list[Any]:
        """The classes that are broken of what a module keeps, or a part of it, and is no module itself."""
        parts = made.modules() if isinstance(made, nn.Module) else ()
        return [type(one) for part in parts for one in vars(part).values() if type(one) in self.broken]

    def _not_built(self, result: Result, value: Any, outcome: Outcome, source: Source) -> Result:
        error, kind = outcome.error, outcome.kind
        if isinstance(error, NotImplementedError):  # an exercise as it was handed out
            result.verdict, result.problem = foreign.NOT_WRITTEN, str(error)
            return result
        if absent := foreign.lacks(error):
            result.verdict, result.problem = absent, outcome.problem
            return result
        if "next_logits" in kind.inputs and self.only != result.name:
            heard = [error, *(self.library.heard.values() if OF_TEXTS.search(str(error)) else ())]
            lacking = next((one for one in heard if _lacks(one, source)), None)
            if outcome.unknown or lacking is not None:
                piece = foreign.NOT_ALONE.format(", ".join(outcome.unknown))
                result.verdict = piece if outcome.unknown else foreign.not_loaded(lacking)
                return result
        in_vain = is_asked_in_vain(error) and not isinstance(error, NameError)
        finding, error = self.why_broken(value, outcome)
        asked = read_in_vain(error)[0] if finding is not None and error is not None else ""
        if in_vain and asked != ToyModel.__name__:  # else what it asks for is nowhere in its file
            result.verdict = foreign.OF_ITS_MODEL
            return result
        is_own = finding is not None and (_stops_in(error, value) or _of_its_forward(value) is not None)
        inherited = None if is_own else self._broken_part(error, value, outcome)
        if inherited is not None:
            finding = None  # it is said of the part
        if finding is not None:
            also = _before_its_forward(finding, outcome, value)
            error = outcome.error if also else error  # nobody comes to call it
            later = later_stops.finding(value, finding.evidence) if is_own and outcome.stage == "built" else None
            told = (*also, finding, *([later] if later is not None and finding.mistake.id == RUNS else ()))
            result.mistakes = [located(one, value, source, outcome.made) for one in told]
        result.inherited = [self.broken[inherited]] if inherited is not None else []
        result.unreported = self._unreported(result.inherited)
        severe = (finding is not None and finding.severity == "mistake") or inherited is not None
        result.limits += [NOT_JUDGED] if severe else []
        result.verdict = "mistake" if severe else "could not be built" if outcome.stage == "built" else "crashed"
        result.problem = outcome.problem if error is outcome.error else raised("its forward", error)
        result.stub = "" if severe else stubs.stub(_of_both_sides(value, kind), result.name, source.module)
        return result


IDS = {"id", "ids", "idx", "token", "tokens"}


def _of_both_sides(value: Any, kind: Kind) -> Kind:
    """What is to be filled in: of what was tried as a decoder and takes the ids of both languages, the whole."""
    names = [{*words(p.name)} for p in parameters_of(getattr(value, "forward", value))]
    takes_both = all(any(side & name and IDS & name for name in names) for side in (SOURCE, TARGET))
    return KINDS["Transformer"] if takes_both and kind.name in ("DecoderOnly", "TokenDecoder") else kind


def _before_its_forward(finding: Finding, outcome: Outcome, value: Any) -> list[Finding]:
    """The mistake with which the constructor stops already of a class of which another is told: it has no forward."""
    error = outcome.error if outcome.stage == "built" and no_forward.finding(value) is not None else None
    own = [frame for frame, _ in traceback.walk_tb(error.__traceback__ if error else None) if is_learners(frame)]
    made = getattr(vars(value).get("__init__"), "__code__", None)
    first = crash_finding(error) if isinstance(error, Exception) and own and own[-1].f_code is made else None
    return [first] if first is not None and first.evidence != finding.evidence else []


def _of_its_forward(value: Any) -> tuple[Finding, BaseException] | None:
    """That Python does not find it, that it has no self, or that it returns nothing."""
    if (lost := no_forward.finding(value)) is not None:
        return lost
    if (without := selfless.finding(value)) is not None:
        return without, CannotCall("without self, the module itself is its first argument")
    nothing = no_return.finding(value)
    return None if nothing is None else (nothing, CannotCall("its forward returns None"))


def _stops_in(error: BaseException | None, value: Any) -> bool:
    """Whether something stops in a class's own code, and in none of its parts, which may stop as well."""
    own = [getattr(getattr(member, "__func__", member), "__code__", None) for member in vars(value).values()]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)] if error is not None else []
    if isinstance(error, CalledOtherwise):  # in the reference, in whose place it is to stop
        frames = [frame for frame in frames if is_learners(frame)]
    return bool(frames) and frames[-1].f_code in filter(None, own)


OF_TEXTS = re.compile(r"object has no attribute '(lower|split|strip|encode)'")
"""What is said of ids that were given in the place of a text: as a text, it may stop for another reason."""


def _lacks(error: BaseException | None, source: Source) -> bool:
    """Whether it stopped for what is not there: words of a vocabulary, a file, what a line that was left out makes."""
    is_there = not isinstance(error, (KeyError, FileNotFoundError)) and not hasattr(error, "placeholder")
    return not is_there or (type(error) is NameError and _is_left_out(str(error.name), source))


def _is_left_out(name: str, source: Source) -> bool:
    """Whether a line of the file, which could not be run, gives a name its value: EOS = vocabulary["<eos>"]."""
    return re.search(rf"^{re.escape(name)}\s*[:=]", source.text, re.MULTILINE) is not None


def _of_parts(diagnosis: Diagnosis, within: Sequence[Diagnosis]) -> list[str]:
    """Mistakes of its parts that its own numbers cannot show: those of training, or beside others that are not known.

    Where its numbers are right, a part's mistake in numbers does not take place in it.
    """
    found = [f for part in within if not part.unexplained for f in part.findings if f.severity == "mistake"]
    is_unknown = diagnosis.verdict == "unknown mismatch"
    milder = {f.mistake.id for f in diagnosis.findings if f.mistake.id == "LN3" and f.severity == "note"}  # as an ε is
    there = [
        f.mistake.id
        for f in found
        if is_unknown
        or not (f.mistake.changes or f.mistake.id == RUNS)
        or _is_of(diagnosis, f)
        or f.mistake.id in milder
    ]
    known = {f.mistake.id for f in diagnosis.findings if f.severity != "note"}
    return [id for id in dict.fromkeys(there) if id not in known]


def _unseen(diagnosis: Diagnosis, within: Sequence[Diagnosis], kind: Kind, value: Any) -> list[str]:
    """What its parts have and is not looked for in a whole, or does not show there: told of, whatever its numbers say.

    A mask on padding's queries shows where real words stand behind padding, in what hands masks on.
    """
    is_unknown = diagnosis.verdict == "unknown mismatch"
    hidden = [
        f.mistake.id
        for part in within
        for f in part.findings
        if (
            f.severity in ("harmless", "paper")
            and (is_unknown or f.mistake.id in OF_PARTS or f.mistake.id not in kind.ids)
        )
        or (f.mistake.id == "A7" and part.kind.startswith("Causal") and _names_any(OF_PADDING, value))
    ]
    return [id for id in dict.fromkeys(hidden) if id not in diagnosis.ids]


KEPT_AS = ("A30", "B10", "B32", "P5")
"""Mistakes in how an attribute is kept: if mask: self.mask = …, some of a class have it, and others do not."""
OF_ATTRIBUTES = re.compile(r"self\.(\w+(?:\.\w+)*)")


def _has(module: nn.Module, path: str) -> bool:
    """Whether a module has an attribute, or a part of it has: 0.mask."""
    kept: Any = module
    for name in path.split("."):
        kept = getattr(kept, name, None)
    return kept is not None


OF_PARTS = ("A18", "LN4")
"""What is looked for in attention, or a norm, alone, though a whole can have it."""
GIVEN_MASKS = ("A8", "A24", "A31", "A32")
"""Mistakes with a mask that is given; what makes its own blocks with a number (A8) whatever it is given."""
OF_MASKS, OF_PADDING = re.compile(r"(?i)mask|tril|triu|causal"), re.compile(r"(?i)mask|pad")


def _hands_no_mask_on(value: Any, diagnosis: Diagnosis) -> bool:
    """Whether a whole takes no mask, and makes none that it could give its parts."""
    return NO_MASK in diagnosis.limits and not _names_any(OF_MASKS, value)


def _names_any(pattern: re.Pattern[str], value: Any) -> bool:
    """Whether a pattern fits a name in something's code; mask=None names none."""
    nodes = nodes_of(value)
    nones = [node for node in nodes if isinstance(node, ast.keyword) and ast.unparse(node.value) == "None"]
    named = (getattr(node, field, None) for node in nodes if node not in nones for field in ("id", "attr", "arg"))
    return any(pattern.search(name) for name in named if isinstance(name, str))


def _but_for_given_masks(part: Diagnosis) -> Diagnosis:
    """What was found out about a part, as far as it is true of a whole that gives it no mask."""
    of_given = GIVEN_MASKS if "mask" in KINDS[part.kind].inputs else GIVEN_MASKS[1:]
    return replace(part, findings=tuple(f for f in part.findings if f.mistake.id not in of_given))


def _as_it_is_asked(diagnosis: Diagnosis) -> Diagnosis:
    """Of a table that is asked for the rows 1, 2, 3, …, 0 being that of padding: it does not count (P9)."""
    findings = tuple(f for f in diagnosis.findings if f.mistake.id != "P9")
    is_right = diagnosis.verdict == "harmless deviation" and all(f.severity == "note" for f in findings)
    return replace(diagnosis, findings=findings, verdict="matches the builtin" if is_right else diagnosis.verdict)


def _as_ignored(diagnosis: Diagnosis, within: Sequence[Diagnosis]) -> Diagnosis:
    """No causal mask (A25), in a whole whose attention ignores all masks (A24), is that: the mask may well be made."""
    of_parts = [f for part in within for f in part.findings if f.severity == "mistake" and not f.form]
    ignored = next((f.mistake for f in of_parts if f.mistake.id == "A24"), None)
    if ignored is None or "A24" in diagnosis.ids:
        return diagnosis
    findings = [replace(f, mistake=ignored, form="") if f.mistake.id == "A25" else f for f in diagnosis.findings]
    return replace(diagnosis, findings=tuple(findings))


WITHOUT_POSITIONS = "P13"


def _is_of(diagnosis: Diagnosis, finding: Finding) -> bool:
    """Whether a part's mistake is in the whole, of which it is a design: a part that should add positions adds none."""
    return finding.mistake.id == WITHOUT_POSITIONS and diagnosis.recipe.positions == "none"


def _adds_itself(part: Diagnosis) -> str:
    """Of a part that has its residual inside: what an unknown whole may do again."""
    if not re.search(r"residual.* inside", part.design):
        return ""
    return f"Its {part.kind} has its {part.design}: what adds its input around it adds that twice."


_WHAT_ELSE = "What differs in it besides {}, if anything, was not found."


def _unsaid(diagnosis: Diagnosis, silent: Sequence[Diagnosis]) -> list[Finding]:
    """Mistakes of its parts in other files, which have no report of their own, where nothing explains the whole; with
    what else makes those parts' numbers.
    """
    explained = [part for part in silent if not part.unexplained and part.verdict == "mistake"]
    wrong = [part for part in explained if any(f.severity == "mistake" for f in part.findings)]
    found = [f for part in wrong for f in part.findings if f.severity == "mistake" or f.mistake.changes]
    own = {f.mistake.id: f for f in found if f.mistake.id not in diagnosis.ids}
    return list(own.values()) if diagnosis.verdict == "unknown mismatch" or diagnosis.unexplained else []


def _with_those_elsewhere(
    diagnosis: Diagnosis, silent: Sequence[Diagnosis], within: Sequence[Diagnosis], source: Source
) -> Diagnosis:
    """With the mistakes of parts in other files that no numbers of the whole show: what a norm starts with, dropout.

    And what is harmless, which nothing else tells of. Not where the file of the whole fills the norms itself.
    """
    if diagnosis.verdict in ("unknown mismatch", "crashed"):
        return diagnosis
    fills = inventory.FILLS_NORMS.search(source.text)
    known = {*diagnosis.ids, *_of_parts(diagnosis, within), *({"LN13"} if fills else ())}
    found = [f for part in silent if not part.unexplained for f in part.findings]
    own = {f.mistake.id: f for f in found if not f.mistake.changes and f.mistake.id not in known}
    severe, harmless = ([f for f in own.values() if f.severity == one] for one in ("mistake", "harmless"))
    costs_nothing = bool(harmless) and diagnosis.verdict == "matches the builtin"
    verdict: Verdict = "mistake" if severe else "harmless deviation" if costs_nothing else diagnosis.verdict
    return replace(diagnosis, findings=(*severe, *diagnosis.findings, *harmless), verdict=verdict)


def located(finding: Finding, value: Any, source: Source, made: Any = None) -> Named:
    """With the line to look at, of the class or function or of what it is made of, and was given."""
    finding = as_its_class_says(finding) if isinstance(made, Around) else finding
    if unread := _unread(finding.evidence, source):
        return named(finding, next(iter(find(source.path).sources), source), unread)
    given = [type(part) for part in _modules(made)]
    given = [cls for cls in given if not cls.__module__.startswith("scratch_transformer.")]  # what stands in for parts
    name = finding.name or _told_in_vain(finding, value) or finding.form
    never = idle.of_modules(_modules(made))
    found = lines.place(finding.mistake.id, name, value, given, said_of(finding.evidence), finding.part, never)
    if found is None:
        return named(finding, source)
    if setting := found.fix or settled_by(finding.mistake.id, linecache.getline(found.file, found.line)):
        finding = replace(finding, fix=setting)
    elif fits := fitting(finding.mistake.id, finding.form, found.file, found.line, _modules(made)):
        finding, found = replace(finding, fix=fits.text), found._replace(put=fits.put)
    text = text_of_file(found.file)
    if text and text != source.text:
        source = Source(found.file, text)
    told = named(finding, source, found.line, found.put, found.gone)
    told.fix += and_lines(found.also)
    return told


def and_lines(others: Sequence[int]) -> str:
    """That other lines are to be changed in the same way, as a sentence behind a fix."""
    if not others:
        return ""
    numbers = " and ".join(filter(None, (", ".join(map(str, others[:-1])), str(others[-1]))))
    return f" The same in line{'s' if len(others) > 1 else ''} {numbers}."


def _modules(made: Any) -> list[nn.Module]:
    return [*made.modules()] if isinstance(made, nn.Module) else []


def _told_in_vain(finding: Finding, value: Any) -> str:
    """The parameter of a constructor that is not listened to, where that does not even read it; else ""."""
    make = vars(value).get("__init__") if isinstance(value, type) and finding.mistake.id == "B29" else None
    meant = [p.name for p in parameters_of(make) if finding.form in settings_of(p.name)]
    return next((name for name in meant if not reads(make, name)), "")


def _unread(evidence: str, source: Source) -> int:
    """The line that Python cannot read, or where what it is in begins, if a mistake is that; else 0."""
    numbers = range(1, source.text.count("\n") + 2) if "cannot" in evidence else ()
    return next((n for n in numbers if any(said.format(source.where(n)) in evidence for said in UNREAD)), 0)


UNREAD = ("Python cannot read line {} (", "({}) cannot be read and is left out")
"""What is said of a line."""


def named(finding: Finding, source: Source, line: int = 0, put: Sequence[str] = (), gone: int = 1) -> Named:
    """A finding as plain data. line: of the file, to look at. put: what should stand in place of `gone` lines there."""
    mistake = finding.mistake
    first, code = lines.excerpt(source.text, line, gone) if line else (0, [])
    return Named(
        mistake.id, mistake.title, finding.severity, finding.does or mistake.does, mistake.expected, finding.evidence,
        finding.fix or mistake.fixes.get(finding.form, mistake.fix), mistake.source, finding.words,
        source.where(line) if line else "", code, first, line, list(put), gone,
    )  # fmt: skip
