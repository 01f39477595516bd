"""A size that is written without its self. is a name that nothing defines (B26): the kit does not supply it.

What a file does define in a line that is not run, or takes from a file that is not there, is supplied as ever.
"""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

LAYER = """
class FeedForward(nn.Module):
    def __init__(self, d_model, hidden_dim):
        super().__init__()
        self.d_model = d_model
        self.first, self.second = nn.Linear(d_model, hidden_dim), nn.Linear(hidden_dim, d_model)

    def forward(self, x):
        x = torch.relu(self.first(x.reshape(-1, WIDTH))).view(x.shape[0], x.shape[1], -1)
        return self.second(x)
"""
LATER = '\n\nif __name__ == "__main__":\n    d_model = 512\n'


@pytest.mark.parametrize(
    "width, after, ids",
    [
        ("self.d_model", "", []),
        ("d_model", "", ["B26"]),
        ("d_model", "\n\nCONFIG = {'d_model': 512}\n", ["B26"]),
        ("d_model", LATER, ["B29"]),
        ("d_model", "\n\ndef prepare(module):\n    module.d_model = 512\n", ["B29"]),
    ],
)
def test_a_size_without_self_is_not_supplied(width, after, ids, tmp_path):
    text = LAYER.replace("WIDTH", width) + after.replace('__name__ == "__main__"', "False")
    (result,) = check_text(text, tmp_path).values()
    assert ([found.id for found in result.mistakes], result.verdict in FINE) == (ids, not ids), result
    said = {"B26": "It uses d_model, which nothing", "B29": "reads d_model of the file"}
    assert not ids or said[ids[0]] in result.mistakes[0].evidence
