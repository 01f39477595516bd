"""Functions that repeat the heads of keys and values, for the queries that share them."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

REPEATS = """
def repeat_kv(x, n_rep):
    B, kv, T, d = x.shape
    if n_rep == 1:
        return x
    return x[:, :, None].expand(B, kv, n_rep, T, d).reshape(B, kv * n_rep, T, d)

def expand_kv(x, n_rep):
    B, T, n_kv_heads, head_dim = x.shape
    return x[:, :, {axis}].expand(B, T, {shape}, head_dim).reshape(B, T, n_kv_heads * n_rep, head_dim)

def repeat_kv_heads(hidden_states, times):
    return hidden_states.{repeated}

def repeat_kv_both(k, v, n_rep):
    return k.repeat_interleave(n_rep, 1), v
"""
RIGHT = {"axis": ":, None", "shape": "n_kv_heads, n_rep", "repeated": "repeat_interleave(times, dim=1)"}


@pytest.mark.parametrize(
    ("change", "name", "ids"),
    [
        ({}, "", []),
        ({"axis": "None", "shape": "n_rep, n_kv_heads"}, "expand_kv", ["G3"]),
        ({"repeated": "repeat(1, times, 1, 1)"}, "repeat_kv_heads", ["G3"]),
    ],
)
def test_repeated_heads_are_judged(change, name, ids, tmp_path):
    results = check_text(REPEATS.format(**RIGHT | change), tmp_path)
    assert {one: result.ids for one, result in results.items()} == {
        one: ids if one == name else [] for one in ("repeat_kv", "expand_kv", "repeat_kv_heads")
    }
    fine = {result.verdict for one, result in results.items() if one != name}
    assert fine == {"matches the builtin"}
