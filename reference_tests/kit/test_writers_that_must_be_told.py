"""What writes text and must be told top-k or top-p is told to keep all words, and not given None."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look

pytestmark = pytest.mark.long

BY_NUMBER = """
def generate(model, ids, max_new_tokens, temperature, top_k):
    for _ in range(max_new_tokens):
        logits = model(ids)[:, PLACE] / temperature
        least = torch.topk(logits, min(top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
        ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], dim=1)
    return ids
"""
BY_SUM = """
def generate(model, ids, max_new_tokens, temperature, THRESHOLD):
    for _ in range(max_new_tokens):
        best, order = torch.sort(torch.softmax(model(ids)[:, PLACE] / temperature, -1), descending=True)
        best[best.cumsum(-1) - best > THRESHOLD] = 0
        ids = torch.cat([ids, order.gather(-1, torch.multinomial(best, 1))], dim=1)
    return ids
"""


@pytest.mark.parametrize("text", [BY_NUMBER, *(BY_SUM.replace("THRESHOLD", name) for name in ("top_p", "threshold"))])
@pytest.mark.parametrize("place, ids", [("-1", []), ("0", ["D8"])])
def test_how_many_words_are_kept_is_no_secret(text, place, ids, tmp_path):
    with time_to_look(1):
        told = check_text(text.replace("PLACE", place), tmp_path)
    assert (told["generate"].severe, told["generate"].unexplained) == (ids, False)
    assert told["generate.sampling"].severe == []
