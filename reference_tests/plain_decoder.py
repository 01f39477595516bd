"""GPT-2, Llama and Qwen 3 as published, on torch's own functions: what `language_model` is tested against.

Straight from the parameters by their names, with nothing of this package. Rotary turns are products of complex numbers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

ACTIVATIONS = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu, "silu": F.silu}


def logits(config, state, ids, positions=None, mask=None):
    """ids (B, L) -> (B, L, V). positions: (B, L) or (L,). mask: boolean (B, 1, L, L), without the future's blocks."""
    c, L = config, ids.shape[1]
    positions = torch.arange(L) if positions is None else positions
    allowed = torch.ones(L, L, dtype=torch.bool).tril()
    allowed = allowed if mask is None else allowed & mask
    x = F.embedding(ids, state["embedding.weight"])
    if c.positions == "learned":
        x = x + F.embedding(positions, state["positions.weight"])
    for i in range(c.num_layers):
        own = {name.removeprefix(f"blocks.{i}."): tensor for name, tensor in state.items()}
        x = x + attention(c, own, norm(c, own, "attention_norm", x), positions, allowed)
        x = x + feed_forward(c, own, norm(c, own, "feed_forward_norm", x))
    return F.linear(norm(c, state, "norm", x), state.get("head.weight", state["embedding.weight"]))


def norm(c, state, name, x):
    weight = state[f"{name}.weight"]
    if c.norm == "layer":
        return F.layer_norm(x, weight.shape, weight, state[f"{name}.bias"], c.norm_eps)
    return F.rms_norm(x, weight.shape, weight, c.norm_eps)


def linear(state, name, x):
    return F.linear(x, state[f"{name}.weight"], state.get(f"{name}.bias"))


def attention(c, state, x, positions, allowed):
    query, key, value = (
        linear(state, f"attention.{name}_proj", x).unflatten(-1, (heads, c.head_dim)).transpose(1, 2)
        for name, heads in (("q", c.num_heads), ("k", c.num_kv_heads), ("v", c.num_kv_heads))
    )
    if c.query_key_norm:
        query = F.rms_norm(query, (c.head_dim,), state["attention.q_norm.weight"], c.norm_eps)
        key = F.rms_norm(key, (c.head_dim,), state["attention.k_norm.weight"], c.norm_eps)
    if c.positions == "rotary":
        query, key = turned(c, query, positions), turned(c, key, positions)
    shared = c.num_heads // c.num_kv_heads
    key, value = key.repeat_interleave(shared, dim=1), value.repeat_interleave(shared, dim=1)
    heads = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
    return linear(state, "attention.o_proj", heads.transpose(1, 2).flatten(2))


def turned(c, x, positions):
    """Feature i and i + D/2 are a complex number, which turns by the position times base^(-2i/D), perhaps scaled."""
    D = c.head_dim
    frequencies = c.rope_base ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    if c.rope_scaling is not None:
        frequencies = torch.stack([scaled(c.rope_scaling, f) for f in frequencies])
    angles = positions.double()[..., None] * frequencies
    if angles.dim() == 3:
        angles = angles.unsqueeze(1)  # the same for all heads
    complex_x = torch.complex(x[..., : D // 2].contiguous(), x[..., D // 2 :].contiguous())
    y = complex_x * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([y.real, y.imag], dim=-1)


def scaled(s, frequency):
    """Llama 3.1: by wavelengths, as it was published."""
    if s.original_length is None:
        return frequency / s.factor
    wavelength = 2 * torch.pi / frequency
    if wavelength < s.original_length / s.high_frequency_factor:
        return frequency
    if wavelength > s.original_length / s.low_frequency_factor:
        return frequency / s.factor
    smooth = s.original_length / wavelength - s.low_frequency_factor
    smooth = smooth / (s.high_frequency_factor - s.low_frequency_factor)
    return (1 - smooth) * frequency / s.factor + smooth * frequency


def feed_forward(c, state, x):
    up = linear(state, "feed_forward.up_proj", x)
    if c.gated:
        up = ACTIVATIONS[c.activation](linear(state, "feed_forward.gate_proj", x)) * up
    else:
        up = ACTIVATIONS[c.activation](up)
    return linear(state, "feed_forward.down_proj", up)
