"""Masks of every head, all alike: made by functions that are told how many there are, asked for by attention."""

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


ATTENTION = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.heads = num_heads
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.out = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask):
        projected = self.q(query), self.k(key), self.v(value)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in projected)
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH)
        if scores.shape != mask.shape:
            raise ValueError("scores and mask must be of one shape")
        scores = torch.where(mask, scores, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("width, verdict, ids", [
    ("q.shape[-1]", "matches the builtin", []), ("query.shape[-1]", "mistake", ["A1"]),
])  # fmt: skip
def test_what_must_be_given_a_mask_of_every_head_is_given_one(width, verdict, ids, tmp_path):
    result = check_text(ATTENTION.replace("WIDTH", width), tmp_path)["Attention"]
    assert (result.verdict, result.severe) == (verdict, ids)
