"""Masks that functions make for every head: they are told how many there are, and all are alike."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

OF_ONE_SENTENCE = """
import numpy as np

def source_mask(tokens, pad_id, n_heads):
    row = np.array([int(one != pad_id) for one in tokens])
    return np.broadcast_to(row[None, :], (n_heads, len(tokens), len(tokens)))

def target_mask(tokens, pad_id, n_heads):
    row = np.array([int(one != pad_id) for one in tokens])
    past = np.PAST(np.ones((len(tokens), len(tokens)), dtype=int))
    return np.broadcast_to(past * row, (n_heads, len(tokens), len(tokens)))
"""
OF_A_BATCH = """
def source_mask(ids, num_heads=8, pad_id=0):
    return (ids != pad_id)[:, None, None, :].repeat(1, num_heads, ids.size(1), 1)

def target_mask(ids, num_heads=8, pad_id=0):
    past = torch.ones(ids.size(1), ids.size(1)).PAST().bool()
    return past & (ids != pad_id)[:, None, None, :].repeat(1, num_heads, ids.size(1), 1)
"""
UNLIKE = """
def source_mask(ids, num_heads, pad_id=0):
    mask = (ids != pad_id)[:, None, None, :].repeat(1, num_heads, ids.size(1), 1)
    mask[:, 0] = True
    return mask
"""


@pytest.mark.parametrize("text", [OF_ONE_SENTENCE, OF_A_BATCH])
@pytest.mark.parametrize("past, ids", [("tril", []), ("triu", ["A5"])])
def test_the_mask_of_one_head_is_judged(text, past, ids, tmp_path):
    results = check_text(text.replace("PAST", past), tmp_path)
    assert (results["source_mask"].kind, results["source_mask"].severe) == ("PaddingMask", [])
    assert (results["target_mask"].kind, results["target_mask"].severe) == ("TargetMask", ids)
    assert results["source_mask"].verdict == "matches the builtin"


def test_masks_that_differ_from_head_to_head_are_not_right(tmp_path):
    assert check_text(UNLIKE, tmp_path)["source_mask"].verdict == "unknown mismatch"
