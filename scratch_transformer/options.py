"""What several commands' options have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import IO, Any, BinaryIO

import click

from scratch_transformer.translation.errors import FULL, InputError


class Device(click.ParamType):
    """A device that torch has, found out before anything is loaded."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The device's name as it is, or a usage error with torch's reason."""
        import torch

        try:
            float(torch.zeros(1, device=value))  # "meta" has tensors, but no numbers in them
        except (RuntimeError, AssertionError, ImportError) as error:  # AssertionError: a torch built without CUDA
            self.fail(f"{value}: {str(error).splitlines()[0]}", param, ctx)
        return value


BEAM = click.IntRange(1, 1000)
"""How many translations of a sentence can be looked for at once: more would fill the memory."""


def refuse_unwritable(*paths: str | os.PathLike[str] | None) -> None:
    """Raises a usage error for a file that cannot be written, before anything is computed."""
    from scratch_transformer.files import check_writable

    for path in paths:
        if path is None:
            continue
        try:
            check_writable(path)
        except OSError as error:
            raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from error


def eight_bits_on(device: str, is_wanted: bool) -> bool:
    """--int8, which is for a CPU.

    Raises:
        InputError: it is wanted on another device.
    """
    if is_wanted and not device.startswith("cpu"):
        raise InputError(f"--int8 is for --device cpu, but that is {device}")
    return is_wanted


class Refused(click.ClickException):
    """What the user can mend, in one line; exit status 2. Of torchrun's processes, a machine's first says it."""

    exit_code = 2

    def show(self, file: IO[str] | None = None) -> None:
        if os.environ.get("LOCAL_RANK", "0") == "0":
            super().show(file)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn the application's errors of input, and the system's, into one line and exit status 2."""
    try:
        yield
    except BrokenPipeError:  # nobody reads on, as in `| head -1`: click ends quietly
        raise
    except (InputError, OSError) as error:
        raise Refused(" ".join(in_words(error).split())) from error


def is_of_standard_output(error: BaseException) -> bool:
    """Whether there is no room for what a command prints: the system gives a name for every other file."""
    return isinstance(error, OSError) and error.errno in FULL and error.filename is None


def in_words(error: Exception) -> str:
    """An error with the file that it is about."""
    return "cannot write standard output: there is no room" if is_of_standard_output(error) else str(error)


# ---- Standard input, which may be closed ----


def is_at_a_terminal() -> bool:
    """Whether a person types."""
    return sys.stdin is not None and sys.stdin.isatty()


def standard_input() -> BinaryIO:
    """What is piped into a command."""
    return BytesIO() if sys.stdin is None else sys.stdin.buffer
