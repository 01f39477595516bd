"""Every setting of a language model's run, checked: the dataclasses, and their form in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.fields import choice, number
from scratch_transformer.translation.settings import Settings


@dataclass(frozen=True)
class Data:
    """The text: a file of UTF-8, or a folder, whose .txt, .md and .rst files are a document each.

    text: None: the chapters of Python's help, which come with Python. valid, test: the same to validate with and to
    hold out; None: the shares `validation` and `held_out` of the text, taken from its end.
    length: tokens of a sequence that is trained on. apart: no token looks at another document's.
    """

    text: str | None = None
    valid: str | None = None
    test: str | None = None
    validation: float = number(0.05, 0.0001, 0.5)
    held_out: float = number(0.05, 0.0001, 0.5)
    length: int = number(128, 2, 10_000_000)
    apart: bool = False


@dataclass(frozen=True)
class Tokens:
    """The vocabulary: pieces of words, learned from the text, and all bytes; at most vocab_size.

    file: a ready tokenizer.json of Hugging Face's library in its place.
    """

    vocab_size: int = number(1024, 257, 10_000_000)
    file: str | None = None


@dataclass(frozen=True)
class Model:
    """The choices and sizes of `language_model.Config`, under its names.

    family: whose choices. num_kv_heads: None: as many as num_heads. head_dim: None: d_model / num_heads.
    max_length: the longest text that the model has positions for; None: data.length.
    """

    family: str = choice("llama", "gpt2", "qwen3")
    d_model: int = number(128, 2, 1_000_000)
    num_layers: int = number(4, 1, 10_000)
    num_heads: int = number(4, 1)
    num_kv_heads: int | None = number(2, 1)
    head_dim: int | None = number(None, 1)
    d_ff: int = number(352, 1, 10_000_000)
    dropout: float = number(0.0, 0, 1, below=True)
    tie_embeddings: bool = True
    rope_base: float = number(10_000.0, 1)
    max_length: int | None = number(None, 2)


@dataclass(frozen=True)
class Training:
    """How the model is trained. What has translation's name is what it is there (`translation.config.Training`).

    start: a run whose best weights and vocabulary are taken, in place of new ones.
    batch_tokens: tokens in one step of the optimizer, over all processes. weight_decay: AdamW's, of matrices.
    """

    best: ClassVar[str] = "loss"

    start: str | None = None
    steps: int = number(300, 1, 99_999_999)
    batch_tokens: int = number(4096, 2)
    accumulate: int = number(1, 1)
    schedule: str = choice("cosine", "inverse_sqrt", "constant")
    warmup_steps: int = number(50, 1)
    lr_factor: float = number(0.3, 0, 1_000_000)
    beta1: float = number(0.9, 0, 1, below=True)
    beta2: float = number(0.95, 0, 1, below=True)
    eps: float = number(1e-8, 0, 1)
    weight_decay: float = number(0.1, 0, 1_000_000)
    clip: float = number(1.0, 0)
    precision: str = choice("float32", "bfloat16")
    compile: bool = False
    engine: str = choice("ddp", "fsdp")
    workers: int = number(0, 0, 256)
    seed: int = number(0, 0, 2**63 - 1)
    checkpoint_every: int = number(100, 1)
    keep: int = number(3, 1)
    patience: int = number(0, 0)
    log_every: int = number(10, 1)


@dataclass(frozen=True)
class Config(Settings):
    """All settings of a run; saved as config.json in its folder."""

    format = "scratch_transformer.language/1"

    data: Data = Data()
    tokens: Tokens = Tokens()
    model: Model = Model()
    training: Training = Training()

    def check_together(self) -> None:
        """What no setting can say alone: raises InputError."""
        data, model, training = self.data, self.model, self.training
        if training.batch_tokens < data.length:
            raise InputError(
                f"training.batch_tokens is {training.batch_tokens}: expected at least data.length, {data.length}, or "
                "no sequence fits a batch"
            )
        if model.max_length is not None and model.max_length < data.length:
            raise InputError(f"model.max_length is {model.max_length}: expected at least data.length, {data.length}")
        if model.head_dim is None and model.d_model % model.num_heads:
            raise InputError(
                f"model.d_model is {model.d_model}: expected a multiple of model.num_heads, {model.num_heads}, or "
                "model.head_dim"
            )
        if model.num_heads % (model.num_kv_heads or model.num_heads):
            raise InputError(
                f"model.num_kv_heads is {model.num_kv_heads}: expected a divisor of model.num_heads, {model.num_heads}"
            )
        width = model.head_dim or model.d_model // model.num_heads
        if model.family != "gpt2" and width % 2:
            raise InputError(f"the width of a head is {width}: expected an even one, whose features turn in pairs")


_SMALL: dict[str, Any] = {"model.d_model": 384, "model.num_layers": 6, "model.num_heads": 6, "model.d_ff": 1024}
_SMALL |= {"model.dropout": 0.2, "tokens.vocab_size": 4096, "data.length": 256, "training.batch_tokens": 16_384}
_SMALL |= {"training.steps": 2000, "training.warmup_steps": 100, "training.lr_factor": 0.2}
_GPT2: dict[str, Any] = {"model.family": "gpt2", "model.d_model": 768, "model.num_layers": 12, "model.num_heads": 12}
_GPT2 |= {"model.num_kv_heads": None, "model.d_ff": 3072, "tokens.vocab_size": 50_257, "data.length": 1024}
_GPT2 |= {"training.batch_tokens": 524_288, "training.accumulate": 16, "training.precision": "bfloat16"}
_GPT2 |= {"training.steps": 20_000, "training.warmup_steps": 700, "training.lr_factor": 0.44}
_GPT2 |= {"training.checkpoint_every": 1000}
PRESETS: dict[str, dict[str, Any]] = {"tiny": {}, "small": _SMALL, "gpt2": _GPT2}
"""What differs from the defaults. tiny: two minutes on two CPU cores. small: for one text and one GPU. gpt2: the sizes
of the smallest GPT-2 (Radford et al. 2019, table 2), half a million tokens a step, in pieces for one large GPU."""


def preset(name: str) -> Config:
    """The configuration "tiny" (the defaults), or another of `PRESETS`."""
    if name not in PRESETS:
        raise InputError(f"there is no preset {name!r} of a language model: expected one of {', '.join(PRESETS)}")
    return Config().replace(**PRESETS[name])
