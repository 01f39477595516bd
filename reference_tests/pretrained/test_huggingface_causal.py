"""Our language model against Hugging Face's own GPT-2, Llama and Qwen 3, read from the folder that they write.

In float64: logits, every gradient, and the tokens that both generate.
"""

from __future__ import annotations

import pytest
import torch

from reference_tests.pretrained.huggingface import VARIANTS, build, in_float64
from reference_tests.small_language_model import B, L, padded_batch
from scratch_transformer import nn
from scratch_transformer.generation import generate
from scratch_transformer.pretrained import from_pretrained
from scratch_transformer.pretrained.causal_names import rename_table

transformers = pytest.importorskip("transformers", reason="transformers is not installed: tox -e huggingface has it")
pytestmark = pytest.mark.usefixtures("in_float64")
__all__ = ["in_float64"]


@pytest.fixture(params=VARIANTS)
def pair(request, tmp_path):
    """Theirs, and ours as read from what theirs wrote."""
    theirs = build(request.param)
    theirs.save_pretrained(tmp_path)
    return theirs, from_pretrained(tmp_path, dtype=torch.float64)


def error(ours, expected):
    return ((ours - expected).norm() / expected.norm()).item()


def test_logits_are_theirs(pair):
    theirs, ours = pair
    ids = torch.randint(ours.config.vocab_size, (B, L))
    assert error(ours(ids), theirs(ids).logits) < 1e-12


def test_all_gradients_are_theirs(pair):
    theirs, ours = pair
    ids = torch.randint(ours.config.vocab_size, (B, L))
    weights = torch.randn(B, L, ours.config.vocab_size, dtype=torch.float64)
    for logits in (theirs(ids).logits, ours(ids)):
        (logits * weights).sum().backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters()}
    table = rename_table(theirs.config.model_type, ours.config)
    found = {name: parameter.grad for name, parameter in ours.named_parameters()}
    assert found.keys() == table.keys()
    total = torch.cat([g.flatten() for g in gradients.values()]).norm()
    for name, source in table.items():
        expected = source.of(gradients[source.name])
        # a key's bias changes no probability: its gradient is nothing but rounding
        scale = expected.norm() if not name.endswith("k_proj.bias") else total
        assert (found[name] - expected).norm() <= 1e-12 * scale, name


def test_padded_batches_give_their_logits(pair):
    theirs, ours = pair
    ids, mask = padded_batch(ours.config.vocab_size)
    positions = (mask.cumsum(-1) - 1).clamp_min(0)
    expected = theirs(ids, attention_mask=mask.long(), position_ids=positions).logits
    assert error(ours(ids, mask=mask)[mask], expected[mask]) < 1e-12


@torch.no_grad()
def test_a_cache_gives_their_logits(pair):
    """A prompt, then two tokens, then one at a time: each piece as the whole of theirs says."""
    theirs, ours = pair
    ids, mask = padded_batch(ours.config.vocab_size)
    expected = theirs(ids, attention_mask=mask.long(), position_ids=(mask.cumsum(-1) - 1).clamp_min(0)).logits
    cache = nn.KeyValueCache(ours.config.num_layers, capacity=4)
    pieces = [ours(ids[:, a:b], cache, mask[:, :b]) for a, b in ((0, 4), (4, 6), (6, 7))]
    assert error(torch.cat(pieces, dim=1)[mask], expected[mask]) < 1e-12


@pytest.mark.parametrize("cache", [True, False], ids=["cache", "no cache"])
@pytest.mark.parametrize("penalty", [1.0, 1.7])
def test_the_same_tokens_are_generated(pair, cache, penalty):
    theirs, ours = pair
    ids, mask = padded_batch(ours.config.vocab_size)
    ids = torch.where(mask, ids, ids[:, -1:])  # their penalty is for padding too
    settings = {"do_sample": False, "use_cache": cache, "max_new_tokens": 12, "repetition_penalty": penalty}
    expected = theirs.generate(ids, attention_mask=mask.long(), pad_token_id=0, **settings)[:, L:].tolist()
    prompts = [row[keep].tolist() for row, keep in zip(ids, mask, strict=True)]
    assert generate(ours, prompts, 12, cache=cache, repetition_penalty=penalty) == expected
    assert len({tuple(row) for row in expected}) == B  # prompts that all go on alike would show nothing
