"""A Hugging Face `config.json` of GPT-2, Llama, Mistral, Qwen 2 or 3 as a `language_model.Config`; others are refused.

What a file does not say is what transformers takes for it: `DEFAULTS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scratch_transformer.functional import RotaryScaling
from scratch_transformer.language_model import Config
from scratch_transformer.pretrained.config import existing, read_json

LLAMA = {
    "vocab_size": "vocab_size",
    "max_length": "max_position_embeddings",
    "d_model": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "d_ff": "intermediate_size",
    "norm_eps": "rms_norm_eps",
    "activation": "hidden_act",
    "bias": "attention_bias",
    "tie_embeddings": "tie_word_embeddings",
}
# Family -> our field -> the name in config.json.
FIELDS: dict[str, dict[str, str]] = {
    "gpt2": {
        "vocab_size": "vocab_size",
        "max_length": "n_positions",
        "d_model": "n_embd",
        "num_layers": "n_layer",
        "num_heads": "n_head",
        "d_ff": "n_inner",
        "norm_eps": "layer_norm_epsilon",
        "activation": "activation_function",
        "tie_embeddings": "tie_word_embeddings",
    },
    "llama": LLAMA | {"feed_forward_bias": "mlp_bias"},
    "mistral": {ours: theirs for ours, theirs in LLAMA.items() if ours != "bias"},
    "qwen2": {ours: theirs for ours, theirs in LLAMA.items() if ours != "bias"},
    "qwen3": LLAMA,
}
# Where the file is silent or says null. Not here: sizes that must be there, or that follow from others.
DEFAULTS: dict[str, dict[str, Any]] = {
    "gpt2": {"layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "tie_word_embeddings": True},
    "llama": {
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": False, "rope_theta": 10_000.0,
    },
    "mistral": {
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "num_key_value_heads": 8, "tie_word_embeddings": False,
        "rope_theta": 10_000.0,
    },
    "qwen2": {
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "num_key_value_heads": 32, "tie_word_embeddings": False,
        "rope_theta": 10_000.0,
    },
    "qwen3": {
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": False, "head_dim": 128,
        "tie_word_embeddings": False, "rope_theta": 10_000.0,
    },
}  # fmt: skip
DERIVED = ("num_kv_heads", "head_dim", "d_ff")
# What each family must say where it says anything: the rest changes what is computed.
SUPPORTED: dict[str, dict[str, object]] = {
    "gpt2": {
        "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
    },
    "llama": {"partial_rotary_factor": 1.0, "sliding_window": None},
    "mistral": {"partial_rotary_factor": 1.0, "sliding_window": None},
    "qwen2": {"partial_rotary_factor": 1.0, "use_sliding_window": False},
    "qwen3": {"partial_rotary_factor": 1.0, "use_sliding_window": False},
}  # fmt: skip
IMPLIED: dict[str, dict[str, object]] = {"mistral": {"sliding_window": 4096}}
"""Of `SUPPORTED`, what a file means that does not name it."""
ACTIVATIONS = {
    "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu", "silu": "silu",
    "swish": "silu",
}  # fmt: skip
"""Hugging Face's names -> ours."""
SCALINGS = {
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor", "low_frequency_factor": "low_freq_factor", "high_frequency_factor": "high_freq_factor",
        "original_length": "original_max_position_embeddings",
    },
}  # fmt: skip
"""Of rotary positions: Hugging Face's type -> our name -> theirs."""
KINDS: dict[str, type] = {
    "norm_eps": float, "activation": str, "bias": bool, "feed_forward_bias": bool, "tie_embeddings": bool,
}  # fmt: skip
KIND_NAMES = {int: "a whole number", float: "a number", bool: "true or false", dict: "a table"}


def read_causal_config(folder: Path) -> tuple[str, Config]:
    """The family ("gpt2", "llama", "mistral", "qwen2" or "qwen3") and the settings of the model in `folder`.

    Raises:
        FileNotFoundError: there is no `config.json`.
        ValueError: it is not JSON, lacks a size, or asks for something that this model cannot do.
    """
    path = existing(folder / "config.json")
    values = read_json(path)
    family = values.get("model_type")
    if family not in FIELDS:
        raise ValueError(f"{path}: model_type is {family!r}; expected {', '.join(FIELDS)}")
    said = IMPLIED.get(family, {}) | values
    for key, value in SUPPORTED[family].items():
        if said.get(key, value) != value:
            raise ValueError(f"{path}: {key} is {said[key]!r}; only {value!r} is supported")
    if "quantization_config" in values:
        raise ValueError(f"{path}: quantized weights (quantization_config) are not supported")
    try:
        return family, _config(family, DEFAULTS[family] | {k: v for k, v in values.items() if v is not None})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _config(family: str, values: dict[str, Any]) -> Config:
    found = {}
    for ours, theirs in FIELDS[family].items():
        if theirs in values:
            found[ours] = _checked(theirs, values[theirs], KINDS.get(ours, int))
        elif ours not in DERIVED:
            raise ValueError(f"{theirs} is missing")
    if family == "gpt2":
        return Config.gpt2(**found)
    if family == "qwen2":  # biases of queries, keys and values alone, whatever the file says
        found |= {"bias": True, "output_bias": False}
    make = Config.qwen3 if family == "qwen3" else Config.llama
    return make(**{"num_kv_heads": found["num_heads"]} | found | _rotary(values))


def _checked(name: str, value: object, kind: type) -> Any:
    """The value of config.json's `name`, if it is of this kind."""
    if kind is str:
        if value not in ACTIVATIONS:
            raise ValueError(f"{name} is {value!r}; expected {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[str(value)]
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ValueError(f"{name} is {value!r}; expected {KIND_NAMES[kind]}")
    return value


def _rotary(values: dict[str, Any]) -> dict[str, Any]:
    """rope_base and rope_scaling, from `rope_parameters` or, as written before it, `rope_theta` and `rope_scaling`."""
    name = "rope_parameters" if "rope_parameters" in values else "rope_scaling"
    given = {"rope_theta": values["rope_theta"]} | _checked(name, values.get(name, {}), dict)
    base = _checked("rope_theta", given["rope_theta"], float)
    kind = given.get("rope_type", given.get("type", "default"))
    if kind == "default":
        return {"rope_base": base, "rope_scaling": None}
    if kind not in SCALINGS:
        raise ValueError(f"{name} has the type {kind!r}; expected default, {', '.join(SCALINGS)}")
    factors = {ours: _checked(theirs, given.get(theirs), float) for ours, theirs in SCALINGS[kind].items()}
    return {"rope_base": base, "rope_scaling": RotaryScaling(**factors)}
