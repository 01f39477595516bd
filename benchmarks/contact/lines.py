"""The log of a first contact: a JSON object a line, flushed at once: whatever ends a step early loses nothing."""

import contextlib
import json
import os
from pathlib import Path


def folder():
    """Where results are kept."""
    return Path(os.environ.get("CONTACT_DIR", "first-contact"))


def note(kind, **facts):
    """One line in the log."""
    line = json.dumps({"kind": kind, **facts})
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(line + "\n")
    return line


def write(kind, **facts):
    """One line, in the log and on the screen."""
    print(note(kind, **facts), flush=True)


def read(kind=None):
    """All lines so far, or those of one kind; without what a machine that broke down left of its last one."""
    path, found = folder() / "log.jsonl", []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return [line for line in found if kind in (None, line["kind"])]


def shortened(text):
    """What an error says, in a line: its first and its last: compilers begin with where, and CUDA ends with advice."""
    found = [line.strip() for line in text.splitlines() if line.strip()] or ["nothing was said"]
    return " … ".join(dict.fromkeys((found[0], found[-1])))[:300]
