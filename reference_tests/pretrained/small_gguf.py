"""A small Llama in a GGUF file, as llama.cpp's converter would write it, and the folder of the same model."""

from __future__ import annotations

import torch

from reference_tests.small_language_model import small_model

TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [chr(ord("a") + i) for i in range(26)] + ["Ġ", "1", "2"]
TOKENS += ["th", "the", "Ġthe", "Ċ", "Ã", "¶"]
MERGES = ["t h", "th e", "Ġ the"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
NAMES = {
    "attention.q_proj": "attn_q", "attention.k_proj": "attn_k", "attention.v_proj": "attn_v",
    "attention.o_proj": "attn_output", "attention_norm": "attn_norm", "feed_forward_norm": "ffn_norm",
    "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down",
    "embedding": "token_embd", "norm": "output_norm", "head": "output",
}  # fmt: skip


def write(path, architecture="llama", pre="smollm", more=None, changes=lambda tensors: tensors):
    """The file, and the model that is in it."""
    import gguf

    model = small_model("llama2", torch.float32)
    c = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("Small")
    writer.add_context_length(c.max_length)
    writer.add_embedding_length(c.d_model)
    writer.add_block_count(c.num_layers)
    writer.add_feed_forward_length(c.d_ff)
    writer.add_head_count(c.num_heads)
    writer.add_head_count_kv(c.num_kv_heads)
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_rope_freq_base(c.rope_base)
    writer.add_layer_norm_rms_eps(c.norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    tokens = TOKENS + [f"<unused{i}>" for i in range(c.vocab_size - len(TOKENS))]
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (c.vocab_size - 3))
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for add, value in more or []:
        getattr(writer, add)(value)
    for name, tensor in changes(_theirs(model)).items():
        writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _theirs(model):
    found = {}
    for name, tensor in model.state_dict().items():
        stem, _, kind = name.rpartition(".")
        prefix = ""
        if stem.startswith("blocks."):
            _, i, stem = stem.split(".", 2)
            prefix = f"blk.{i}."
        if stem.endswith(("q_proj", "k_proj")):  # a pair: from D/2 apart to neighbours
            D = model.config.head_dim
            tensor = tensor.reshape(-1, 2, D // 2, tensor.shape[-1]).transpose(1, 2).reshape(tensor.shape)
        found[f"{prefix}{NAMES[stem]}.{kind}"] = tensor.contiguous()
    return found
