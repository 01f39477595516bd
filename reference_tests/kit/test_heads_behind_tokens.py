"""Heads that are not moved before the tokens (A13): each token's attend to one another, and tokens never meet."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

ATTENTION = """
class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.d_model % config.n_heads == 0
        self.heads, self.batch = config.n_heads, config.batch
        self.q, self.k, self.v, self.out = (nn.Linear(config.d_model, config.d_model) for _ in range(4))

    def forward(self, x):
        B, T, C = self.batch, x.size(1), x.size(2)
        q, k, v = (f(x).view(B, T, self.heads, -1)MOVED for f in (self.q, self.k, self.v))
        weights = (q @ k.mT / q.size(-1) ** 0.5).softmax(-1)
        return self.out((weights @ v)BACK.reshape(B, T, C))
"""
MOVED = ".transpose(1, 2)"


@pytest.mark.parametrize("moved, back, forms", [
    (MOVED, MOVED, {}), ("", "", {"A13": "heads stay behind the tokens"}), (MOVED, "", {"A23": "not transposed back"}),
])  # fmt: skip
def test_tokens_that_never_meet_are_named(moved, back, forms, tmp_path):
    """Its config is asked for the number of samples as well, which the kit knows."""
    result = check_text(ATTENTION.replace("MOVED", moved).replace("BACK", back), tmp_path)["SelfAttention"]
    found = {mistake.id: mistake.form.partition(":")[0] for mistake in result.mistakes if mistake.severity == "mistake"}
    assert found == forms, result
    assert result.verdict == ("mistake" if forms else "matches the builtin")


def test_that_no_mask_fits_scores_of_heads_is_no_second_mistake(tmp_path):
    text = ATTENTION.replace("MOVED", "").replace("BACK", "").replace("forward(self, x)", "forward(self, x, mask=None)")
    text = text.replace(
        "weights = (q @ k.mT / q.size(-1) ** 0.5).softmax(-1)",
        """scores = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores + mask
        weights = scores.softmax(-1)""",
    )
    result = check_text(text, tmp_path)["SelfAttention"]
    assert [mistake.id for mistake in result.mistakes if mistake.severity == "mistake"] == ["A13"], result
