"""What projects to the vocabulary is known by what it gives, whatever it is called."""

import pytest

from reference_tests.kit.learners.checked import check_text

LINEAR = """
class LinearLayer(nn.Module):
    def __init__(self, SIZES):
        super().__init__()
        self.linear = nn.Linear(SIZES)

    def forward(self, x):
        return GIVEN
"""


@pytest.mark.parametrize(
    "sizes, given, expected",
    [
        ("d_model, vocab_size", "self.linear(x).log_softmax(-1)", ("Projection", "matches the builtin", [])),
        ("in_features, out_features", "self.linear(x)", ("Linear", "matches the builtin", [])),
        ("d_model, vocab_size", "self.linear(x).softmax(1)", ("Projection", "mistake", ["B18"])),
    ],
)
def test_a_linear_layer_that_ends_in_a_softmax(sizes, given, expected, tmp_path):
    result = check_text(LINEAR.replace("SIZES", sizes).replace("GIVEN", given), tmp_path)["LinearLayer"]
    assert (result.kind, result.verdict, [named.id for named in result.mistakes]) == expected
