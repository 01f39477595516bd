"""Top-p with p = 1, which is to keep all ids (S2): what looks for the first sum above p finds none."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.optimizing import NONE_EXCEEDS

pytestmark = pytest.mark.long

ONE_SENTENCE = """
def nucleus_sample(logits, temperature, top_p):
    probs = torch.softmax(logits / temperature, dim=-1)
    best = torch.sort(probs, descending=True).values
    last = FIRST
    probs[probs < best[last]] = 0
    return torch.multinomial(probs, 1)
"""
SEVERAL = """
def nucleus_sample(logits, temperature=1.0, top_p=1.0):
    probs = torch.softmax(logits / temperature, dim=-1)
    best, ids = torch.sort(probs, dim=-1, descending=True)
    sums = best.cumsum(dim=-1)
    LINES
    return ids.gather(-1, torch.multinomial(best, 1))
"""
LAST = "last = (sums > top_p).int().argmax(dim=-1, keepdim=True)"
KEPT = "best = best * (torch.arange(best.shape[-1]) <= last)"


@pytest.mark.parametrize(
    "text, ids",
    [
        (ONE_SENTENCE.replace("FIRST", "torch.argmax((best.cumsum(-1) > top_p).int())"), ["S2"]),
        (ONE_SENTENCE.replace("FIRST", "int((best.cumsum(-1) < top_p).sum().clamp(max=len(best) - 1))"), []),
        (ONE_SENTENCE.replace("FIRST", "(best.cumsum(-1) > top_p).nonzero()[0, 0] if top_p < 1 else -1"), []),
        (SEVERAL.replace("LINES", f"{LAST}\n    {KEPT}"), ["S2"]),
        (SEVERAL.replace("LINES", f"{LAST}\n    {KEPT} if top_p < 1.0 else best"), []),
        (SEVERAL.replace("LINES", "best = best.masked_fill(sums - best > top_p, 0)"), []),
    ],
)
def test_all_ids_are_kept_where_p_is_one(text, ids, tmp_path):
    result = check_text(text, tmp_path)["nucleus_sample"]
    assert (result.severe, result.unexplained) == (ids, False), result
    for one in result.mistakes:
        assert one.form == NONE_EXCEEDS and "keeps 1 of 9 ids" in one.evidence
