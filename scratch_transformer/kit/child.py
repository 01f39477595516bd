"""The child process: loads a learner's sources, resolves and diagnoses their components, and reports line by line.

It reads one line of JSON from its input, the job, and writes one line for each event. What the learner's code prints
goes to a file. Whatever happens here, the parent (process.py) survives it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from scratch_transformer.kit import clock
from scratch_transformer.kit.discover import sandbox
from scratch_transformer.kit.discover.target import Source, find

MEMORY_MB = 6000
Emit = Callable[..., None]


def main() -> None:
    """Runs the job that is given on standard input."""
    job = json.loads(sys.stdin.readline())
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    printed = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  # noqa: SIM115
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(printed.fileno(), 1)
    os.dup2(printed.fileno(), 2)

    def emit(event: str, **values: Any) -> None:
        events.write(json.dumps({"event": event, **values}) + "\n")
        events.flush()

    try:
        check(job, emit)
    except BaseException as error:
        emit("failed", error=f"{type(error).__name__}: {error}")
        raise
    emit("done")


def check(job: dict[str, Any], emit: Emit) -> None:
    """job: sources, only, as_kind, init, adapter, skip, done, salvage."""
    gc.disable()  # what is imported stays: to look through it for what can go takes a fifth of the time
    import torch

    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    from scratch_transformer.kit.checking import Checking  # before limits: it reads files

    gc.freeze()
    gc.enable()
    sys.argv = [job["sources"][0]["path"] if job["sources"] else "check"]
    emit("speed", slowness=clock.adjust())
    guard = sandbox.Guard(os.getcwd())
    sandbox.no_debugger()
    sandbox.limit_memory(MEMORY_MB)
    checking = Checking(job, guard, emit)
    for source in job["sources"]:
        made = Source(**{**source, "cells": tuple(map(tuple, source["cells"]))})
        emit("loading", path=made.path)
        checking.load(made, salvage=made.path in job["salvage"])
    if job["adapter"]:
        emit("loading", path=job["adapter"])
        checking.load_adapters(find(job["adapter"]).sources[0])
    checking.run()


if __name__ == "__main__":
    main()
