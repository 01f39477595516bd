"""The rename tables between the tensors of GPT-2, Llama, Mistral, Qwen 2, Qwen 3 and ours.

Nothing is computed: tensors are renamed. GPT-2 alone stores its matrices transposed, (in, out), and the three
projections of its attention side by side in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from scratch_transformer.language_model import Config
from scratch_transformer.pretrained.names import shortened


class Source(NamedTuple):
    """Where a parameter is: the tensor's name, whether it is transposed, and which third of its last dimension."""

    name: str
    is_transposed: bool = False
    third: int | None = None

    def of(self, tensor: Tensor) -> Tensor:
        part = tensor if self.third is None else tensor.chunk(3, dim=-1)[self.third]
        return part.T if self.is_transposed else part


LLAMA_BLOCK: dict[str, Source] = {
    "attention_norm.weight": Source("input_layernorm.weight"),
    "attention.q_proj.weight": Source("self_attn.q_proj.weight"),
    "attention.k_proj.weight": Source("self_attn.k_proj.weight"),
    "attention.v_proj.weight": Source("self_attn.v_proj.weight"),
    "attention.o_proj.weight": Source("self_attn.o_proj.weight"),
    "attention.q_proj.bias": Source("self_attn.q_proj.bias"),
    "attention.k_proj.bias": Source("self_attn.k_proj.bias"),
    "attention.v_proj.bias": Source("self_attn.v_proj.bias"),
    "attention.o_proj.bias": Source("self_attn.o_proj.bias"),
    "attention.q_norm.weight": Source("self_attn.q_norm.weight"),
    "attention.k_norm.weight": Source("self_attn.k_norm.weight"),
    "feed_forward_norm.weight": Source("post_attention_layernorm.weight"),
    "feed_forward.gate_proj.weight": Source("mlp.gate_proj.weight"),
    "feed_forward.up_proj.weight": Source("mlp.up_proj.weight"),
    "feed_forward.down_proj.weight": Source("mlp.down_proj.weight"),
    "feed_forward.gate_proj.bias": Source("mlp.gate_proj.bias"),
    "feed_forward.up_proj.bias": Source("mlp.up_proj.bias"),
    "feed_forward.down_proj.bias": Source("mlp.down_proj.bias"),
}
GPT2_BLOCK: dict[str, Source] = {
    "attention_norm.weight": Source("ln_1.weight"),
    "attention_norm.bias": Source("ln_1.bias"),
    "attention.q_proj.weight": Source("attn.c_attn.weight", True, 0),
    "attention.k_proj.weight": Source("attn.c_attn.weight", True, 1),
    "attention.v_proj.weight": Source("attn.c_attn.weight", True, 2),
    "attention.o_proj.weight": Source("attn.c_proj.weight", True),
    "attention.q_proj.bias": Source("attn.c_attn.bias", False, 0),
    "attention.k_proj.bias": Source("attn.c_attn.bias", False, 1),
    "attention.v_proj.bias": Source("attn.c_attn.bias", False, 2),
    "attention.o_proj.bias": Source("attn.c_proj.bias"),
    "feed_forward_norm.weight": Source("ln_2.weight"),
    "feed_forward_norm.bias": Source("ln_2.bias"),
    "feed_forward.up_proj.weight": Source("mlp.c_fc.weight", True),
    "feed_forward.up_proj.bias": Source("mlp.c_fc.bias"),
    "feed_forward.down_proj.weight": Source("mlp.c_proj.weight", True),
    "feed_forward.down_proj.bias": Source("mlp.c_proj.bias"),
}
LLAMA_OUTSIDE = {
    "embedding.weight": Source("model.embed_tokens.weight"),
    "norm.weight": Source("model.norm.weight"),
    "head.weight": Source("lm_head.weight"),
}
GPT2_OUTSIDE = {
    "embedding.weight": Source("transformer.wte.weight"),
    "positions.weight": Source("transformer.wpe.weight"),
    "norm.weight": Source("transformer.ln_f.weight"),
    "norm.bias": Source("transformer.ln_f.bias"),
    "head.weight": Source("lm_head.weight"),
}
# Constants that older versions kept in the file: causal masks, and the frequencies of rotary positions.
CONSTANTS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")


def rename_table(family: str, config: Config) -> dict[str, Source]:
    """The whole table of a model: our name -> where it is."""
    is_gpt2 = family == "gpt2"  # the others have Llama's names
    outside, block = (GPT2_OUTSIDE, GPT2_BLOCK) if is_gpt2 else (LLAMA_OUTSIDE, LLAMA_BLOCK)
    prefix = "transformer.h" if is_gpt2 else "model.layers"
    absent = [part for part, is_there in _optional(config).items() if not is_there]
    blocks = {
        f"blocks.{i}.{ours}": source._replace(name=f"{prefix}.{i}.{source.name}")
        for i in range(config.num_layers)
        for ours, source in block.items()
    }
    return {ours: source for ours, source in (outside | blocks).items() if not any(part in ours for part in absent)}


def _optional(config: Config) -> dict[str, bool]:
    """Parts of our names, and whether this model has what they name."""
    return {
        "head.": not config.tie_embeddings,
        "_norm.bias": config.norm == "layer",
        "attention.q_norm": config.query_key_norm,
        "attention.k_norm": config.query_key_norm,
        **{f"attention.{name}_proj.bias": config.bias for name in "qkv"},
        "attention.o_proj.bias": config.bias if config.output_bias is None else config.output_bias,
        **{f"feed_forward.{name}_proj.bias": config.feed_forward_bias for name in ("gate", "up", "down")},
    }


def renamed(family: str, config: Config, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Hugging Face's `state_dict` under our names, ready for `LanguageModel.load_state_dict(strict=True)`.

    Raises:
        ValueError: a tensor is missing or unknown, or the head is tied to the embedding and yet another matrix.
    """
    state = _normalized(family, config, state)
    table = rename_table(family, config)
    expected = {source.name for source in table.values()}
    missing, unknown = sorted(expected - set(state)), sorted(set(state) - expected)
    if missing or unknown:
        raise ValueError(
            f"not the tensors of a {family} of {config.num_layers} layers: missing {shortened(missing)}; "
            f"unknown {shortened(unknown)}"
        )
    return {ours: source.of(state[source.name]) for ours, source in table.items()}


def _normalized(family: str, config: Config, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without constants, with the prefix that a model without its head lacks, and without a head that is tied."""
    prefix = "transformer." if family == "gpt2" else "model."
    named = {
        name if name.startswith(prefix) or name == "lm_head.weight" else prefix + name: tensor
        for name, tensor in state.items()
        if not name.endswith(CONSTANTS)
    }
    embedding = named.get(rename_table(family, config)["embedding.weight"].name)
    head = named.pop("lm_head.weight", None) if config.tie_embeddings else None
    if head is not None and embedding is not None and not head.equal(embedding):
        raise ValueError("lm_head.weight differs from the embedding, but config.json says tie_word_embeddings")
    return named
