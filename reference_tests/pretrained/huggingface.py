"""Hugging Face's own language models in float64: small, with random weights, all sizes distinct."""

from __future__ import annotations

import pytest
import torch

from reference_tests.small_language_model import drawn

# 2 layers; 6 heads for 3 or 2 of keys and values; widths that no other size equals
LLAMA_SIZES = {
    "vocab_size": 41, "hidden_size": 24, "intermediate_size": 34, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 3, "head_dim": 10, "max_position_embeddings": 50, "rms_norm_eps": 1e-3,
}  # fmt: skip
GPT2_SIZES = {
    "vocab_size": 41, "n_embd": 24, "n_inner": 34, "n_layer": 2, "n_head": 6, "n_positions": 50,
    "layer_norm_epsilon": 1e-3,
}  # fmt: skip
LLAMA3_SCALING = {
    "rope_type": "llama3", "rope_theta": 60.0, "factor": 5.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
    "original_max_position_embeddings": 40,
}  # fmt: skip
# name -> family, and what its config says besides the sizes
VARIANTS = {
    "gpt2": ("GPT2", {}),
    "gpt2-relu-untied": ("GPT2", {"activation_function": "relu", "tie_word_embeddings": False}),
    "llama2": ("Llama", {}),
    "llama2-as-many-keys": ("Llama", {"num_key_value_heads": None, "rope_parameters": {"rope_theta": 77.0}}),
    "llama3.1": ("Llama", {"rope_parameters": LLAMA3_SCALING}),
    "llama-linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 50.0}}),
    "llama-biases-tied": ("Llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "mistral": ("Mistral", {"sliding_window": None, "rope_parameters": {"rope_theta": 80.0}}),
    "qwen2": ("Qwen2", {"rope_parameters": {"rope_theta": 70.0}}),
    "qwen2-tied": ("Qwen2", {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"rope_parameters": {"rope_theta": 90.0}}),
    "qwen3-tied": ("Qwen3", {"num_key_value_heads": 2, "attention_bias": True, "tie_word_embeddings": True}),
}


class _Torch:
    """torch, in which what they compute in float32 whatever the model's dtype is computed in float64."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.fixture
def in_float64(monkeypatch):
    """Their RMSNorm and the angles of their rotary positions are float32: else 1e-7 would be the best to be seen."""
    from transformers import modeling_rope_utils
    from transformers.models.llama import modeling_llama
    from transformers.models.mistral import modeling_mistral
    from transformers.models.qwen2 import modeling_qwen2
    from transformers.models.qwen3 import modeling_qwen3

    for module in (modeling_rope_utils, modeling_llama, modeling_mistral, modeling_qwen2, modeling_qwen3):
        monkeypatch.setattr(module, "torch", _Torch())
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def build(variant):
    """The model, in evaluation mode, with every parameter drawn anew: no bias is zero, no norm the identity."""
    import transformers

    family, options = VARIANTS[variant]
    sizes = GPT2_SIZES if family == "GPT2" else LLAMA_SIZES
    config = getattr(transformers, f"{family}Config")(**sizes | options, pad_token_id=None, eos_token_id=None)
    model = getattr(transformers, "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM")(config)
    return drawn(model.double().eval())
