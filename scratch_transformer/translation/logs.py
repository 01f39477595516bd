"""What a run tells while it trains: TensorBoard's curves, log.jsonl, a progress bar, and lines for people."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from scratch_transformer.translation.files import write_bytes, writing
from scratch_transformer.translation.validation import Result


class Log:
    """All of it, for the run in `folder`, from `step` on; what an interrupted run wrote after it is forgotten."""

    def __init__(self, folder: Path, step: int, steps: int, say: Callable[[str], object]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from torch.utils.tensorboard import SummaryWriter

        self.folder, self.excepthook = folder, threading.excepthook
        threading.excepthook = self._quiet
        with self._curves():
            self.tensorboard = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
        lines = (folder / "log.jsonl").read_bytes().splitlines() if (folder / "log.jsonl").exists() else []
        write_bytes(folder / "log.jsonl", b"".join(line + b"\n" for line in lines if _step_of(line) <= step))
        self.file = (folder / "log.jsonl").open("a", encoding="utf-8")
        console = Console(stderr=True)
        columns = (TextColumn("{task.description:26}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.bar = self.progress.add_task("training", completed=step, total=steps)
        self.progress.start()
        self.steps, self.tell = steps, say

    def trained(self, step: int, loss: float, lr: float, tokens_per_second: float) -> None:
        """The mean loss of the last steps."""
        self._write(step, {"loss": loss, "lr": lr})
        with self._curves():
            self.tensorboard.add_scalar("speed/target_tokens_per_second", tokens_per_second, step)
        self.progress.update(self.bar, completed=step, description=f"loss {loss:.3f}  {tokens_per_second:,.0f} tok/s")

    def validated(self, step: int, result: Result) -> None:
        """A validation: a line for people, and its samples."""
        numbers = {"validation_loss": result.loss, "validation_smoothed_loss": result.smoothed_loss}
        words = f"step {step} of {self.steps}: validation loss {result.loss:.4f}, perplexity {result.perplexity:.3f}"
        if result.scores:
            words += f", exact match {100 * result.scores['exact_match']:.1f} %, BLEU {result.scores['BLEU']:.1f}"
        self._write(step, {**numbers, **result.scores})
        marked = [f"    {'✓' if c == b else '✗'} {a}  →  {c}" for a, b, c in result.samples]
        self.say(words, *map(self._cut, marked))
        table = [f"| {a} | {b} | {c} |" for a, b, c in result.samples]
        head = ["| source | expected | translated |", "| --- | --- | --- |"]
        with self._curves():
            self.tensorboard.add_text("samples", "\n".join(head + table), step)

    def say(self, *lines: str) -> None:
        """Lines for people, in the place of the bar, which comes back below them."""
        self.progress.stop()
        for line in lines:
            self.tell(line)
        self.progress.start()

    def _cut(self, line: str) -> str:
        """What an untrained model says may be long: no more than the terminal's width of it."""
        width = self.progress.console.width
        return line if not self.progress.console.is_terminal or len(line) <= width else f"{line[: width - 1]}…"

    def close(self) -> None:
        self.progress.stop()
        with self._curves():
            self.tensorboard.close()
        with writing(self.folder / "log.jsonl"):
            self.file.close()
        threading.excepthook = self.excepthook

    def _write(self, step: int, numbers: dict[str, float]) -> None:
        with writing(self.folder / "log.jsonl"):
            self.file.write(json.dumps({"step": step, **numbers}) + "\n")
            self.file.flush()
        with self._curves():
            for name, value in numbers.items():
                self.tensorboard.add_scalar(f"curves/{name}", value, step)

    def _curves(self) -> AbstractContextManager[None]:
        return writing(self.folder / "tensorboard")

    def _quiet(self, failed: threading.ExceptHookArgs) -> None:
        """TensorBoard writes in a thread. What fails there is raised at the next call, and need not be printed too."""
        if not isinstance(failed.exc_value, OSError):
            self.excepthook(failed)


def _step_of(line: bytes) -> float:
    """The step of a line of the log; of a half-written one, never."""
    try:
        entry: Any = json.loads(line)
        return int(entry["step"])
    except (ValueError, TypeError, KeyError):
        return float("inf")
