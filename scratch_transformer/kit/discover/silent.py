"""Stand-ins for absent packages that report, draw or train: they do nothing, and models compute the same."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any


class Silent:
    """What reports, draws or trains, and does nothing here. As a decorator it leaves a function as it is."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *given: Any, **options: Any) -> Any:
        is_decorated = len(given) == 1 and not options and callable(given[0])
        return given[0] if is_decorated else self

    def __getitem__(self, key: Any) -> Silent:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()


def contents() -> dict[str, Any]:
    """Of a module: whatever it is asked for."""
    return {"__getattr__": functools.partial(getattr, Silent()), "__path__": []}


def tqdm() -> dict[str, Any]:
    """Bars that show nothing go through what they are given."""

    def through(iterable: Any = (), *given: Any, **options: Any) -> Any:
        return iterable

    ranged = {"trange": lambda *given, **options: range(*given)}
    return {"tqdm": through, "tqdm_notebook": through, **ranged, "__path__": []}


SILENT = {
    "absl", "alive_progress", "clearml", "colorama", "coloredlogs", "comet_ml", "dotenv", "fire", "gradio", "hydra",
    "icecream", "ipdb", "IPython", "ipywidgets", "loguru", "matplotlib", "mlflow", "neptune", "plotly", "prettytable",
    "pyrootutils", "rootutils", "seaborn", "streamlit", "swanlab", "tabulate", "tensorboard", "tensorboard_logger",
    "tensorboardX", "termcolor", "torchinfo", "torchsummary", "torchviz", "typer", "visdom", "wandb",
}  # fmt: skip
"""Packages without which a model computes the same."""


def without_profiler() -> None:
    """Ranges for a GPU's profiler are nothing where there is none: with nvtx.range("attention")."""
    import torch

    if not torch.cuda.is_available():
        torch.cuda.nvtx._nvtx = Silent()  # type: ignore[assignment]
