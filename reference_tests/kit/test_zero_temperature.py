"""A temperature that is 0 by default, by which what draws a word divides (S1)."""

import pytest

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.learners.pieces import LANGUAGE_MODEL
from scratch_transformer.kit.mistakes.optimizing import ZERO_BY_DEFAULT

pytestmark = pytest.mark.long

MODEL = (
    LANGUAGE_MODEL
    + """
    def generate(self, idx, max_new_tokens, temperature=DEFAULT):
        for _ in range(max_new_tokens):
            logits = self(idx[:, -self.block_size :])[:, -1]
            DIVIDED
            idx = torch.cat([idx, torch.multinomial(logits.softmax(-1), 1)], dim=1)
        return idx
"""
)
PLAIN = "logits = logits / temperature"


@pytest.mark.long
@pytest.mark.parametrize("default, ids", [("0", ["S1"]), ("1.0", [])])
def test_what_writes_divides_by_no_temperature_of_zero(default, ids, tmp_path):
    text = MODEL.replace("DEFAULT", default).replace("DIVIDED", PLAIN)
    assert check_text(text, tmp_path)["LanguageModel.generate.sampling"].ids == ids


SAMPLE = """
def sample(logits, temperature=DEFAULT):
    DIVIDED
    return torch.softmax(logits, dim=-1)
"""


@pytest.mark.parametrize(
    "default, divided, ids",
    [
        ("0", PLAIN, ["S1"]),
        ("0.0", "logits = torch.div(logits, temperature)  # sharper", ["S1"]),
        ("0.7", PLAIN, []),
        ("0.0", "logits = logits / max(temperature, 1e-5)", []),
        ("0.0", "logits = logits / temperature if temperature > 0 else logits", []),
        ("0.0", "temperature = temperature or 1.0\n    logits = logits / temperature", []),
        ("0.0", "if not temperature:\n        return logits\n    logits = logits / temperature", []),
    ],
)
def test_what_draws_divides_by_no_temperature_of_zero(default, divided, ids, tmp_path):
    result = check_text(SAMPLE.replace("DEFAULT", default).replace("DIVIDED", divided), tmp_path)["sample"]
    assert result.ids == ids, result
    for one in result.mistakes:
        assert (one.form, one.shown.strip()) == (ZERO_BY_DEFAULT, divided)
