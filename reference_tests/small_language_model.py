"""Language models with random weights in float64, all sizes distinct, of every family."""

from __future__ import annotations

import torch

from scratch_transformer.functional import RotaryScaling
from scratch_transformer.language_model import Config, LanguageModel

B, L = 3, 7
SIZES = {
    "vocab_size": 41, "max_length": 30, "d_model": 24, "num_layers": 2, "num_heads": 6, "d_ff": 34, "norm_eps": 1e-3,
}  # fmt: skip
ROTARY = SIZES | {"num_kv_heads": 3, "head_dim": 10, "rope_base": 60.0, "tie_embeddings": False}
CONFIGS = {
    "gpt2": Config.gpt2(**SIZES),
    "gpt2-untied-exact-gelu": Config.gpt2(**SIZES, activation="gelu", tie_embeddings=False),
    "llama2": Config.llama(**ROTARY),
    "llama3.1": Config.llama(**ROTARY | {"rope_scaling": RotaryScaling(5.0, 1.0, 3.0, 40)}),
    "llama-linear": Config.llama(**ROTARY | {"rope_scaling": RotaryScaling(3.0), "num_kv_heads": 6}),
    "llama-biases-tied-gelu": Config.llama(
        **ROTARY | {"bias": True, "feed_forward_bias": True, "tie_embeddings": True, "activation": "gelu"}
    ),
    "qwen3": Config.qwen3(**ROTARY),
    "mixed": Config.qwen3(**ROTARY | {"norm": "layer", "positions": "learned", "gated": False, "activation": "relu"}),
}


def small_model(name, dtype=torch.float64):
    """In evaluation mode; no bias is zero, no norm the identity, and its texts differ."""
    return drawn(LanguageModel(CONFIGS[name]).to(dtype).eval())


def drawn(model):
    """The model with every parameter drawn anew."""
    generator = torch.Generator().manual_seed(1)  # always the same: what it generates is not always telling
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(std=0.1 if name.endswith("bias") else 0.6, generator=generator)
    return model


def padded_batch(vocab_size):
    """ids (B, L) and which of them are no padding: none, much on the left, a little on the left."""
    mask = torch.tensor([[1] * 7, [0] * 4 + [1] * 3, [0] + [1] * 6]).bool()
    return torch.randint(vocab_size, (B, L)), mask
