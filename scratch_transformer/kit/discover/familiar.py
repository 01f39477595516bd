"""What everybody knows of absent packages: the base classes, outputs and activations that models are written with."""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable
from typing import Any

OUTPUT = re.compile(r"Output(With\w+)?$")


OTHERS = ("flax", "haiku", "equinox", "jax", "mlx", "mindspore", "paddle", "mxnet", "keras", "tensorflow", "sonnet")
"""Packages with modules of their own, which are none of PyTorch's."""


def named(name: str, package: str = "") -> Any:
    """A stand-in for what has this name in an absent package; None for what only that package knows."""
    if package in OTHERS:
        return None
    if name in CONTENTS:
        return CONTENTS[name]()
    return Output if OUTPUT.search(name) else None


class Output(dict[str, Any]):
    """What a model returns, by name: logits, loss. Read as output.logits or output["logits"]."""

    __getattr__ = dict.get
    __setattr__ = dict.__setitem__


class Mixin:
    """A base class beside torch.nn.Module's."""


class Config:
    """Hyperparameters as attributes."""

    use_return_dict = return_dict = True
    use_cache = output_attentions = output_hidden_states = tie_word_embeddings = is_decoder = False
    pad_token_id = 0

    def __init__(self, **options: Any) -> None:
        for name, value in options.items():
            setattr(self, name, value)


@functools.cache
def _module() -> type:
    import torch

    return torch.nn.Module


@functools.cache
def _lightning() -> type:
    """A module that keeps its hyperparameters as PyTorch Lightning's does, and trains nothing."""

    class LightningModule(_module()):  # type: ignore[misc]
        def save_hyperparameters(self, *names: str, **options: Any) -> None:
            frame = inspect.currentframe()
            given = dict(frame.f_back.f_locals) if frame and frame.f_back else {}
            self.hparams = types.SimpleNamespace(**{n: v for n, v in given.items() if n not in ("self", "__class__")})

        def log(self, *args: Any, **options: Any) -> None:
            pass

    return LightningModule


@functools.cache
def _pretrained() -> type:
    """A module that keeps its config."""

    class PreTrainedModel(_module()):  # type: ignore[misc]
        def __init__(self, config: Any = None, *args: Any, **options: Any) -> None:
            super().__init__()
            self.config = config

        def post_init(self) -> None:
            pass

        init_weights = tie_weights = post_init

    return PreTrainedModel


@functools.cache
def _activations() -> dict[str, Any]:
    from torch.nn import functional

    tanh = functools.partial(functional.gelu, approximate="tanh")
    return {
        **dict.fromkeys(("silu", "swish"), functional.silu),
        **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast"), tanh),
        "gelu": functional.gelu,
        "relu": functional.relu,
    }


@functools.cache
def _conv1d() -> type:
    """A linear layer whose weight is kept transposed."""
    import torch

    class Conv1D(torch.nn.Module):
        def __init__(self, nf: int, nx: int) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(nx, nf) * 0.02)
            self.bias = torch.nn.Parameter(torch.zeros(nf))

        def forward(self, x: Any) -> Any:
            return x @ self.weight + self.bias

    return Conv1D


CONTENTS: dict[str, Callable[[], Any]] = {
    "LightningModule": _lightning,
    "PreTrainedModel": _pretrained,
    **dict.fromkeys(("PretrainedConfig", "PreTrainedConfig"), lambda: Config),
    **dict.fromkeys(("GenerationMixin", "PyTorchModelHubMixin", "ModuleUtilsMixin"), lambda: Mixin),
    **dict.fromkeys(("Module", "Classifier"), _module),
    **dict.fromkeys(("gelu_new", "gelu_fast"), lambda: _activations()["gelu_new"]),
    "ACT2FN": _activations,
    "Conv1D": _conv1d,
}
