"""What is behind a stop (B26, LN8): where it has one repair alone, that is made in memory, and all is judged again.

The mistake stays the one that is named first, with the learner's own line and what should stand there.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scratch_transformer.kit.definitions import file_of, leads_to, names_in, text_of_file
from scratch_transformer.kit.discover.load import Loaded, load
from scratch_transformer.kit.discover.sandbox import Guard
from scratch_transformer.kit.discover.target import Source, find
from scratch_transformer.kit.judge.frames import STOPS_AT, in_one_line, learners_line, learners_place
from scratch_transformer.kit.judge.stops import bases, undefined, written_positions
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.repair import Repair, Undo, install, positions, repair_of, run, show
from scratch_transformer.kit.repair.edits import Edit, around, edited, shown
from scratch_transformer.kit.report.finding import FINE, Named, Result
from scratch_transformer.kit.results import Results
from scratch_transformer.kit.results.locating import and_lines, located, named

MOST = 4
"""Repairs of one component: some files have three misspellings in it."""
JUDGED = (*FINE, "mistake", "unknown mismatch")
Judge = Callable[[], Result | None]


@dataclass
class Made:
    """A repair that was made: of which class or function, the mistake as it is told, and as it was found."""

    repair: Repair
    owner: Any
    told: Named
    finding: Finding


class Behind:
    """results: of the check, with what stops. guard: of the sandbox."""

    def __init__(self, results: Results, guard: Guard | None) -> None:
        self.results, self.guard = results, guard
        self.made: list[Made] = []
        self.texts: dict[str, str] = {}
        """Of repaired files: what the learner wrote."""

    def now(self, source: Source) -> Source:
        """A source as its code runs now."""
        files = (file for file, before in self.texts.items() if before == source.text)
        return next((replace(source, text=text_of_file(file)) for file in files), source)

    def told(self, value: Any, source: Source, result: Result, judge: Judge) -> Result:
        """What is said of a component, with what is behind the lines at which it stops.

        judge: judges it again, as its code runs then.
        """
        judged, before = [result], [made for made in self.made if made.owner is value]
        mended = self._mend(value, source, lambda: judged.append(judge() or result))
        result, own = judged[len(mended)], [*before, *mended]
        self.made += mended
        self.results.stopped.raised.pop(value, None)  # with all that was computed until then
        result = self._with_repairs(self._behind(result, own, value), own, value, source)
        self._as_written(result.mistakes)
        return result

    def learned(self, part: type, judge: Callable[[], None]) -> None:
        """The same of a part of another file, which has no report of its own."""
        self.made += self._mend(part, Source(file_of(part), text_of_file(file_of(part))), judge)

    # ---- One repair ----

    def _mend(self, value: Any, source: Source, judge: Callable[[], None]) -> list[Made]:
        """Makes one repair after the other, as long as there is one. judge: looks what is so with it."""
        own: list[Made] = []
        while len(own) < MOST and (made := self._mended(value, source)) is not None:
            stop, undo = self._stop(value), self._install(made.repair)
            if undo is None:
                break
            before = self.results.stopped.forget(value)
            judge()
            is_there = value in self.results.stopped.raised and self._stop(value) == stop
            if is_there and self._mended(value, source) is None:
                undo()  # it was no repair: it stops there all the same
                self.results.stopped.remember(value, before)
                break
            own.append(made)
        return own

    def _install(self, repair: Repair) -> Undo | None:
        before, undo = text_of_file(repair.file), install(repair)
        if undo is not None:
            self.texts.setdefault(repair.file, before)
        return undo

    def _mended(self, value: Any, source: Source) -> Made | None:
        """The repair of what something stops with now."""
        error = self.results.stopped.raised.get(value)
        if error is None:
            return self._of_positions(value, source)
        return self._made(value, self.results.stopped.findings.get(value) or _seen(error), error, source)

    def _made(self, value: Any, finding: Finding | None, error: BaseException | None, source: Source) -> Made | None:
        repair = None
        with contextlib.suppress(Exception):  # a fault of the kit's own costs the repair, and not what is known already
            repair = repair_of(value, finding, error, self._defined) if finding is not None else None
        if finding is None or repair is None:
            return None
        finding = replace(finding, fix=repair.fix)
        if not repair.edits or finding.mistake.id == "LN8":  # a constructor is shown where it begins
            return Made(repair, value, located(finding, value, self.now(source)), finding)
        at = learners_place(error)[1]
        line = at if at in repair.lines else repair.lines[0]
        file = self.now(source)
        file = file if file.text == text_of_file(repair.file) else Source(repair.file, text_of_file(repair.file))
        told = named(finding, file, line, shown(file.text, line, repair.edits))
        self._as_written([told])
        told.fix += and_lines(sorted({edit.line for edit in repair.edits if edit.old} - {line}))
        whole = around(repair.file, line, outermost=True)
        owner = repair.namespace.get(getattr(whole, "name", ""))
        return Made(repair, owner, told, finding)

    def _defined(self, path: Path) -> dict[str, Any]:
        return {} if self.guard is None else vars(load(find(str(path)).sources[0], self.guard).module)

    def _stop(self, value: Any) -> tuple[str, int]:
        return learners_place(self.results.stopped.raised.get(value))

    def define(self, loaded: Loaded) -> None:
        """Defines classes that Python could not, where a word of their heads has one repair: class Norm(nn.module)."""
        path = loaded.source.path
        for node, error in [*loaded.undefined]:
            made = self._of_base(node, loaded) or self._made(None, _seen(error), error, loaded.source)
            text = edited(text_of_file(path), made.repair.edits) if made is not None else ""
            if not text and not hasattr(loaded.module, str(getattr(error, "name", ""))):  # of what is defined now
                continue
            with contextlib.suppress(Exception), self.guard.on() if self.guard else contextlib.nullcontext():
                cls = run(text or text_of_file(path), node, loaded)
                loaded.undefined.remove((node, error))
                if made is not None:
                    self.texts.setdefault(path, show(text, path))
                    self.made.append(replace(made, owner=cls))

    def _of_base(self, node: ast.ClassDef, loaded: Loaded) -> Made | None:
        """class Norm(nn.Module()), without the brackets."""
        source, namespace = self.now(loaded.source), vars(loaded.module)
        found = bases.finding(node, source.text, namespace)
        if found is None or not found[2]:
            return None
        finding, line, put = found
        edits = (Edit(line, 0, source.text.splitlines()[line - 1], put[0]),)
        repair = Repair(source.path, namespace, finding.fix, edits)
        return Made(repair, None, named(finding, source, line, put), finding)

    def _of_positions(self, value: Any, source: Source) -> Made | None:
        """Positions that are written out, and stop with any number of tokens but that with which it was judged."""
        found = written_positions.in_forward_of(value)
        repair = positions.of_found(value, found) if found is not None else None
        if found is None or repair is None:
            return None
        finding, line = replace(found.finding, fix=repair.fix), repair.lines[0]
        put = shown(text_of_file(repair.file), line, repair.edits)
        return Made(repair, value, named(finding, self.now(source), line, put), finding)

    # ---- What is said ----

    def _behind(self, result: Result, own: list[Made], value: Any) -> Result:
        """What was found with repairs, each mistake said to be behind them."""
        if not own:
            return result
        repaired = _repaired(own)
        for one in result.mistakes:
            one.evidence = f"{repaired}: {one.evidence}" if one.evidence else f"{repaired}, it is there."
        if result.verdict in FINE[:2]:
            result.limits.append(f"{repaired}, it {result.verdict}.")
        elif result.verdict in FINE:
            result.limits.append(f"{repaired}, what is left is harmless.")
        elif result.verdict == "unknown mismatch" or result.unexplained:
            result.limits.append(
                f"{repaired}, its numbers differ from those of {result.against} for a reason not found."
            )
        elif result.verdict not in JUDGED:
            result.limits.append(f"{repaired}, it was not judged: {result.problem or result.verdict}.")
        is_stopped = result.verdict not in FINE and value in self.results.stopped.findings
        stops = [*(made.told for made in own), *(result.mistakes if is_stopped else ())]
        result.mistakes = [*sorted(stops, key=lambda one: one.line), *(() if is_stopped else result.mistakes)]
        result.verdict, result.error, result.ordinary, result.unexplained = "mistake", None, None, False
        return result

    def _with_repairs(self, result: Result, own: list[Made], value: Any, source: Source) -> Result:
        """With the repairs that were made before, of itself and of its parts."""
        parts = leads_to(value) if self.made else []
        for made in self.made:
            if made in own or result.verdict not in (*JUDGED, "crashed", "could not be built"):
                continue
            if _reads_brought(value, made.repair):
                told = located(made.finding, value, self.now(source))
                result.mistakes, result.verdict = [told, *result.mistakes], "mistake"
            elif made.owner in parts and made.owner in self.results.elsewhere.learned:
                result.mistakes, result.verdict = [made.told, *result.mistakes], "mistake"
            elif made.owner in parts:
                result.unexplained |= result.verdict == "unknown mismatch"
                result.inherited, result.verdict = [*dict.fromkeys([*result.inherited, made.told.id])], "mistake"
        return result

    def _as_written(self, mistakes: list[Named]) -> None:
        """Shows the lines that the learner wrote, wherever repaired ones are shown."""
        for file, before in self.texts.items():
            pairs = zip(before.splitlines(), text_of_file(file).splitlines(), strict=False)
            changed = {n: (old.rstrip(), new.rstrip()) for n, (old, new) in enumerate(pairs, 1) if old != new}
            for one in mistakes if changed else ():
                pairs_of = [(code, changed.get(number)) for number, code in enumerate(one.code, one.first)]
                one.code = [pair[0] if pair and pair[1] == code else code for code, pair in pairs_of]


def _seen(error: BaseException | None) -> Finding | None:
    """B26 of what something raises, if it is repaired: what it asks for is not there."""
    found, name = undefined.finding(error), getattr(error, "name", None)
    if found is not None or not isinstance(error, AttributeError) or not name:
        return found
    return Finding(MISTAKES["B26"], f"{in_one_line(error)}. {STOPS_AT}{learners_line(error)}", str(name))


def _repaired(own: list[Made]) -> str:
    """With what something was judged: "With lines 12 and 14 repaired"; of notebooks, "With cell 3, line 2 repaired"."""
    cells = [made.told.where.partition(", ")[2] for made in own if made.repair.edits]
    lines = [*dict.fromkeys(str(made.told.line) for made in own if made.repair.edits)]
    if any(cells):
        return f"With {' and '.join(dict.fromkeys(cells))} repaired"
    brought = [name for made in own for name in made.repair.brought]
    some = [f"line{'s' if len(lines) > 1 else ''} {' and '.join(lines)} repaired"] if lines else []
    some += [f"{' and '.join(brought)} imported"] if brought else []
    return f"With {' and '.join(some)}"


def _reads_brought(value: Any, repair: Repair) -> bool:
    is_there = getattr(value, "__module__", "") == repair.namespace.get("__name__")
    return is_there and bool(names_in(value) & repair.brought.keys())
