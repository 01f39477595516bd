"""Lesson 17, reading a kernel: right."""

import math

import torch


def split_attention(query, key, value, mask=None, splits=3):
    parts = [part(query, key, value, mask, slice(i, None, splits)) for i in range(splits)]
    highest = torch.stack([top for _, _, top in parts]).amax(0)
    safe = highest.masked_fill(highest == float("-inf"), 0)
    total, out = 0, 0
    for summed, weight, top in parts:
        share = (top - safe).exp()
        total = total + weight * share
        out = out + summed * share
    return out / total.masked_fill(total == 0, 1)


def part(query, key, value, mask, keys):
    scores = query @ key[..., keys, :].transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        full = mask.expand(*mask.shape[:-1], key.shape[-2])
        scores = scores.masked_fill(~full[..., keys], float("-inf"))
    top = scores.amax(-1, keepdim=True) if scores.shape[-1] else scores.new_full((*scores.shape[:-1], 1), float("-inf"))
    weights = (scores - top.masked_fill(top == float("-inf"), 0)).exp()
    return weights @ value[..., keys, :], weights.sum(-1, keepdim=True), top
