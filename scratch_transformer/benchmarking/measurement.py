"""A single measurement, kept: what was measured, when and where, as a dated file beside those of `bench`.

    with measurement.kept("profile of tiled attention", folder) as values:
        values["share"] = 0.81

A page of the documentation reads it, so that no number on it is typed.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scratch_transformer.benchmarking.machine import surroundings
from scratch_transformer.benchmarking.others import Watch

SCHEMA = "scratch_transformer measurement"


@contextlib.contextmanager
def kept(
    subject: str, folder: str | Path | None, device: str = "cpu", by_parts: bool = False
) -> Iterator[dict[str, Any]]:
    """Values to be filled in; afterwards they are in the folder, under date and subject; without one, nowhere.

    by_parts: beside those of the same day that are there already.
    """
    watch, values = Watch(), dict[str, Any]()
    if by_parts and folder is not None:
        values |= _of_today(subject, Path(folder))
    yield values
    if folder is not None and values:
        document = describe(subject, values, watch, device)
        path = Path(folder) / file_name(document)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)


def _of_today(subject: str, folder: Path) -> dict[str, Any]:
    """The values of a subject that the folder has for this day."""
    before = latest(subject, folder)
    return before["values"] if before and before["date"][:10] == _now()[:10] else {}


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def describe(subject: str, values: Any, watch: Watch, device: str = "cpu") -> dict[str, Any]:
    """The document of a measurement."""
    return {
        "schema": SCHEMA,
        "subject": subject,
        "date": _now(),
        "environment": surroundings(device) | {"used by others": round(watch.others(), 2)},
        "values": values,
    }


def file_name(document: dict[str, Any]) -> str:
    """2026-11-22-profile-of-tiled-attention.json."""
    words = f"{document['date'][:10]} {document['subject']}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") + ".json"


def latest(subject: str, folder: Path) -> dict[str, Any] | None:
    """The newest document of a subject in a folder, or None."""
    return next(iter(every(subject, folder)), None)


def every(subject: str, folder: Path) -> list[dict[str, Any]]:
    """The documents of a subject in a folder, the newest first."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    of_subject = [d for d in documents if d.get("schema") == SCHEMA and d["subject"] == subject]
    return sorted(of_subject, key=lambda d: d["date"], reverse=True)
