"""Our sampling against transformers' logits processors, in the order in which its `generate` applies them."""

from __future__ import annotations

import pytest
import torch

from scratch_transformer.generation import sampling

transformers = pytest.importorskip("transformers", reason="transformers is not installed: tox -e huggingface has it")

V = 3000
OPTIONS = [
    {},
    {"temperature": 0.6},
    {"top_k": 40},
    {"top_p": 0.7},
    {"min_p": 0.05},
    {"repetition_penalty": 1.4},
    {"temperature": 1.7, "top_k": 500, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 0.8},
]


def theirs(ids, logits, temperature=1.0, top_k=None, top_p=None, min_p=None, repetition_penalty=1.0):
    processors = [
        transformers.RepetitionPenaltyLogitsProcessor(repetition_penalty),
        transformers.TemperatureLogitsWarper(temperature),
        top_k and transformers.TopKLogitsWarper(top_k),
        top_p and transformers.TopPLogitsWarper(top_p),
        min_p and transformers.MinPLogitsWarper(min_p),
    ]
    for processor in filter(None, processors):
        logits = processor(ids, logits)
    return logits.softmax(-1)


def ours(ids, logits, temperature=1.0, top_k=None, top_p=None, min_p=None, repetition_penalty=1.0):
    seen = torch.zeros(logits.shape, dtype=torch.bool).scatter_(1, ids, True)
    logits = sampling.penalized(logits, seen, repetition_penalty)
    probabilities, tokens = sampling.truncated(logits, temperature, top_k, top_p, min_p)
    return torch.zeros_like(logits).scatter_(1, tokens, probabilities)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_probabilities_are_theirs(options):
    ids, logits = torch.randint(V, (4, 50)), torch.randn(4, V, dtype=torch.float64) * 3
    expected = theirs(ids, logits.clone(), **options)
    torch.testing.assert_close(ours(ids, logits, **options), expected, rtol=1e-12, atol=0)
    kept = (expected > 0).sum(-1)
    assert (kept == V).all() == (not {"top_k", "top_p", "min_p"} & options.keys())
