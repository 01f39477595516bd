"""A run's folder, as translation's (`translation.checkpoint`), with one vocabulary and held-out documents.

RUN/config.json, RUN/tokenizer.json, RUN/checkpoints/step-00000200/model.safetensors, ...
RUN/held_out.jsonl              the held-out documents, one JSON text a line
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from scratch_transformer import language_model
from scratch_transformer.language.config import Config
from scratch_transformer.language.vocabulary import Vocabulary
from scratch_transformer.language_model import LanguageModel
from scratch_transformer.translation import checkpoint
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import check_digest, read_bytes, read_json

TOKENIZER, HELD_OUT = "tokenizer.json", "held_out.jsonl"


@dataclass(frozen=True)
class Run:
    """A trained language model in evaluation mode, with its vocabulary and settings.

    weights: the folder that the weights are from.
    """

    folder: Path
    weights: Path
    config: Config
    model: LanguageModel
    tokenizer: Vocabulary

    def held_out(self) -> list[str]:
        """The documents that were kept from the training and from the choice of the best checkpoint."""
        path = self.folder / HELD_OUT
        try:
            found = [json.loads(line) for line in read_bytes(path).splitlines()]
        except (ValueError, RecursionError):
            found = [None]
        if not all(isinstance(document, str) for document in found):
            raise InputError(f"{path}: expected a JSON text on every line")
        return found


def is_run(path: str | Path) -> bool:
    """Whether a folder, or a checkpoint in it, is of a language model, and not of a model that translates."""
    file = checkpoint.run_of(Path(path)) / "config.json"
    document = read_json(file) if file.is_file() else None
    return isinstance(document, dict) and document.get("format") == Config.format


def load_run(path: str | Path, device: str = "cpu") -> Run:
    """The best model of a run, or that of one checkpoint: RUN/checkpoints/step-00000200.

    Raises:
        InputError: there is no run, or one of its files is missing, damaged, or of another kind.
    """
    given = Path(path)
    folder = checkpoint.run_of(given)
    config = read_config(folder)
    weights = given if given != folder or (given / "model.safetensors").is_file() else checkpoint.best(folder)
    vocabulary = read_vocabulary(folder, checkpoint.read_checksums(weights))
    model = build_model(config, vocabulary.vocab_size)
    checkpoint.load_weights(model, weights)
    return Run(folder, weights, config, model.to(device).eval(), vocabulary)


def read_config(folder: Path) -> Config:
    """The settings of the run in `folder`."""
    checkpoint.check_is_run(folder)
    return Config.from_json(read_json(folder / "config.json"), where=str(folder / "config.json"))


def read_vocabulary(folder: Path, checksums: dict[str, str]) -> Vocabulary:
    """The run's vocabulary: the one that the model was trained with, if its checksum is known."""
    check_digest(folder / TOKENIZER, checksums.get(TOKENIZER))
    return Vocabulary.load(folder / TOKENIZER)


def build_model(config: Config, vocab_size: int) -> LanguageModel:
    """The model of a configuration, freshly drawn.

    Raises:
        InputError: there is no memory for it.
    """
    m = config.model
    sizes = {
        "vocab_size": vocab_size, "max_length": m.max_length or config.data.length, "d_model": m.d_model,
        "num_layers": m.num_layers, "num_heads": m.num_heads, "num_kv_heads": m.num_kv_heads or m.num_heads,
        "head_dim": m.head_dim or m.d_model // m.num_heads, "d_ff": m.d_ff, "dropout": m.dropout,
        "tie_embeddings": m.tie_embeddings, "rope_base": m.rope_base,
    }  # fmt: skip
    family = getattr(language_model.Config, m.family)
    try:
        return LanguageModel(family(**sizes))
    except (MemoryError, RuntimeError) as error:  # torch's for the same, on CPU and GPU
        if "memory" not in str(error):
            raise
        sizes_in_words = f"model.d_model={m.d_model}, model.d_ff={m.d_ff} and model.num_layers={m.num_layers}"
        raise InputError(f"there is no memory for a model with {sizes_in_words}: expected less") from None
