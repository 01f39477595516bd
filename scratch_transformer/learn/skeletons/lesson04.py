"""Lesson 4: attention.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

B sentences, h heads, T queries, S keys, d_k numbers in a query and in a key, d_v in a value.

Check it as often as you like:    scratch-transformer check lesson04.py
Stuck? One hint at a time:        scratch-transformer learn attention --hint
"""

import math

import torch


def attention(query, key, value, mask=None):
    """What every query takes from the values.

    query (B, h, T, d_k), key (B, h, S, d_k), value (B, h, S, d_v).
    mask: True = may attend, to be broadcast to (B, h, T, S); None = everything may be attended to.
    Returns (B, h, T, d_v).
    """
    raise NotImplementedError("not written yet: your code here")
