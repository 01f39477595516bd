"""Lesson 15, decoding: right."""

import torch


def greedy_decode(next_logits, bos, eos, max_len):
    ids = [bos]
    while len(ids) < max_len:
        logits = next_logits(torch.tensor([ids]))
        ids.append(int(logits[0, -1].argmax()))
        if ids[-1] == eos:
            break
    return torch.tensor(ids)
