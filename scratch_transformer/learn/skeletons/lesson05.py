"""Lesson 5: masks.

    query i may attend to key j      if j ≤ i              (causal: no look at the future)
                                 and if j is no padding  (padding: nothing is there)

True = may attend.

Check it as often as you like:    scratch-transformer check lesson05.py
Stuck? One hint at a time:        scratch-transformer learn masks --hint
"""

import torch


def causal_mask(length):
    """(length, length), boolean: row i is True at the columns 0 … i."""
    raise NotImplementedError("not written yet: your code here")


def padding_mask(ids, pad):
    """ids (B, S) to (B, 1, 1, S), boolean: False where the id is `pad`. The same for all heads and all queries."""
    raise NotImplementedError("not written yet: your code here")


def target_mask(ids, pad):
    """ids (B, T) to (B, 1, T, T), boolean: True where both masks say True."""
    raise NotImplementedError("not written yet: your code here")
