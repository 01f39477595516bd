"""Lesson 15: greedy decoding.

    start with [bos]; append the most probable next token, again and again; stop after eos, or at max_len tokens

Check it as often as you like:    scratch-transformer check lesson15.py
Stuck? One hint at a time:        scratch-transformer learn decoding --hint
"""

import torch


def greedy_decode(next_logits, bos, eos, max_len):
    """The ids that the model writes, as a tensor, from bos to eos, both included.

    next_logits: a function. It takes ids (1, T) and returns logits (1, T, V): at every place those of the next token.
    """
    raise NotImplementedError("not written yet: your code here")
