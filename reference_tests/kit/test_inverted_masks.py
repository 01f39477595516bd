"""~ of a mask that is of floating-point numbers stops whatever it is given (B26)."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

INVERTED = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.heads = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.register_buffer("past", torch.ones(max_len, max_len).tril()KEPT)

    def forward(self, x):
        T = x.size(1)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        seen = MADE
        scores = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~seen, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
OWN, NEW = "self.past[:T, :T]", "torch.tril(torch.ones(T, T))"


@pytest.mark.parametrize("seen, kept, ids", [
    (OWN, "", ["B26"]), (OWN, ".bool()", []), (f"{OWN} == 1", "", []), (NEW, "", ["B26"]),
    (f"{NEW}.to(torch.bool)", "", []),
])  # fmt: skip
def test_what_is_inverted_is_boolean(seen, kept, ids, tmp_path):
    text = INVERTED.replace("MADE", seen).replace("KEPT", kept)
    if seen == OWN:
        text = text.replace(f"        seen = {OWN}\n", "").replace("~seen", f"~{OWN}")
    result = check_text(text, tmp_path)["CausalSelfAttention"]
    assert [mistake.id for mistake in result.mistakes if mistake.severity == "mistake"] == ids, result
    assert all("mask == 0" in mistake.fix and "masked_fill" in mistake.shown for mistake in result.mistakes if ids)


MASKED = """
def scaled_dot_product_attention(query, key, value, mask):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ value
"""


def test_a_mask_that_is_given_may_be_boolean(tmp_path):
    (result,) = check_text(MASKED, tmp_path).values()
    assert result.severe == [], result
