"""A loss for logits (B, T, V) alone and rotations with the positions of every sentence."""

import torch
import torch.nn as nn


class LabelSmoothingLoss(nn.Module):
    def __init__(self, smoothing=0.1):
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits, target):
        B, T, V = logits.shape
        log_probs = logits.log_softmax(-1)
        right = -log_probs.gather(-1, target[:, :, None]).squeeze(-1)
        return ((1 - self.smoothing) * right - self.smoothing * log_probs.mean(-1)).mean()


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, x, position_ids):
        B, L = position_ids.shape
        angles = position_ids.view(B, L, 1) * self.inv_freq
        angles = torch.cat((angles, angles), -1)[:, None]
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()
