"""Attributes that nothing sets (B26): all of them are told, not only the one that it stops at."""

import pytest

from reference_tests.kit.learners.checked import check_text

NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        FILE

    def forward(self, x):
        return self.finish(torch.relu(self.linear1(x)) * self.gain)

    def finish(self, x):
        return self.linear2(x) + self.shift * self.training
"""


@pytest.mark.parametrize("more, said", [
    ("pass", "It reads self.gain, which nothing in FeedForward or its file sets; nor is self.shift set."),
    ("self.shift = 0", "It reads self.gain, which nothing in FeedForward or its file sets."),
])  # fmt: skip
def test_all_that_nothing_sets_is_told(more, said, tmp_path):
    result = check_text(NETWORK.replace("FILE", more), tmp_path)["FeedForward"]
    assert [named.evidence[: len(said)] for named in result.mistakes if named.id == "B26"] == [said]
