"""A16 of a mask of True and False that a file makes, and that its attention adds to the scores."""

import pytest

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.made import variant
from scratch_transformer.kit.judge.added_masks import BLOCKED, KEPT, with_added
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.report.finding import FINE

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.w_q, self.w_k, self.w_v, self.fc = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores + mask
        return self.fc((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


"""
MADE = """
def create_causal_mask(size):
    return RETURNED
"""
INLINE = """
def run(attention, x):
    mask = RETURNED
    return attention(x, mask)
"""
LOWER, UPPER = "torch.tril(torch.ones(size, size))", "torch.triu(torch.ones(size, size), diagonal=1)"


@pytest.mark.parametrize(
    "made, returned, form",
    [
        (MADE, f"{LOWER}.bool()", KEPT),
        (MADE, f"{LOWER}.bool()[None, None]", KEPT),
        (MADE, UPPER, BLOCKED),
        (MADE, f"{LOWER}.log()", ""),
        (MADE, f"{UPPER} * float('-inf') if size < 0 else {UPPER} * -1e9", ""),
        (MADE, "nn.Transformer.generate_square_subsequent_mask(size)", ""),
        (INLINE, "torch.tril(torch.ones(10, 10)).bool()", KEPT),
        (INLINE, "torch.triu(torch.ones(10, 10), diagonal=1) * -1e9", ""),
    ],
)
def test_what_is_added_is_to_be_zero_and_minus_infinity(made, returned, form, tmp_path):
    result = check_text(ATTENTION + made.replace("RETURNED", returned), tmp_path)["MultiHeadAttention"]
    assert [(one.id, one.form) for one in result.mistakes if one.id == "A16"] == [("A16", form)] * bool(form), result
    assert (result.verdict in FINE) == (not form)


def test_without_any_mask_in_its_file_nobody_knows(tmp_path):
    result = check_text(ATTENTION, tmp_path)["MultiHeadAttention"]
    assert result.verdict in FINE and "A16" not in result.ids


@pytest.mark.parametrize(
    "says", ["float('-inf')", "-10000.0", "torch.finfo(x.dtype).min", "F.scaled_dot_product_attention"]
)
def test_a_file_that_may_turn_its_masks_is_not_blamed(says, monkeypatch):
    attention, mask = variant("SelfAttention"), variant("CausalMask")
    diagnosis, made = diagnose(attention), [("create_mask", mask, diagnose(mask))]
    monkeypatch.setattr(type(attention), "adds_masks", True)
    mask.makes = "boolean"
    assert "A16" in with_added(attention, diagnosis, "x = 1", made).ids
    assert with_added(attention, diagnosis, f"x = {says}", made) is diagnosis
    mask.makes = "added"
    assert with_added(attention, diagnosis, "x = 1", made) is diagnosis
