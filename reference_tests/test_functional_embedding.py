"""The embedding table against torch.nn.functional.embedding: rows, and the options that change only gradients."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_agree, assert_equal, differentiate
from scratch_transformer import functional, nn

NUM_EMBEDDINGS, WIDTH = 6, 4


@pytest.fixture
def table(device):
    return torch.randn(NUM_EMBEDDINGS, WIDTH, dtype=torch.float64, device=device)


@pytest.mark.parametrize("shape", [(), (5,), (2, 5), (2, 3, 5), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("padding_idx", [None, 0, 3])
@pytest.mark.parametrize("scale_grad_by_freq", [False, True])
def test_rows_and_gradients(shape, padding_idx, scale_grad_by_freq, table, device):
    ids = torch.randint(NUM_EMBEDDINGS, shape, device=device)
    options = {"padding_idx": padding_idx, "scale_grad_by_freq": scale_grad_by_freq}
    assert_agree(functional.embedding, F.embedding, ids, table, **options)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_both_types_of_ids(dtype, table, device):
    ids = torch.tensor([[1, 5], [1, 0]], dtype=dtype, device=device)
    assert_agree(functional.embedding, F.embedding, ids, table, padding_idx=5, scale_grad_by_freq=True)


def test_gradients_by_hand():
    """Id 2 occurs three times, id 1 twice, id 0 is padding."""
    ids, table = torch.tensor([[2, 1, 2], [1, 0, 2]]), torch.ones(4, 1, requires_grad=True)
    upstream = torch.tensor([[1.0, 10.0, 2.0], [20.0, 5.0, 3.0]]).unsqueeze(-1)

    def gradient(**options):
        return torch.autograd.grad(functional.embedding(ids, table, **options), table, upstream)[0].flatten().tolist()

    assert gradient() == [5, 30, 6, 0]
    assert gradient(padding_idx=0) == [0, 30, 6, 0]
    assert gradient(padding_idx=0, scale_grad_by_freq=True) == [0, 15, 2, 0]


def test_the_options_leave_the_rows_bitwise_alone(table):
    ids = torch.tensor([0, 3, 3, 5])
    for padding_idx, by_freq in itertools.product([None, 3], [False, True]):
        assert torch.equal(functional.embedding(ids, table, padding_idx, by_freq), table[ids])


@pytest.mark.parametrize("bad", [-1, NUM_EMBEDDINGS, 10**9])
def test_ids_outside_the_table(bad):
    table = torch.zeros(NUM_EMBEDDINGS, WIDTH)
    for embedding in (functional.embedding, F.embedding):
        with pytest.raises(IndexError, match=r"(: |^)index out of range in self$"):
            embedding(torch.tensor([0, bad]), table)


# ---- max_norm, which torch has in the function and this package in the module ----


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("ids", [[0, 1, 1, 4], [[2, 2], [2, 3]], []], ids=str)
def test_max_norm_shortens_in_place_the_rows_that_are_looked_up(ids, norm_type, table, device):
    ids, max_norm = torch.tensor(ids, dtype=torch.long, device=device), 1.2
    module = nn.Embedding(NUM_EMBEDDINGS, WIDTH, 1, max_norm, norm_type, True, _weight=table.clone())
    expected_table = table.clone().requires_grad_()
    expected = F.embedding(ids, expected_table, 1, max_norm, norm_type, True)
    assert_equal(module(ids).detach(), expected.detach())
    assert_equal(module.weight.detach(), expected_table.detach())
    looked_up = torch.zeros(NUM_EMBEDDINGS, dtype=torch.bool, device=device).index_fill_(0, ids.flatten(), True)
    assert torch.equal(module.weight[~looked_up], table[~looked_up])


def test_max_norm_leaves_short_rows_bitwise_alone(table):
    short = table / table.norm(dim=1, keepdim=True)
    module = nn.Embedding.from_pretrained(short.clone(), max_norm=1.5)
    module(torch.arange(NUM_EMBEDDINGS))
    assert torch.equal(module.weight, short)


def test_gradients_with_max_norm_are_those_of_the_shortened_table(table):
    ids = torch.tensor([0, 2, 2, 5])

    def with_max_norm(embed):
        def run(table):
            shortened = table.detach().clone().requires_grad_()
            rows = embed(shortened)
            return torch.autograd.grad(rows.square().sum(), shortened)[0]

        return run

    def ours(table):
        module = nn.Embedding(NUM_EMBEDDINGS, WIDTH, max_norm=0.7, _weight=table.detach().clone())
        rows = module(ids)
        return torch.autograd.grad(rows.square().sum(), module.weight)[0]

    assert_equal(ours(table), with_max_norm(lambda w: F.embedding(ids, w, max_norm=0.7))(table))


def test_two_lookups_add_their_gradients(table):
    first, second = torch.tensor([0, 1]), torch.tensor([1, 1, 2])

    def both(embedding):
        return lambda table: (embedding(first, table), embedding(second, table, 2))

    outcomes = [differentiate(both(embedding), table) for embedding in (functional.embedding, F.embedding)]
    assert_equal(*outcomes)
