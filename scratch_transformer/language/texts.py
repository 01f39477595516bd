"""Documents to learn from: of files, or the chapters of Python's help; which are trained on and which are not."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from scratch_transformer.language.config import Data
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import read_bytes

ENDINGS = (".txt", ".md", ".rst")


@dataclass(frozen=True)
class Texts:
    """Three lists of documents without a part in common. where: in words, where they are from."""

    training: list[str]
    validation: list[str]
    held_out: list[str]
    where: str

    def fingerprint(self) -> str:
        """The same for the same documents in the same order: a resumed run must go on with these."""
        sha256 = hashlib.sha256()
        for part in (self.training, self.validation, self.held_out):
            for document in part:
                sha256.update(hashlib.sha256(document.encode()).digest())
            sha256.update(b"\n")
        return sha256.hexdigest()


def read(data: Data) -> Texts:
    """All documents; the last ones, as many as the shares say, are not trained on.

    Raises:
        InputError: they cannot be read, or are too few.
    """
    where = "the chapters of Python's help" if data.text is None else data.text
    rest = helps() if data.text is None else documents(data.text)
    held_out = documents(data.test) if data.test else []
    validation = documents(data.valid) if data.valid else []
    total = sum(map(len, rest))
    if not held_out:
        rest, held_out = split(rest, round(total * data.held_out))
    if not validation:
        rest, validation = split(rest, round(total * data.validation))
    for name, part in (("train on", rest), ("validate with", validation), ("hold out", held_out)):
        if not any(document.strip() for document in part):
            raise InputError(f"{where}: too short, there is nothing left to {name}: expected more text")
    return Texts(rest, validation, held_out, where)


def documents(path: str) -> list[str]:
    """The text of a file, or of every file of a folder and its folders, by name.

    Raises:
        InputError: one cannot be read or is not UTF-8, or a folder has none.
    """
    given = Path(path)
    files = [given]
    if given.is_dir():
        files = sorted(file for file in given.rglob("*") if file.suffix in ENDINGS and file.is_file())
        if not files:
            raise InputError(f"{path}: has no text: expected files that end with {', '.join(ENDINGS)}")
    return [_text(file) for file in files]


def helps() -> list[str]:
    """What `help("lambda")` and the like show, the reference of the language: a chapter each, by name."""
    from pydoc_data.topics import topics

    return [text for _, text in sorted(topics.items())]


def split(texts: list[str], length: int) -> tuple[list[str], list[str]]:
    """All but the last `length` characters or a little less, and these; a document is cut between two lines."""
    kept, rest = list(texts), length
    last: list[str] = []
    while kept and rest > 0:
        document = kept.pop()
        if len(document) <= rest:
            last.insert(0, document)
            rest -= len(document)
            continue
        cut = document.find("\n", len(document) - rest - 1) + 1 or len(document) - rest
        kept.append(document[:cut])
        if cut < len(document):
            last.insert(0, document[cut:])
        break
    return kept, last


def _text(file: Path) -> str:
    try:
        return read_bytes(file).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: expected UTF-8, got {error}") from None
