"""A small BERT with random weights, as Hugging Face would write it, and BERT's own forward pass to compare with.

Everything is spelled out here under BERT's names, independent of the rename table under test.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from scratch_transformer.pretrained import BertConfig
from scratch_transformer.pretrained.files import INSTALL_READERS, INSTALL_WEIGHTS, WEIGHTS_PACKAGE

SIZES = BertConfig(
    vocab_size=29,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=11,
    type_vocab_size=2,
    layer_norm_eps=1e-12,
)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "the", "cat", "kitten", "dog", "sleeps", "runs", "naps", "house"]
WORDS += ["garden", "in", "near"]

needs_readers = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("safetensors", "tokenizers"))),
    reason=f"safetensors and tokenizers are not installed: {INSTALL_READERS}",
)
needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(WEIGHTS_PACKAGE) is None,
    reason=f"the pretrained weights are not installed: {INSTALL_WEIGHTS}",
)


def random_state(sizes: BertConfig = SIZES, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Every tensor of a `BertModel`, pooler included; no bias is zero and no LayerNorm the identity."""
    width, inner = sizes.hidden_size, sizes.intermediate_size
    linear = {"pooler.dense": (width, width)}
    norms = ["embeddings.LayerNorm"]
    for i in range(sizes.num_hidden_layers):
        layer = f"encoder.layer.{i}"
        linear |= {f"{layer}.attention.self.{name}": (width, width) for name in ("query", "key", "value")}
        linear |= {f"{layer}.attention.output.dense": (width, width)}
        linear |= {f"{layer}.intermediate.dense": (inner, width), f"{layer}.output.dense": (width, inner)}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    rows = {
        "word_embeddings": sizes.vocab_size,
        "position_embeddings": sizes.max_position_embeddings,
        "token_type_embeddings": sizes.type_vocab_size,
    }
    state = {f"embeddings.{name}.weight": torch.randn(count, width, dtype=dtype) for name, count in rows.items()}
    for name, shape in linear.items():
        state[f"{name}.weight"] = torch.randn(shape, dtype=dtype) / shape[1] ** 0.5
        state[f"{name}.bias"] = torch.randn(shape[0], dtype=dtype)
    for name in norms:
        state[f"{name}.weight"] = 1 + 0.3 * torch.randn(width, dtype=dtype)
        state[f"{name}.bias"] = torch.randn(width, dtype=dtype)
    state["embeddings.position_ids"] = torch.arange(sizes.max_position_embeddings)[None]
    return state


def bert_hidden_states(state: dict[str, Tensor], ids: Tensor, valid: Tensor, sizes: BertConfig = SIZES) -> Tensor:
    """The last hidden states (B, T, E) by BERT's definition, straight from BERT's tensors."""

    def dense(x: Tensor, name: str) -> Tensor:
        return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], sizes.layer_norm_eps)

    def heads(x: Tensor) -> Tensor:
        return x.unflatten(-1, (sizes.num_attention_heads, -1)).transpose(1, 2)  # (B, H, T, d_k)

    tables = {kind: state[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")}
    x = norm(tables["word"][ids] + tables["position"][: ids.shape[1]] + tables["token_type"][0], "embeddings.LayerNorm")
    for i in range(sizes.num_hidden_layers):
        layer, attention = f"encoder.layer.{i}", f"encoder.layer.{i}.attention"
        q, k, v = (heads(dense(x, f"{attention}.self.{name}")) for name in ("query", "key", "value"))
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=valid[:, None, None, :])
        context = context.transpose(1, 2).flatten(2)
        x = norm(x + dense(context, f"{attention}.output.dense"), f"{attention}.output.LayerNorm")
        x = norm(
            x + dense(F.gelu(dense(x, f"{layer}.intermediate.dense")), f"{layer}.output.dense"),
            f"{layer}.output.LayerNorm",
        )
    return x


def padded_batch(sizes: BertConfig = SIZES) -> tuple[Tensor, Tensor]:
    """Random ids (B, T) and which are real (B, T): padding on the right, on the left, and none."""
    valid = torch.tensor([[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]]).bool()
    return torch.randint(sizes.vocab_size, valid.shape), valid


def write_model(folder: Path, sizes: BertConfig = SIZES) -> dict[str, Tensor]:
    """Writes config.json, model.safetensors and tokenizer.json as a BERT sentence encoder has them."""
    from safetensors.torch import save_file

    state = random_state(sizes, dtype=torch.float32)
    save_file(state, folder / "model.safetensors")
    config = {"model_type": "bert", "hidden_act": "gelu", "pad_token_id": 0, **dataclasses.asdict(sizes)}
    (folder / "config.json").write_text(json.dumps(config))
    _word_tokenizer().save(str(folder / "tokenizer.json"))
    return state


def _word_tokenizer():
    """One token a word, with the fixed padding and truncation that published tokenizers often carry."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=5)
    return tokenizer
