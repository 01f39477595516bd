"""The profile of tiled attention."""

from scratch_transformer.benchmarking.profile import PRODUCTS, shares


def test_products_are_found_and_have_a_rate():
    seconds, rate, limit = shares(1, 2, 64, 8)
    assert seconds["aten::bmm"] > 0
    assert set(PRODUCTS) & set(seconds)
    assert 0 < rate < 1e15
    assert 0 < limit < 1e15
