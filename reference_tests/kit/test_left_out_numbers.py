"""A number by which a word is drawn, None by default, with which what writes text stops (B26)."""

import pytest

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.learners.pieces import LANGUAGE_MODEL
from scratch_transformer.kit.mistakes.construction import ALWAYS_GIVEN

MODEL = (
    LANGUAGE_MODEL
    + """
    def generate(self, idx, max_new_tokens, top_k=None):
        for _ in range(max_new_tokens):
            logits = self(idx[:, -self.block_size :])[:, -1]
            GUARD
            least = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
            logits = logits.masked_fill(logits < least, -math.inf)
            idx = torch.cat([idx, torch.multinomial(logits.softmax(-1), 1)], dim=1)
        return idx
"""
)
CALLED = """
def verses(poet, idx):
    return poet.generate(idx, 20, top_k=3)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("guard", "more", "ids"),
    [("pass", "", ["B26"]), ("top_k = top_k or logits.size(-1)", "", []), ("pass", CALLED, [ALWAYS_GIVEN])],
)
def test_a_number_that_need_not_be_given_stops_nothing(guard, more, ids, tmp_path):
    result = check_text(MODEL.replace("GUARD", guard) + more, tmp_path, {"LanguageModel.generate"})[
        "LanguageModel.generate"
    ]
    assert [one.form or one.id for one in result.mistakes] == ids, result
    if ids == ["B26"]:
        (one,) = result.mistakes
        assert (result.severe, "top_k is not None" in one.fix) == (["B26"], True)
        assert "least = " in one.shown
