"""Lesson 12: the loss.

    loss = mean over the tokens that are no padding of   - Σ_c q_c log p_c

    p = softmax(logits),   q_c = (1 - ε) [c is the target] + ε / V

V: the number of classes. ε: label_smoothing.

Check it as often as you like:    scratch-transformer check lesson12.py
Stuck? One hint at a time:        scratch-transformer learn loss --hint
"""

import torch


def cross_entropy(logits, target, pad, label_smoothing=0.0):
    """logits (N, V), target (N,) whole numbers below V. Returns one number. Targets that are `pad` do not count."""
    raise NotImplementedError("not written yet: your code here")
