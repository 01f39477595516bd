"""A35 where nothing is split into heads: the text and the fix speak of what is there, and it is told once."""

import pytest

from reference_tests.kit.learners.checked import check_text

CORE = """
def scaled_dot_product_attention(query, key, value, mask=None):
    B, h, T, d = query.shape
    scores = query @ key.transpose(-2, -1) / math.sqrt(d)
    if mask is not None:
        scores = scores.masked_fill(mask{} == 0, float("-inf"))
    return (scores.softmax(-1) @ value){}
"""
OUTPUT, MASK = ".contiguous().view(B, h, key.shape[2], d)", ".view(B, 1, T, T)"


@pytest.mark.parametrize("mask, output", [("", OUTPUT), (MASK, "")])
def test_of_what_has_no_heads_to_split(mask, output, tmp_path):
    result = check_text(CORE.format(mask, output), tmp_path)["scaled_dot_product_attention"]
    (named,) = [named for named in result.mistakes if named.id == "A35"]
    assert (result.verdict, named.severity) == ("harmless deviation", "harmless")
    assert "heads" not in named.does and "w_k" not in named.fix
    assert not [limit for limit in result.limits if "is invalid for input of size" in limit]


def test_without_a_view_there_is_none(tmp_path):
    result = check_text(CORE.format("", ""), tmp_path)["scaled_dot_product_attention"]
    assert result.verdict == "matches the builtin"
