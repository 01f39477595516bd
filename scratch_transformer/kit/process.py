"""The child process that runs a learner's code, and the watch over it: the parent survives whatever it does."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from scratch_transformer.kit.discover.installing import how_to_install
from scratch_transformer.kit.discover.sandbox import quiet_environment
from scratch_transformer.kit.discover.target import Source, Target
from scratch_transformer.kit.report.finding import FAILED, NOT_COMPARED, Report, Result, from_document

SILENCE, MOST_COMPUTED, LEAST_COMPUTED = 20.0, 60.0, 0.05
"""Seconds without an event after which the child is looked at; it is ended if it has computed more since its last event
than any component may with its parts, or hardly at all since the last look: a busy machine alone ends nothing."""
MOST_RESTARTS = 8
ROOT = str(Path(__file__).resolve().parents[2])
START = """
import sys
sys.path[:] = [{root!r}, *filter(None, sys.path)]
from scratch_transformer.kit.child import main
main()
"""
ADAPTER = "adapter:"
"""How the names of adapters begin, where others begin with a path."""
Progress = Callable[[str, int, int], None]


def check(
    target: Target, given: str, as_kind: str | None = None, init: dict[str, Any] | None = None,
    adapter: str | None = None, progress: Progress | None = None,
) -> Report:  # fmt: skip
    """Everything that is found out about a target. progress: called with (component, number, of how many)."""
    watch = _Watch(target, given, as_kind, init or {}, adapter, progress or (lambda *_: None))
    return watch.run()


class _Watch:
    def __init__(
        self, target: Target, given: str, as_kind: str | None, init: dict[str, Any], adapter: str | None,
        progress: Progress,
    ) -> None:  # fmt: skip
        self.job: dict[str, Any] = {
            "sources": [asdict(replace(source)) for source in target.sources],
            "only": target.only, "as_kind": as_kind, "init": init, "adapter": adapter,
            "skip": [], "done": [], "salvage": [],
        }  # fmt: skip
        self.names = {source.path: source for source in target.sources}
        self.report = Report(given)
        self.progress = progress
        self.current = ""
        self.loading = ""
        self.failure = ""
        self.total: list[str] = []
        self.slowness = 1.0

    def run(self) -> Report:
        for _ in range(MOST_RESTARTS):
            if self._once():
                break
        self.report.tidy()
        return self.report

    def _once(self) -> bool:
        """Runs the child until it is done (True) or dies; then what it died of is left out next time."""
        folder = tempfile.mkdtemp(prefix="check-")
        self.current = self.loading = self.failure = ""
        try:
            ended, code = self._listen(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if ended:
            return True
        why = "it was stopped after a long silence (an endless loop?)" if code is None else _death(code)
        if self.failure:
            why = f"the check itself failed: {self.failure}"
        if self.current:
            self._dead(self.current, why)
            return False
        source = self.names.get(self.loading)
        if self.failure:  # while a file was read
            where = f"{source.where(None)}: the" if source is not None else "The"
            self.report.problems.append(f"{where} check itself failed: {self.failure}")
            self.report.unheard = True
            self._leave_out(self.loading)
            return source is None or not self.job["sources"]
        if source is None or self.loading in self.job["salvage"]:
            self.report.problems.append(f"{_name(self.loading) or self.report.target}: {why}")
            self._leave_out(self.loading)
            return not self.job["sources"] or source is None
        self.report.problems.append(
            f"{source.where(None)}: importing it {_imported(code)}. Only its definitions are checked."
        )
        self.job["salvage"].append(self.loading)
        return False

    def _leave_out(self, path: str) -> None:
        """The other files are checked without it."""
        self.job["sources"] = [s for s in self.job["sources"] if s["path"] != path]

    def _dead(self, component: str, why: str) -> None:
        path, _, name = component.rpartition(":")
        verdict = FAILED if self.failure else "took too long" if "silence" in why else "crashed"
        self.report.unheard |= _is_lost_adapter(component, verdict)
        self.report.results.append(
            Result(
                name,
                self.names[path].where(None) if path in self.names else path,
                verdict=verdict,
                problem=f"While it was checked, {why}.",
            )
        )
        self.job["skip"].append(component)
        self.job["done"] += [name for name in self.total if name in self._finished]

    @property
    def _finished(self) -> set[str]:
        return set(self.job["done"])

    def _listen(self, folder: str) -> tuple[bool, int | None]:
        environment = {**os.environ, **quiet_environment(), "TMPDIR": folder, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-B", "-c", START.format(root=ROOT)]
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
        )  # fmt: skip
        lines: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(self.job) + "\n")
            process.stdin.close()
            return self._events(process, lines)
        except BrokenPipeError:
            return False, process.wait()
        finally:
            process.kill()
            process.wait()
            reader.join()

    def _events(self, process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> tuple[bool, int | None]:
        before = seen = _computed(process.pid)
        while True:
            try:
                line = lines.get(timeout=SILENCE)
            except queue.Empty:
                now = _computed(process.pid)
                if now - before > MOST_COMPUTED * self.slowness or now - seen < LEAST_COMPUTED:
                    return False, None
                seen = now
                continue
            before = seen = _computed(process.pid)
            if line is None:
                return False, process.wait()
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if self._handle(event):
                return True, 0

    def _handle(self, event: dict[str, Any]) -> bool:
        kind = event["event"]
        if kind == "speed":
            self.slowness = event["slowness"]
        elif kind == "loading":
            self.loading = event["path"]
        elif kind == "problem":
            ending = " Only its imports, definitions and constants were run." if event["salvaged"] else ""
            self.report.problems.append(f"{_name(event['path'])}: {event['text']}.{ending}")
            self.report.unheard |= event["path"] == self.job["adapter"]
        elif kind == "found":
            self.report.ignored += event["ignored"]
            file, said = _name(self.loading), "\n".join(self.report.problems)
            lacking = {name: how_to_install(name) for name in event["missing"]}
            self.report.problems += [
                f"{file}: {name} is not installed: {how}"
                for name, how in lacking.items()
                if f"not installed: {how} ({file}:" not in said
            ]
        elif kind == "components":
            self.loading, self.total = "", event["names"]
        elif kind == "start":
            self.current = event["component"]
            done = len(self.job["done"])
            self.progress(self.current.rpartition(":")[2], done, len(self.total))
        elif kind == "result":
            self.report.results.append(from_document(event["result"]))
            self.report.unheard |= _is_lost_adapter(event["component"], event["result"]["verdict"])
            self.job["done"].append(event["component"])
        elif kind == "failed":
            self.failure = event["error"]
        return bool(kind == "done")


def _computed(pid: int) -> float:
    """Seconds that a process has computed; where that cannot be seen, the time itself."""
    try:
        times = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic()


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout as events:
        for line in events:
            lines.put(line)
    lines.put(None)


def _is_lost_adapter(component: str, verdict: str) -> bool:
    """Whether it is an adapter that could not be compared with anything."""
    return component.startswith(ADAPTER) and verdict in NOT_COMPARED


def _name(path: str) -> str:
    return Path(path).name


def _death(code: int) -> str:
    if code < 0:
        return (
            f"Python itself crashed (signal {-code})" if code != -9 else "the process was ended, perhaps for its memory"
        )
    return f"the process ended by itself with exit status {code}"


def _imported(code: int | None) -> str:
    if code is None:
        return "did not end and was stopped: an endless loop, or training?"
    return f"ended the process (exit status {code})" if code >= 0 else "crashed Python itself"


__all__ = ["Source", "check"]
