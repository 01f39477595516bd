"""What is said of a component that could not be built or called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import parameters_of
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.judge import uncomputed
from scratch_transformer.kit.judge.frames import CalledOtherwise, frames_of, is_learners, learners_frame
from scratch_transformer.kit.judge.stops import later as later_stops
from scratch_transformer.kit.judge.stops import no_forward
from scratch_transformer.kit.judge.stops.attributes import read_in_vain
from scratch_transformer.kit.judge.stops.crashes import crash_finding
from scratch_transformer.kit.kind import Finding, Kind
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report import stubs
from scratch_transformer.kit.report.finding import Result
from scratch_transformer.kit.resolve import foreign, likeness, not_there, sorts
from scratch_transformer.kit.resolve.functions import writing
from scratch_transformer.kit.resolve.functions.toy import ToyModel, is_asked_in_vain
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.names.settings import SOURCE, TARGET
from scratch_transformer.kit.resolve.names.words import words
from scratch_transformer.kit.resolve.trials.match import Outcome
from scratch_transformer.kit.resolve.trials.outcome import raised
from scratch_transformer.kit.results.elsewhere import Elsewhere
from scratch_transformer.kit.results.locating import located
from scratch_transformer.kit.results.stopped import RUNS, Stopped, of_its_forward

NOT_JUDGED = "What comes behind the line at which it stops was not judged."
IDS = {"id", "ids", "idx", "token", "tokens"}
OF_TEXTS = re.compile(r"object has no attribute '(lower|split|strip|encode)'")
"""What is said of ids that were given in the place of a text: as a text, it may stop for another reason."""


class Unbuilt:
    """library: what is known of the learner's code. only: the component that was asked for."""

    def __init__(self, library: Library, stopped: Stopped, elsewhere: Elsewhere, only: str | None) -> None:
        self.library, self.stopped, self.elsewhere, self.only = library, stopped, elsewhere, only

    def of(self, result: Result, value: Any, outcome: Outcome, source: Source) -> Result:
        """The mistake with which it stops, if one is known; or what it stops with, or why it is not judged."""
        if (why := self._why_not_judged(result.name, outcome, source)) is not None:
            result.verdict, result.problem = why
            return result
        finding, error = self.stopped.why(value, outcome)
        if _asks_its_model(outcome.error, finding, error):
            result.verdict = foreign.ONE_WORD if writing.chooses_one(value) else foreign.OF_ITS_MODEL
            return result
        is_own = finding is not None and (_stops_in(error, value) or of_its_forward(value) is not None)
        part = None if is_own else self.stopped.part_at_fault(error, value, outcome)
        if part is not None:
            finding, result.inherited = None, [self.stopped.broken[part]]  # it is said of the part
        absent = sorts.not_run(error) or (not_there.computes_with_absent(value) if isinstance(value, type) else "")
        if finding is None and part is None and absent:
            result.verdict = absent
            return result
        if finding is not None:
            also = _before_its_forward(finding, outcome, value)
            error = outcome.error if also else error  # nobody comes to call it
            later = later_stops.finding(value, finding.evidence) if is_own and outcome.stage == "built" else None
            told = (*also, finding, *([later] if later is not None and finding.mistake.id == RUNS else ()))
            result.mistakes = [located(one, value, source, outcome.made) for one in told]
        result.unreported = self.elsewhere.unreported(result.inherited)
        result.problem = outcome.problem if error is outcome.error else raised("its forward", error)
        result.problem = _in_cells(result.problem, source)
        if part is not None or (finding is not None and finding.severity == "mistake"):
            result.verdict = "mistake"
            result.limits.append(NOT_JUDGED)
        else:
            result.verdict = "could not be built" if outcome.stage == "built" else "crashed"
            result.stub = stubs.stub(_of_both_sides(value, outcome.kind), result.name, source.module)
        return result

    def _why_not_judged(self, name: str, outcome: Outcome, source: Source) -> tuple[str, str] | None:
        """The verdict on an exercise that is not written yet, or on what lacks what it needs; and what it says."""
        error = outcome.error
        if isinstance(error, NotImplementedError):  # an exercise as it was handed out
            return foreign.NOT_WRITTEN, str(error)
        if absent := not_there.lacks(error):
            return absent, outcome.problem
        if "next_logits" not in outcome.kind.inputs or self.only == name:
            return None
        if outcome.unknown:
            return foreign.NOT_ALONE.format(", ".join(outcome.unknown)), ""
        heard = [error, *(self.library.heard.values() if OF_TEXTS.search(str(error)) else ())]
        lacking = next((one for one in heard if _lacks(one, source)), None)
        return (not_there.not_loaded(lacking), "") if lacking is not None else None


def _in_cells(problem: str, source: Source) -> str:
    """With the cell in place of the line of all cells together: (notes.ipynb, cell 3, line 2: …)."""
    place = re.compile(rf"\({re.escape(Path(source.path).name)}:(\d+): ")
    return place.sub(lambda found: f"({source.where(int(found[1]))}: ", problem)


def _asks_its_model(first: BaseException | None, finding: Finding | None, error: BaseException | None) -> bool:
    """Whether it stops as the model that it is given for its own lacks something; not if that is nowhere in its file.

    finding, error: why it stops, whatever it stopped with first.
    """
    asked = read_in_vain(error)[0] if finding is not None and error is not None else ""
    return is_asked_in_vain(first) and not isinstance(first, NameError) and asked != ToyModel.__name__


def add_what_shows(result: Result, value: Any, outcome: Outcome, source: Source) -> None:
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


def _of_both_sides(value: Any, kind: Kind) -> Kind:
    """What is to be filled in: of what was tried as a decoder and takes the ids of both languages, the whole."""
    names = [{*words(p.name)} for p in parameters_of(getattr(value, "forward", value))]
    takes_both = all(any(side & name and IDS & name for name in names) for side in (SOURCE, TARGET))
    return KINDS["Transformer"] if takes_both and kind.name in ("DecoderOnly", "TokenDecoder") else kind


def _before_its_forward(finding: Finding, outcome: Outcome, value: Any) -> list[Finding]:
    """The mistake with which the constructor stops already of a class of which another is told: it has no forward."""
    error = outcome.error if outcome.stage == "built" and no_forward.finding(value) is not None else None
    own = learners_frame(error)
    made = getattr(vars(value).get("__init__"), "__code__", None)
    first = crash_finding(error) if isinstance(error, Exception) and own and own.f_code is made else None
    return [first] if first is not None and first.evidence != finding.evidence else []


def _stops_in(error: BaseException | None, value: Any) -> bool:
    """Whether something stops in a class's own code, and in none of its parts, which may stop as well."""
    own = [getattr(getattr(member, "__func__", member), "__code__", None) for member in vars(value).values()]
    frames = frames_of(error)
    if isinstance(error, CalledOtherwise):  # in the reference, in whose place it is to stop
        frames = [frame for frame in frames if is_learners(frame)]
    return bool(frames) and frames[-1].f_code in filter(None, own)


def _lacks(error: BaseException | None, source: Source) -> bool:
    """Whether it stopped for what is not there: words of a vocabulary, a file, what a line that was left out makes."""
    is_there = not isinstance(error, (KeyError, FileNotFoundError)) and not hasattr(error, "placeholder")
    return not is_there or (type(error) is NameError and is_left_out(str(error.name), source))


def is_left_out(name: str, source: Source) -> bool:
    """Whether a line of the file, which could not be run, gives a name its value: EOS = vocabulary["<eos>"]."""
    return re.search(rf"^{re.escape(name)}\s*[:=]", source.text, re.MULTILINE) is not None
