"""Lesson 5, masks: right."""

import torch


def causal_mask(length):
    return torch.ones(length, length).tril().bool()


def padding_mask(ids, pad):
    return (ids != pad)[:, None, None, :]


def target_mask(ids, pad):
    return padding_mask(ids, pad) & causal_mask(ids.shape[1])
