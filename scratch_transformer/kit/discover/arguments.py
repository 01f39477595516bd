"""Command lines of learners' programs: there is none here, so every option has its default."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def defaults() -> Iterator[None]:
    """In the block, parse_args() gives the options' defaults, None for what must be given."""
    before = argparse.ArgumentParser.parse_args, argparse.ArgumentParser.parse_known_args

    def parse_args(self: argparse.ArgumentParser, *given: Any, **options: Any) -> argparse.Namespace:
        return _with_defaults(self)

    def parse_known_args(
        self: argparse.ArgumentParser, *given: Any, **options: Any
    ) -> tuple[argparse.Namespace, list[str]]:
        return _with_defaults(self), []

    argparse.ArgumentParser.parse_args = parse_args  # type: ignore[method-assign, assignment]
    argparse.ArgumentParser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        argparse.ArgumentParser.parse_args, argparse.ArgumentParser.parse_known_args = before  # type: ignore[method-assign]


def _with_defaults(parser: argparse.ArgumentParser) -> argparse.Namespace:
    made = argparse.Namespace()
    for action in parser._actions:
        if action.dest != argparse.SUPPRESS and action.default != argparse.SUPPRESS:
            value = action.default
            if isinstance(value, str) and callable(action.type):
                with contextlib.suppress(Exception):  # the learner's own type
                    value = action.type(value)
            setattr(made, action.dest, value)
    for name, value in parser._defaults.items():
        setattr(made, name, value)
    return made
