"""Files that are whole or not there, and readers that say what is wrong with one. Nothing is unpickled."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scratch_transformer.translation.errors import FULL, CannotWrite, InputError

if TYPE_CHECKING:
    from torch import Tensor

LEFT = 60
"""Seconds after which a folder that should have been renamed at once was left by a process that was killed."""


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file at once: after a crash at any moment there is the old file or the whole new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writing(path):
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the system says against writing there is said with the file's name.

    Raises:
        CannotWrite: the disk is full, or a limit is reached.
        InputError: it cannot be written for another reason.
    """
    try:
        yield
    except OSError as error:
        kind = CannotWrite if error.errno in FULL else InputError
        raise kind(f"cannot write {path}: {error.strerror or error}") from None


def new_beside(folder: Path) -> Path:
    """The name under which a folder is made before it gets its own; what a killed process left there is removed."""
    for kind in ("new", "old"):
        for left in folder.parent.glob(f".{kind}-{glob.escape(folder.name)}-*"):
            if _is_left(left):
                shutil.rmtree(left, ignore_errors=True)
    return folder.with_name(f".new-{folder.name}-{os.getpid()}")


def _is_left(folder: Path) -> bool:
    """Whether the process whose number ends the folder's name is gone, or should have been done with it long ago."""
    if (is_old := time.time() - folder.stat().st_mtime > LEFT) or os.name != "posix":  # elsewhere, signal 0 is a signal
        return is_old
    try:
        os.kill(int(folder.name.rpartition("-")[2]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError, ValueError):  # somebody else's, or no number
        pass
    return False


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time writes to a folder, where the system can say so; a lock ends with its process.

    Raises:
        InputError: another process has the folder.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(f"{folder}: another process trains there at this moment") from None
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        os.close(descriptor)


def remove_parts(folder: Path) -> None:
    """Remove what a killed `write_bytes` left."""
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)


def write_json(path: Path, document: Any) -> None:
    """`write_bytes` of JSON."""
    write_bytes(path, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())


def tensors_to_bytes(tensors: dict[str, Tensor]) -> bytes:
    """The content of a safetensors file."""
    from safetensors.torch import save

    content: bytes = save({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()})
    return content


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder survive a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_folder(folder: Path) -> None:
    """Remove a folder so that no half of it is ever seen under its name."""
    trash = folder.with_name(f".old-{folder.name}-{os.getpid()}")
    folder.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


def read_bytes(path: Path) -> bytes:
    """The content of a file.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def read_json(path: Path) -> Any:
    """The value of a JSON file.

    Raises:
        InputError: it cannot be read, or is not JSON.
    """
    content = read_bytes(path)
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:  # bytes that are not UTF-8, text that is not JSON
        raise InputError(f"{path}: expected JSON, got {error}") from None


def read_tensors(path: Path, sha256: str | None = None, device: str = "cpu") -> dict[str, Tensor]:
    """The tensors of a safetensors file; sha256: of the whole file, to notice any damage.

    Raises:
        InputError: the file is missing, damaged, or of another kind.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    check_digest(path, sha256)
    try:
        tensors: dict[str, Tensor] = load_file(path, device=device)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: expected a safetensors file, got {error}") from None
    return tensors


def check_digest(path: Path, sha256: str | None) -> None:
    """Notice a file that is missing or, if its SHA-256 is known, damaged.

    Raises:
        InputError: it is.
    """
    if not path.is_file():
        raise InputError(f"cannot read {path}: there is no such file")
    if sha256 is not None and digest(path) != sha256:
        raise InputError(
            f"{path}: is damaged or another file than the one that was saved: its checksum is not the same"
        )


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.hexdigest()
