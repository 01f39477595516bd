"""The layer that gives scores of words: whatever their number is called, and where it gives another number."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report import words

HEAD = """
class LMHead(nn.Module):
    def __init__(self, d_model, {0}):
        super().__init__()
        self.layer = nn.Linear(d_model, {1})

    def forward(self, x):
        return self.layer(x)
"""


@pytest.mark.parametrize("name", ["n_output", "n_out", "output_dim", "num_outputs", "dim_out"])
def test_outputs_are_the_words(name, tmp_path):
    result = check_text(HEAD.format(name, name), tmp_path)["LMHead"]
    assert (result.verdict, result.error) == ("matches the builtin", 0)


def test_of_another_width_no_numbers_are_compared(tmp_path):
    result = check_text(HEAD.format("vocab_size", "2 * vocab_size"), tmp_path)["LMHead"]
    said = " ".join(words.explanation(result))
    assert "numbers differ" not in said and "–" not in said
    assert "its output differs from that of torch.nn.Linear (with random tokens)" in said
    assert "Each token of it has 26 numbers, and the reference's has 13." in said
