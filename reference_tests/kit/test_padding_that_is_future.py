"""Padding on the queries (A7) beside a mask that hides the future: for padding behind a sentence it costs nothing."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.attention import BEHIND_THE_PRESENT

MASKS = """
def make_tgt_mask(tgt, pad=0):
    pad_mask = (tgt != pad)AXES
    return pad_mask & torch.ones(tgt.size(1), tgt.size(1), device=tgt.device).tril().bool()

def make_src_mask(src, pad=0):
    pad_mask = (src != pad)AXES
    return pad_mask

def attend(q, k, v, mask):
    scores = (q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).masked_fill(mask == 0, FILL)
    return scores.softmax(-1) @ v
"""
KEYS, QUERIES = "[:, None, None, :]", "[:, None, :, None]"
USUAL = "queries instead of keys"


@pytest.mark.parametrize(
    "axes, fill, target, source",
    [
        (KEYS, "-1e9", [], []),
        (QUERIES, "-1e9", [(BEHIND_THE_PRESENT, "harmless")], [(USUAL, "mistake")]),
        (QUERIES, "torch.finfo(scores.dtype).min", [(BEHIND_THE_PRESENT, "harmless")], [(USUAL, "mistake")]),
        (QUERIES, "float('-inf')", [(USUAL, "mistake")], [(USUAL, "mistake")]),
        (QUERIES, "-torch.inf", [(USUAL, "mistake")], [(USUAL, "mistake")]),
    ],
)
def test_padding_that_is_future_is_hidden_anyway(axes, fill, target, source, tmp_path):
    """But where its own rows become NaN: the next layer spreads them."""
    results = check_text(MASKS.replace("AXES", axes).replace("FILL", fill), tmp_path)
    for name, expected in (("make_tgt_mask", target), ("make_src_mask", source)):
        found = [one for one in results[name].mistakes if one.id == "A7"]
        assert [(one.form, one.severity) for one in found] == expected, results[name]
        assert all(axes in one.shown for one in found)
        severe = any(one.severity == "mistake" for one in found)
        assert results[name].verdict == (
            "mistake" if severe else "harmless deviation" if found else "matches the builtin"
        )


def test_beside_another_mistake_with_the_future_it_is_one(tmp_path):
    text = MASKS.replace("AXES", QUERIES).replace("FILL", "-1e9").replace("tril()", "triu()")
    result = check_text(text, tmp_path)["make_tgt_mask"]
    assert result.verdict == "mistake" and all(one.form != BEHIND_THE_PRESENT for one in result.mistakes)
