"""A flag of a constructor, False by default, with which attention hides the future: what it hides then is judged."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look

pytestmark = pytest.mark.long

ATTENTION = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, n_head, FLAG=False):
        super().__init__()
        assert d_model % n_head == 0
        self.n_head, self.hides = n_head, FLAG
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.out = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, xARGUMENTS):
        q, k, v = (y.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        if self.hides:
            mask = torch.ones(scores.shape[-2:], device=x.device)
            HALF
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
RIGHT, WRONG = "mask = torch.tril(mask)", "mask = torch.triu(mask)"
FLAGS = ("masking", "mask", "is_masked", "causal", "use_mask")


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("half, ids", [(RIGHT, []), (WRONG, ["A5"])])
def test_what_is_hidden_where_the_constructor_is_told_to_is_judged(flag, half, ids, tmp_path):
    text = ATTENTION.replace("FLAG", flag).replace("HALF", half).replace("ARGUMENTS", "")
    result = check_text(text, tmp_path)["SelfAttention"]
    assert result.severe == ids and result.error < 1e-12
    for found in result.mistakes:
        assert found.form.endswith("with self.hides = True") and found.shown.strip() == WRONG


def test_a_flag_beside_a_mask_may_be_of_that_mask(tmp_path):
    """Of what is called mask, nobody knows then what it does."""
    text = ATTENTION.replace("FLAG", "masking").replace("HALF", WRONG).replace("ARGUMENTS", ", mask=None")
    assert "A5" not in check_text(text, tmp_path)["SelfAttention"].ids


@pytest.mark.parametrize("flag", ["mask_future", "hide_future"])
@pytest.mark.parametrize("half, ids", [(RIGHT, []), (WRONG, ["A5"])])
def test_a_flag_of_the_future_is_none_of_the_mask_beside_it(flag, half, ids, tmp_path):
    text = ATTENTION.replace("FLAG", flag).replace("HALF", half).replace("ARGUMENTS", ", pad_mask=None")
    text = text.replace("        return", f"        if pad_mask is not None:\n            {OF_KEYS}\n        return")
    result = check_text(text, tmp_path)["SelfAttention"]
    assert result.severe == ids and not any("causal mask" in limit for limit in result.limits)


OF_KEYS = 'scores = scores.masked_fill(pad_mask[:, None, None, :] == 0, float("-inf"))'
OF_PADDING = """mask = (x != 0).any(-1)[:, None, None, :].expand(-1, 1, x.size(1), -1)"""


@pytest.mark.parametrize("flag, ids", [("masking", []), ("causal", ["A25"])])
def test_what_may_be_of_padding_need_not_hide_the_future(flag, ids, tmp_path):
    text = ATTENTION.replace("FLAG", flag).replace("HALF", OF_PADDING).replace("ARGUMENTS", "")
    with time_to_look(1):
        assert check_text(text, tmp_path)["SelfAttention"].severe == ids


REQUIRED = ATTENTION.replace("FLAG=False", "*, FLAG: bool").replace("FLAG", "is_decoder").replace("ARGUMENTS", "")


@pytest.mark.parametrize("name", ["SelfAttention", "CausalSelfAttention"])
@pytest.mark.parametrize("half, ids", [(RIGHT, []), (WRONG, ["A5"])])
def test_a_flag_that_must_be_told_is_judged_both_ways(name, half, ids, tmp_path):
    """A25 is not said of what hides nothing where it is told to hide nothing."""
    text = REQUIRED.replace("HALF", half).replace("SelfAttention", name)
    result = check_text(text, tmp_path)[name]
    assert result.severe == ids and not any("masks were not checked" in limit for limit in result.limits)
