"""Lesson 2, positions: right."""

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        position = torch.arange(max_len, dtype=torch.float64).unsqueeze(1)
        two_i = torch.arange(0, d_model, 2, dtype=torch.float64)
        angles = position / 10000 ** (two_i / d_model)
        table = torch.zeros(max_len, d_model, dtype=torch.float64)
        table[:, 0::2] = torch.sin(angles)
        table[:, 1::2] = torch.cos(angles)[:, : d_model // 2]
        self.register_buffer("table", table)

    def forward(self, x):
        length = x.shape[1]
        if length > len(self.table):
            raise ValueError(f"a sequence of {length} tokens is longer than max_len={len(self.table)}")
        return x + self.table[:length].to(x.dtype)
