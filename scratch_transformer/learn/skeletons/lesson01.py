"""Lesson 1: embeddings.

    embedding(id) = √d_model · W[id]

W: the table, (vocab_size, d_model), learned: an nn.Parameter.

Check it as often as you like:    scratch-transformer check lesson01.py
Stuck? One hint at a time:        scratch-transformer learn embeddings --hint
"""

import math

import torch
from torch import nn


class InputEmbeddings(nn.Module):
    """A learned vector for every token, times √d_model."""

    def __init__(self, d_model, vocab_size):
        super().__init__()
        raise NotImplementedError("not written yet: your code here")

    def forward(self, ids):
        """ids: whole numbers, (B, T). Returns (B, T, d_model)."""
        raise NotImplementedError("not written yet: your code here")
