"""Settings from a file: TOML, or the config.json of a run. The keys are those of config.json, section by section."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import read_bytes, read_json


def read(path: Path, kind: str) -> dict[str, Any]:
    """Settings named as `Config.replace` takes them: {"training.steps": 50}. kind: the format that one may name.

    Raises:
        InputError: the file cannot be read, has no sections with settings, or is of another format.
    """
    document = read_json(path) if path.suffix == ".json" else _toml(path)
    sections = {name: part for name, part in document.items() if name != "format"} if isinstance(document, dict) else {}
    if not sections or not all(isinstance(part, dict) for part in sections.values()):
        raise InputError(f"{path}: expected sections with settings, such as [training] and then steps = 600")
    if document.get("format", kind) != kind:
        raise InputError(f"{path}: has settings of {document['format']}, not of {kind}: expected another --task")
    return {f"{section}.{name}": value for section, part in sections.items() for name, value in part.items()}


def _toml(path: Path) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    content = read_bytes(path)
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except ValueError as error:  # not UTF-8, or not TOML
        raise InputError(f"{path}: expected TOML, got {error}") from None
