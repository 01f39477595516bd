"""The encoder: equal to BERT's definition, equal on torch.nn's layers, blind to padding."""

from __future__ import annotations

import pytest
import torch

from reference_tests.pretrained.small_model import SIZES, bert_hidden_states, padded_batch, random_state
from scratch_transformer import nn
from scratch_transformer.pretrained import SentenceEncoder, from_bert
from scratch_transformer.pretrained.sentence_encoder import mean_pool, unit_length


@pytest.fixture
def state(device):
    return {name: tensor.to(device) for name, tensor in random_state().items()}


@pytest.fixture
def batch(device):
    return tuple(tensor.to(device) for tensor in padded_batch())


def build(state, layers=nn) -> SentenceEncoder:
    encoder = SentenceEncoder(SIZES, layers, device=state["pooler.dense.bias"].device, dtype=torch.float64)
    encoder.load_state_dict(from_bert(state, SIZES.num_hidden_layers), strict=True)
    return encoder.eval()


def relative_error(ours: torch.Tensor, reference: torch.Tensor) -> float:
    return ((ours - reference).norm() / reference.norm()).item()


@pytest.mark.parametrize("layers", [nn, torch.nn], ids=["ours", "torch"])
def test_hidden_states_are_berts(state, batch, layers):
    ids, valid = batch
    expected = bert_hidden_states(state, ids, valid)
    assert relative_error(build(state, layers).hidden_states(ids, valid)[valid], expected[valid]) < 1e-12


def test_embeddings_equal_those_on_torch_layers(state, batch):
    ids, valid = batch
    assert relative_error(build(state)(ids, valid), build(state, torch.nn)(ids, valid)) < 1e-12


def test_gradients_equal_those_on_torch_layers(state, batch):
    ids, valid = batch
    ours, theirs = build(state), build(state, torch.nn)
    weights = torch.randn(len(ids), SIZES.hidden_size, dtype=torch.float64, device=ids.device)
    for encoder in (ours, theirs):
        (encoder(ids, valid) * weights).sum().backward()
    flat = [torch.cat([p.grad.flatten() for p in encoder.parameters()]) for encoder in (ours, theirs)]
    assert relative_error(*flat) < 1e-12


def test_all_layers_come_from_the_given_namespace():
    kinds = {type(module).__module__ for module in SentenceEncoder(SIZES, torch.nn).modules()}
    assert not any(kind.startswith("scratch_transformer.nn") for kind in kinds)
    kinds = {type(module).__module__ for module in SentenceEncoder(SIZES).modules()}
    assert not any(kind.startswith("torch.nn") for kind in kinds - {"torch.nn.modules.container"})


def test_state_dicts_have_the_same_names_on_either_layers():
    ours, theirs = SentenceEncoder(SIZES).state_dict(), SentenceEncoder(SIZES, torch.nn).state_dict()
    assert list(ours) == list(theirs)


def test_embeddings_have_length_one(state, batch):
    norms = build(state)(*batch).norm(dim=1)
    torch.testing.assert_close(norms, torch.ones_like(norms))


def test_padding_tokens_change_nothing(state, batch):
    encoder, (ids, valid) = build(state), batch
    other = torch.where(valid, ids, (ids + 1) % SIZES.vocab_size)
    assert relative_error(encoder(other, valid), encoder(ids, valid)) < 1e-12
    alone = encoder(ids[:1, :5], valid[:1, :5])
    assert relative_error(alone, encoder(ids, valid)[:1]) < 1e-12


def test_mean_pool_counts_valid_tokens_only():
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 8.0], [torch.nan, torch.inf]], [[torch.nan] * 2] * 3])
    valid = torch.tensor([[True, True, False], [False, False, False]])
    assert mean_pool(hidden, valid).tolist() == [[2.0, 5.0], [0.0, 0.0]]


def test_unit_length_keeps_zero():
    expected = torch.tensor([[0.6, 0.8], [0.0, 0.0]])
    torch.testing.assert_close(unit_length(torch.tensor([[3.0, 4.0], [0.0, 0.0]])), expected)


def ids_of(*shape):
    return torch.zeros(shape, dtype=torch.long)


@pytest.mark.parametrize(
    ("ids", "valid", "message"),
    [
        (ids_of(4), torch.ones(4).bool(), r"ids must be \(sentences, tokens\), got shape \(4,\)"),
        (ids_of(2, 4), torch.ones(2, 3).bool(), r"shape of ids \(2, 4\), got .* \(2, 3\)"),
        (ids_of(2, 4), torch.ones(2, 4), r"valid must be boolean .* got torch.float32"),
        (ids_of(2, 12), torch.ones(2, 12).bool(), "12 tokens a sentence; the model has 11"),
    ],
)
def test_bad_input_is_refused(ids, valid, message):
    with pytest.raises(ValueError, match=message):
        SentenceEncoder(SIZES)(ids, valid)
