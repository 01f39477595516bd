"""Every setting of a run, checked: the dataclasses, the presets, and their form in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.fields import choice, number
from scratch_transformer.translation.settings import Settings

FORMAT = "scratch_transformer.translation/1"
WITH_BYTES = 260
"""The tokens of bytes, and the special ones."""


@dataclass(frozen=True)
class Data:
    """The pairs: of `tsv`, or of `source_file` and `target_file`, or of `hub`; of none: numbers in words.

    source, target: languages; of the numbers (any that num2words has), or of the hub's pair.
    below: numbers from 0 to below - 1. pairs: at most so many to train on, drawn at random; None: all,
    or 20,000 numbers.
    held_out, validation: pairs that are never trained on. Held-out ones are not looked at before the end; validation
    ones choose the best checkpoint. None: 1,000 and 500, but at most a tenth and a twentieth of all.
    valid, test: files like tsv, to validate with and to hold out, in place of pairs drawn from the others.
    on_disk: the training pairs are kept in files of the run's folder, as ids, and not in memory.
    max_length: tokens of a sentence with its end; overlong: what becomes of pairs with more. seed: of the split.
    """

    source: str = "en"
    target: str = "de"
    tsv: str | None = None
    source_file: str | None = None
    target_file: str | None = None
    hub: str | None = None
    valid: str | None = None
    test: str | None = None
    below: int = number(1_000_000, 10, 10**12)
    pairs: int | None = number(None, 1)
    held_out: int | None = number(None, 1)
    validation: int | None = number(None, 1)
    max_length: int = number(128, 4, 1_000_000)
    overlong: str = choice("drop", "truncate")
    on_disk: bool = False
    seed: int = number(0, 0, 2**63 - 1)


@dataclass(frozen=True)
class Tokens:
    """The vocabulary: kind of tokens, at most how many, and whether both languages share one.

    target_vocab_size: at most how many of the target's own; None: as many.
    byte_fallback: 256 of the tokens are the bytes, so that nothing is unknown; of bpe.
    file: a ready tokenizer.json of Hugging Face's library, in place of a vocabulary that is learned; target_file: the
    target's, where it has another.
    """

    kind: str = choice("bpe", "word", "char")
    vocab_size: int = number(120, 5, 10_000_000)
    target_vocab_size: int | None = number(None, 5, 10_000_000)
    shared: bool = False
    byte_fallback: bool = False
    file: str | None = None
    target_file: str | None = None


@dataclass(frozen=True)
class Model:
    """The arguments of `model.build_transformer`, under standard names.

    decoder_layers: None: as many as num_layers.
    """

    d_model: int = number(128, 2, 1_000_000)
    num_layers: int = number(2, 1, 10_000)
    decoder_layers: int | None = number(None, 1, 10_000)
    num_heads: int = number(4, 1)
    d_ff: int = number(256, 1, 10_000_000)
    dropout: float = number(0.0, 0, 1, below=True)
    norm: str = choice("pre", "post")
    positions: str = choice("sinusoidal", "learned")
    share_embeddings: str = choice("none", "target", "all")
    attention_bias: bool = True


@dataclass(frozen=True)
class Training:
    """How the model is trained. The defaults of Adam and the schedule's form are the paper's (section 5.3).

    batch_tokens: tokens of a language, padding included, in one optimizer step, over all processes. pool:
    batches whose pairs are sorted by length together, so that little is padding; None: all. accumulate: in how
    many pieces a process computes its share. Neither accumulate nor the number of processes changes the result, but
    for rounding (and the elements that dropout draws).
    schedule: of the learning rate after the warm-up; inverse_sqrt is the paper's, cosine ends at zero after `steps`.
    lr_factor: scales the schedule; its peak is lr_factor / √(d_model · warmup_steps).
    start: a run whose best weights and vocabularies are taken, in place of new ones.
    clip: largest norm of the gradient; 0: any. checkpoint_every: steps from one validation and checkpoint to the next.
    keep: the latest checkpoints that stay, besides the best. best: what the best has, the lowest loss of validation,
    smoothed as in training, or the highest score. patience: validations that are no better until the training ends
    early; 0: never. exact_match: validation pairs that are decoded; samples: how many of them are shown.
    """

    steps: int = number(600, 1, 99_999_999)
    batch_tokens: int = number(2048, 4)
    pool: int | None = number(8, 1)
    accumulate: int = number(1, 1)
    schedule: str = choice("inverse_sqrt", "cosine", "constant")
    warmup_steps: int = number(150, 1)
    lr_factor: float = number(0.3, 0, 1_000_000)
    beta1: float = number(0.9, 0, 1, below=True)
    beta2: float = number(0.98, 0, 1, below=True)
    eps: float = number(1e-9, 0, 1)
    label_smoothing: float = number(0.1, 0, 1, below=True)
    clip: float = number(1.0, 0)
    precision: str = choice("float32", "bfloat16")
    compile: bool = False
    engine: str = choice("ddp", "fsdp")
    workers: int = number(0, 0, 256)
    start: str | None = None
    seed: int = number(0, 0, 2**63 - 1)
    checkpoint_every: int = number(100, 1)
    keep: int = number(3, 1)
    best: str = choice("loss", "BLEU", "chrF", "exact_match")
    patience: int = number(0, 0)
    exact_match: int = number(200, 0)
    samples: int = number(3, 0)
    log_every: int = number(10, 1)


@dataclass(frozen=True)
class Config(Settings):
    """All settings of a run; saved as config.json in its folder."""

    format = FORMAT
    data: Data = Data()
    tokens: Tokens = Tokens()
    model: Model = Model()
    training: Training = Training()

    def check_together(self) -> None:
        """What no setting can say alone: raises InputError."""
        _check_together(self)


_PAPER = {"tokens.shared": True, "tokens.vocab_size": 37_000, "model.norm": "post", "model.share_embeddings": "all"}
_PAPER |= {"model.attention_bias": False, "model.num_layers": 6, "training.batch_tokens": 25_000, "training.clip": 0.0}
_PAPER |= {"training.warmup_steps": 4000, "training.lr_factor": 1.0, "training.checkpoint_every": 1000}
_BASE = {"model.d_model": 512, "model.num_heads": 8, "model.d_ff": 2048, "model.dropout": 0.1, "training.keep": 5}
_BIG = {"model.d_model": 1024, "model.num_heads": 16, "model.d_ff": 4096, "model.dropout": 0.3, "training.keep": 20}
_SHIPPED: dict[str, Any] = {
    "model.d_model": 64,
    "model.d_ff": 128,
    "training.steps": 1700,
    "training.warmup_steps": 200,
}
_SHIPPED |= {
    "data.pairs": 10_000,
    "tokens.target_vocab_size": 64,
    "training.lr_factor": 0.5,
    "training.exact_match": 0,
    "training.log_every": 50,
    "training.keep": 4,
    "training.pool": None,
}
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {},
    "shipped": _SHIPPED,
    "base": {**_PAPER, **_BASE, "training.steps": 100_000},
    "big": {**_PAPER, **_BIG, "training.steps": 300_000},
}
"""What differs from the defaults. shipped: the model that comes with the package, small enough to be looked into.
base, big: Vaswani et al. 2017, table 3 and section 5."""


def preset(name: str) -> Config:
    """The configuration "tiny" (the defaults: two minutes on two CPU cores), or another of `PRESETS`."""
    if name not in PRESETS:
        raise InputError(f"there is no preset {name!r}: expected one of {', '.join(PRESETS)}")
    return Config().replace(**PRESETS[name])


def _check_together(config: Config) -> None:
    """What no setting can say alone."""
    data, model = config.data, config.model
    given = [name for name in ("tsv", "hub") if getattr(data, name) is not None]
    given += ["source_file, target_file"] if data.source_file or data.target_file else []
    if data.hub is not None and not data.hub.strip():
        raise InputError(f"data.hub is {data.hub!r}: expected the name of a data set, or a folder")
    if len(given) > 1:
        raise InputError(f"the data are given twice, as {' and '.join(given)}: expected one of them")
    if (data.source_file is None) != (data.target_file is None):
        missing = "target_file" if data.target_file is None else "source_file"
        raise InputError(f"data.{missing} is missing: source_file and target_file belong together, line by line")
    if model.d_model % model.num_heads:
        raise InputError(f"model.d_model is {model.d_model}: expected a multiple of model.num_heads, {model.num_heads}")
    if model.share_embeddings == "all" and not config.tokens.shared:
        raise InputError(
            'model.share_embeddings is "all": expected tokens.shared=true, one vocabulary of both languages'
        )
    _check_tokens(config.tokens)
    t = config.training
    if t.best != "loss" and (t.exact_match == 0 or t.engine == "fsdp"):
        raise InputError(
            f"training.best is {t.best!r}, but no validation pair is decoded: expected training.exact_match of at "
            'least 1 and training.engine="ddp", or training.best="loss"'
        )
    if config.training.batch_tokens < data.max_length:
        raise InputError(
            f"training.batch_tokens is {config.training.batch_tokens}: expected at least data.max_length, "
            f"{data.max_length}, or the longest pair fits no batch"
        )


def _check_tokens(tokens: Tokens) -> None:
    if tokens.shared and (tokens.target_vocab_size is not None or tokens.target_file is not None):
        name = "target_file" if tokens.target_file else "target_vocab_size"
        raise InputError(f"tokens.{name} is for two vocabularies: expected tokens.shared=false, or none of it")
    if not tokens.shared and (tokens.file is None) != (tokens.target_file is None):
        raise InputError(
            "tokens.file and tokens.target_file belong together, a ready vocabulary for each language: expected both, "
            "or tokens.shared=true"
        )
    smallest = min(tokens.vocab_size, tokens.target_vocab_size or tokens.vocab_size)
    if tokens.byte_fallback and (tokens.kind != "bpe" or smallest <= WITH_BYTES):
        raise InputError(
            f'tokens.byte_fallback needs tokens.kind="bpe" and a vocabulary of more than {WITH_BYTES} tokens, 256 of '
            f"which are the bytes, but they are {tokens.kind!r} and {smallest}"
        )
