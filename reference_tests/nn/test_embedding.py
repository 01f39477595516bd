"""Embedding against torch.nn.Embedding."""

import pytest
import torch

from reference_tests.agreement import assert_agree, assert_equal
from reference_tests.proof import prove
from scratch_transformer import nn

test_definition, test_precision, test_errors = prove("Embedding")

ROWS, WIDTH = 7, 3
IDS = torch.tensor([[0, 6, 2, 2], [5, 2, 1, 0]])


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"padding_idx": -1, "freeze": False}], ids=str)
def test_from_pretrained(options):
    table = torch.randn(ROWS, WIDTH, dtype=torch.float64)
    ours, builtin = (library.Embedding.from_pretrained(table.clone(), **options) for library in (nn, torch.nn))
    assert ours.weight.requires_grad == builtin.weight.requires_grad == ("freeze" in options)
    assert ours.padding_idx == builtin.padding_idx
    assert_equal(ours.weight.detach(), table)  # also the padding row: a given table is not changed
    if "freeze" in options:
        assert_agree(ours, builtin, IDS)
    assert_equal(ours(IDS).detach(), builtin(IDS).detach())


def test_from_pretrained_hands_on_every_option():
    options = {"padding_idx": 2, "max_norm": 1.5, "norm_type": 1.0, "scale_grad_by_freq": True, "freeze": False}
    table = torch.randn(ROWS, WIDTH, dtype=torch.float64)
    ours, builtin = (library.Embedding.from_pretrained(table.clone(), **options) for library in (nn, torch.nn))
    assert repr(ours) == repr(builtin)
    assert_agree(ours, builtin, IDS)
    assert nn.Embedding.from_pretrained(table).norm_type == 2
    assert nn.Embedding.from_pretrained(table, sparse=True).sparse


@pytest.mark.parametrize("ids", [IDS, IDS[:0], torch.full((2, 2), 2)], ids=["some", "none", "padding alone"])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_sparse_gradients(ids, padding_idx):
    """Of the rows that were looked up, in their order, without those of padding_idx: as torch's, not coalesced."""
    table = torch.randn(ROWS, WIDTH, dtype=torch.float64)
    ours, builtin = (
        library.Embedding(ROWS, WIDTH, padding_idx=padding_idx, sparse=True, _weight=table.clone())
        for library in (nn, torch.nn)
    )
    grad = torch.randn(*ids.shape, WIDTH, dtype=torch.float64)
    for module in (ours, builtin):
        module(ids).backward(grad)
    assert ours.weight.grad.layout == torch.sparse_coo
    assert torch.equal(ours.weight.grad._indices(), builtin.weight.grad._indices())
    assert_equal(ours.weight.grad._values(), builtin.weight.grad._values())
    assert repr(ours) == repr(builtin)


def test_sparse_gradients_train_with_torchs_sparse_adam():
    weights = []
    for library in (nn, torch.nn):
        torch.manual_seed(0)
        module = library.Embedding(ROWS, WIDTH, sparse=True, dtype=torch.float64)
        optimizer = torch.optim.SparseAdam(module.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            module(IDS).square().sum().backward()
            optimizer.step()
        weights.append(module.weight.detach())
    assert_equal(*weights)


def test_sparse_gradients_are_not_scaled():
    for library in (nn, torch.nn):
        module = library.Embedding(ROWS, WIDTH, sparse=True, scale_grad_by_freq=True)
        with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
            module(IDS).sum().backward()


def test_from_pretrained_uses_the_table_itself():
    """As in torch: no copy of what may be most of a model."""
    table = torch.randn(ROWS, WIDTH)
    assert nn.Embedding.from_pretrained(table).weight.data_ptr() == table.data_ptr()


def test_from_pretrained_takes_tables_only():
    for library in (nn, torch.nn):
        with pytest.raises(AssertionError, match=r"2-dimensional"):
            library.Embedding.from_pretrained(torch.randn(WIDTH))


def test_the_padding_row_starts_at_zero_and_is_normal_otherwise():
    torch.manual_seed(0)
    weight = nn.Embedding(ROWS, WIDTH, padding_idx=2).weight
    torch.manual_seed(0)
    unpadded = nn.Embedding(ROWS, WIDTH).weight
    assert not weight[2].any()
    others = torch.arange(ROWS) != 2
    assert torch.equal(weight[others], unpadded[others])


def test_a_row_as_long_as_allowed_is_not_shortened():
    table = torch.tensor([[3.0, 4.0], [6.0, 8.0]], dtype=torch.float64)
    for library in (nn, torch.nn):
        embedding = library.Embedding(2, 2, max_norm=5.0, _weight=table.clone())
        rows = embedding(torch.tensor([0, 1]))
        assert rows[0].tolist() == [3.0, 4.0]
        assert rows[1].norm().item() == pytest.approx(5.0)


@pytest.mark.parametrize("options", [{}, {"_weight": torch.zeros(ROWS, WIDTH)}], ids=["drawn", "given"])
@pytest.mark.parametrize("freeze", [False, True])
def test_frozen(options, freeze):
    for library in (nn, torch.nn):
        assert library.Embedding(ROWS, WIDTH, _freeze=freeze, **options).weight.requires_grad is not freeze


def test_a_table_of_another_shape_is_refused():
    with pytest.raises(AssertionError, match=rf"_weight must have shape \({ROWS}, {WIDTH}\), not \({WIDTH}, {ROWS}\)"):
        nn.Embedding(ROWS, WIDTH, _weight=torch.zeros(WIDTH, ROWS))


@pytest.mark.parametrize("padding_idx", [-ROWS, -1, 0, ROWS - 1])
def test_padding_idx_from_either_end(padding_idx):
    ours, builtin = (library.Embedding(ROWS, WIDTH, padding_idx=padding_idx) for library in (nn, torch.nn))
    assert ours.padding_idx == builtin.padding_idx == padding_idx % ROWS
