"""The settings of a model folder: read, and refused where they ask for another model than BERT's encoder."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What each file must say where it says anything; a key that is absent means this value.
SUPPORTED: dict[str, dict[str, object]] = {
    "config.json": {
        "model_type": "bert",
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    },
    "1_Pooling/config.json": {
        "pooling_mode_mean_tokens": True,
        "pooling_mode_cls_token": False,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
        "pooling_mode_weightedmean_tokens": False,
        "pooling_mode_lasttoken": False,
    },
    "sentence_bert_config.json": {"do_lower_case": False},
}
STEPS = ("Transformer", "Pooling", "Normalize")  # modules.json: any other step would change the result


@dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT encoder, under the names of Hugging Face's `config.json`."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float = 1e-12


def read_config(folder: Path) -> BertConfig:
    """The sizes from the folder's `config.json`, once `check_supported` has passed.

    Raises:
        FileNotFoundError: there is no `config.json`.
        ValueError: a file is not JSON, lacks a size, or asks for something unsupported.
    """
    path = existing(folder / "config.json")
    check_supported(folder)
    values = read_json(path)
    sizes = {field.name: values.get(field.name) for field in dataclasses.fields(BertConfig)}
    for name, size in sizes.items():
        kind = float if name == "layer_norm_eps" else int
        if type(size) is not kind or size <= 0:
            raise ValueError(f"{path}: {name} is {size!r}; expected a positive {kind.__name__}")
    config = BertConfig(**sizes)
    if config.hidden_size % config.num_attention_heads:
        raise ValueError(
            f"{path}: hidden_size {config.hidden_size} is not a multiple of "
            f"num_attention_heads {config.num_attention_heads}"
        )
    return config


def read_max_length(folder: Path, config: BertConfig) -> int:
    """How many tokens of a sentence the model was made for: `max_seq_length`, else all its positions."""
    path, longest = folder / "sentence_bert_config.json", config.max_position_embeddings
    length = (read_json(path) if path.exists() else {}).get("max_seq_length", longest)
    if type(length) is not int or not 2 < length <= longest:  # [CLS] and [SEP] take two
        raise ValueError(f"{path}: max_seq_length is {length!r}; expected a whole number from 3 to {longest}")
    return length


def check_supported(folder: Path) -> None:
    """Compares the settings in `folder` with `SUPPORTED` and `STEPS`.

    Raises:
        ValueError: a file asks for something else, or is not JSON.
    """
    for name, expected in SUPPORTED.items():
        found = read_json(folder / name) if (folder / name).exists() else {}
        for key, value in expected.items():
            if found.get(key, value) != value:
                raise ValueError(f"{folder / name}: {key} is {found[key]!r}; only {value!r} is supported")
    path = folder / "modules.json"
    for step in read_json(path, list) if path.exists() else []:
        kind = str(step.get("type") if isinstance(step, dict) else step)
        if kind.rpartition(".")[2] not in STEPS:
            raise ValueError(f"{path}: step {kind!r} is not supported, only {', '.join(STEPS)}")


def read_json(path: Path, kind: type = dict) -> Any:
    """The JSON value in `path`, which must be a `kind`.

    Raises:
        ValueError: it is not JSON, or another kind of value.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # bytes that are not UTF-8, text that is not JSON
        raise ValueError(f"{path}: expected JSON, got {error}") from error
    if not isinstance(value, kind):
        raise ValueError(f"{path}: expected a JSON {kind.__name__}, got a {type(value).__name__}")
    return value


def existing(path: Path) -> Path:
    """`path`, if a file is there.

    Raises:
        FileNotFoundError: there is none.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; a model folder needs config.json, model.safetensors, tokenizer.json")
    return path
