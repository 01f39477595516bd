"""What several commands' options have in common."""

from __future__ import annotations

from typing import Any

import click


class Device(click.ParamType):
    """A device that torch has, found out before anything is loaded."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The device's name as it is, or a usage error with torch's reason."""
        import torch

        try:
            torch.zeros(1, device=value)
        except (RuntimeError, AssertionError) as error:  # AssertionError: a torch built without CUDA
            self.fail(f"{value}: {str(error).splitlines()[0]}", param, ctx)
        return value
