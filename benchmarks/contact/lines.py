"""The log of a first contact: a JSON object a line, flushed at once: whatever ends a step early loses nothing."""

import json
import os
from pathlib import Path


def folder():
    """Where results are kept."""
    return Path(os.environ.get("CONTACT_DIR", "first-contact"))


def write(kind, **facts):
    """One line, in the log and on the screen."""
    line = json.dumps({"kind": kind, **facts})
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(line + "\n")
    print(line, flush=True)


def read(kind=None):
    """All lines so far, or those of one kind."""
    path = folder() / "log.jsonl"
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return [line for line in found if kind in (None, line["kind"])]
