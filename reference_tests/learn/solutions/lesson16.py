"""Lesson 16, flash attention: right."""

import math

import torch


def flash_attention(query, key, value, mask=None, tile=4):
    B, h, T, D = query.shape
    S = key.shape[-2]
    out = query.new_zeros(B, h, T, value.shape[-1])
    total = query.new_zeros(B, h, T, 1)
    highest = query.new_full((B, h, T, 1), float("-inf"))
    for start in range(0, S, tile):
        keys = slice(start, start + tile)
        scores = query @ key[..., keys, :].transpose(-2, -1) / math.sqrt(D)
        if mask is not None:
            scores = scores.masked_fill(~mask.expand(B, h, T, S)[..., keys], float("-inf"))
        new = torch.maximum(highest, scores.amax(-1, keepdim=True))
        safe = new.masked_fill(new == float("-inf"), 0)
        weights = (scores - safe).exp()
        shrink = (highest - safe).exp()
        total = total * shrink + weights.sum(-1, keepdim=True)
        out = out * shrink + weights @ value[..., keys, :]
        highest = new
    return out / total.masked_fill(total == 0, 1)
