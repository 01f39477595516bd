"""Affine maps of few rows: the same in every form, whatever the strides of what they are given."""

import time

import pytest
import torch

from scratch_transformer.generation import affine
from scratch_transformer.generation.affine import Affine, Shared, Turned

IN = 6


def given(rows, kind):
    """Rows (R, in), with memory of several strides."""
    if kind == "columns":
        return torch.randn(IN, rows, dtype=torch.float64).T
    if kind == "every other":
        return torch.randn(rows, 2 * IN, dtype=torch.float64)[:, ::2]
    if kind == "part":
        return torch.randn(rows, 2 * IN, dtype=torch.float64).chunk(2, dim=-1)[1]
    return torch.randn(rows, IN, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["rows", "columns", "every other", "part"])
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(("out", "threads"), [(8, 1), (8, 2), (8, 4), (9, 2), (9, 3), (7, 4), (2, 2)])
@pytest.mark.parametrize("rows", [1, 3])
def test_every_form_is_the_definition(rows, out, threads, has_bias, kind, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    weight = torch.randn(out, IN, dtype=torch.float64)
    bias = torch.randn(out, dtype=torch.float64) if has_bias else None
    y, x = given(rows, kind), torch.randn(rows, out, dtype=torch.float64)
    expected = y @ weight.T + (0 if bias is None else bias)
    before = x.clone()
    for form in (Affine, Shared, Turned):
        found = form(weight, bias)
        torch.testing.assert_close(found(y), expected)
        torch.testing.assert_close(found.added(x, y), x + expected)
    assert torch.equal(x, before)


@pytest.mark.parametrize("form", [Shared, Turned])
def test_a_matrix_that_lies_the_other_way(form):
    weight, y = torch.randn(IN, 8, dtype=torch.float64).T, given(2, "rows")
    torch.testing.assert_close(form(weight, None)(y), y @ weight.T)


def test_a_large_matrix_is_read_where_it_is():
    layer = torch.nn.Linear(IN, 8)
    shared = Affine.of(layer).shared
    assert shared.shares.data_ptr() == layer.weight.data_ptr()


@pytest.mark.parametrize("pay, alone", [(True, Shared), (False, Affine)])
def test_which_form_is_taken(pay, alone, monkeypatch):
    """A large matrix for very few rows as is faster on this processor."""
    monkeypatch.setattr(affine, "CACHED", 8 * IN)
    monkeypatch.setattr(affine, "shares_pay", lambda: pay)
    small, large = Affine(torch.randn(8, IN), None), Affine(torch.randn(9, IN), None)
    counts = (1, affine.FEWEST + 1, affine.ALONE + 1, affine.FEW + 1)
    forms = lambda each: [type(each.for_rows(count)) for count in counts]  # noqa: E731
    assert forms(small) == [Turned, Affine, Affine, Affine]
    assert forms(large) == [alone, alone, Shared, Affine]
    assert large.for_rows(1) is large.for_rows(2)


@pytest.mark.parametrize("slower, pay", [(Shared, False), (Affine, True)])
def test_whether_shares_pay_is_measured(slower, pay, monkeypatch):
    call = slower.__call__

    def waits(self, y):
        time.sleep(0.001 if type(self) is slower else 0)
        return call(self, y)

    monkeypatch.setattr(slower, "__call__", waits)
    threads = torch.get_num_threads()
    assert affine.shares_pay.__wrapped__() is pay
    assert torch.get_num_threads() == threads
