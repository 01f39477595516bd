"""Our encoder against Hugging Face's own `BertModel`, on random weights and on the installed ones."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from reference_tests.pretrained.small_model import SIZES, needs_readers, needs_weights, padded_batch, random_state
from scratch_transformer.pretrained import SentenceEncoder, embed, from_bert, load
from scratch_transformer.pretrained.files import installed_weights

transformers = pytest.importorskip("transformers", reason="transformers is not installed: tox -e huggingface has it")


@torch.no_grad()
def test_random_weights_give_berts_hidden_states():
    state, (ids, valid) = random_state(), padded_batch()
    ours = SentenceEncoder(SIZES, dtype=torch.float64).eval()
    ours.load_state_dict(from_bert(state, SIZES.num_hidden_layers), strict=True)
    theirs = transformers.BertModel(transformers.BertConfig(**dataclasses.asdict(SIZES))).double().eval()
    del state["embeddings.position_ids"]  # a constant that newer versions do not keep
    theirs.load_state_dict(state, strict=True)
    expected = theirs(input_ids=ids, attention_mask=valid.long()).last_hidden_state[valid]
    difference = ours.hidden_states(ids, valid)[valid] - expected
    assert (difference.norm() / expected.norm()).item() < 1e-12


@needs_readers
@needs_weights
@torch.no_grad()
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=str)
def test_real_weights_give_the_same_embeddings(dtype, tolerance):
    """From the same folder: their readers, tokenizer and model on one side, ours on the other."""
    sentences = ["A cat sleeps on the sofa.", "Colorless green ideas sleep furiously, said he.", "Naïve café: 東京!"]
    folder = installed_weights()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.BertModel.from_pretrained(folder).to(dtype).eval()
    inputs = tokenizer(sentences, padding=True, truncation=True, return_tensors="pt")
    valid = inputs["attention_mask"][..., None]
    pooled = (theirs(**inputs).last_hidden_state * valid).sum(1) / valid.sum(1)
    expected = torch.nn.functional.normalize(pooled, dim=1)
    assert (embed(sentences, load(dtype=dtype)) - expected).abs().max().item() < tolerance
