"""A flag of forward that is to hide the future: judged with True, where it takes no effect, or hides another half."""

import pytest

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.made import variant
from scratch_transformer.kit.judge.causal_flags import with_flag
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.report.finding import FINE

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        assert d_model % n_heads == 0
        self.w_q, self.w_k, self.w_v, self.fc = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, TAKES):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        T, scores = x.size(1), q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        HIDES
        return self.fc((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
RIGHT = """if causal:
            scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))"""
MASKED = """if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))"""


def judged(tmp_path, takes, hides):
    return check_text(ATTENTION.replace("TAKES", takes).replace("HIDES", hides), tmp_path)["MultiHeadAttention"]


@pytest.mark.parametrize(
    "hides, found",
    [
        (RIGHT, []),
        (RIGHT.replace("triu(1)", "tril()"), [("A5", "sees the future only, with causal=True")]),
        (RIGHT.replace("triu(1)", "triu()"), [("A6", "hides the diagonal, with causal=True")]),
        (RIGHT.replace("scores = ", ""), [("A25", "with causal=True")]),
    ],
    ids=["right", "the past", "the diagonal too", "nothing"],
)
def test_what_it_hides_is_the_future(hides, found, tmp_path):
    result = judged(tmp_path, "causal=False", hides)
    assert [(one.id, one.form) for one in result.mistakes if one.severity == "mistake"] == found, result
    assert (result.verdict in FINE) == (not found)
    assert not any("not given its causal" in limit for limit in result.limits)


def test_a_flag_of_use_mask_is_one_where_no_mask_is_taken(tmp_path):
    hides = RIGHT.replace("if causal", "if use_mask").replace("triu(1)", "tril()")
    result = judged(tmp_path, "use_mask=False", hides)
    assert "A5" in result.ids, result


def test_as_in_torch_is_causal_may_be_said_beside_a_mask(tmp_path):
    result = judged(tmp_path, "mask=None, is_causal=False", MASKED)
    assert [one.severity for one in result.mistakes if one.id == "A25"] == ["note"]
    assert result.verdict in FINE, result
    assert "A25" in judged(tmp_path, "mask=None, causal=False", MASKED).ids


def test_what_stops_with_it_alone_or_cannot_be_explained_is_not_named(monkeypatch):
    attention = variant("SelfAttention")
    diagnosis = diagnose(attention)
    assert with_flag(attention, diagnosis) is diagnosis  # it has none
    monkeypatch.setattr(type(attention), "causal_flag", "causal")
    monkeypatch.setattr(attention, "told_causal", lambda **inputs: inputs["nothing"])
    assert with_flag(attention, diagnosis) is diagnosis
    monkeypatch.setattr(attention, "told_causal", lambda **inputs: -attention(**inputs))
    said = with_flag(attention, diagnosis)
    assert said.findings == diagnosis.findings and "unknown reason" in said.limits[-1]


PADDED = """if pad_mask is not None:
            scores = scores.masked_fill(pad_mask[:, None, None] == 0, float("-inf"))
        """


@pytest.mark.parametrize("half, ids", [("triu(1)", []), ("tril()", ["A5"])])
def test_beside_a_mask_of_padding_alone_it_is_one_by_any_name(half, ids, tmp_path):
    hides = PADDED + RIGHT.replace("if causal", "if masked").replace("triu(1)", half)
    result = judged(tmp_path, "pad_mask=None, masked=False", hides)
    assert result.severe == ids, result
    assert not any("not given its masked" in limit for limit in result.limits)


def test_beside_a_mask_of_any_sort_masked_may_mean_that(tmp_path):
    result = judged(
        tmp_path, "mask=None, masked=False", MASKED.replace("mask is not None", "masked and mask is not None")
    )
    assert "A5" not in result.ids and "A25" not in result.severe, result
