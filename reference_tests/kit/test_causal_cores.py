"""The core of attention as a function that hides the future by itself: of all tokens, or of the last'."""

import pytest

from reference_tests.kit.learners.checked import check_text

CORE = """
def causal_attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    t, s = q.shape[-2], k.shape[-2]
    ahead = torch.triu(torch.ones(t, s, dtype=torch.bool), diagonal=1 + s - t)
    return torch.softmax(scores.masked_fill(ahead, float("-inf")), dim=-1) @ v
"""


AHEAD = "torch.triu(torch.ones(t, s, dtype=torch.bool), diagonal=1 + s - t)"


@pytest.mark.parametrize(
    ("old", "new", "ids"),
    [
        ("", "", []),
        ("1 + s - t", "1", []),  # without a cache, the queries are the first tokens'
        ("1 + s - t", "s - t", ["A6"]),
        ("1 + s - t", "2 + s - t", ["A6"]),
        ("/ math.sqrt(q.shape[-1])", "", ["A1"]),
        (AHEAD, "torch.tril(torch.ones(t, s, dtype=torch.bool), diagonal=s - t - 1)", ["A5"]),
        ('.masked_fill(ahead, float("-inf"))', "", ["A25"]),
    ],
)
@pytest.mark.long
def test_a_core_that_hides_the_future_by_itself(old, new, ids, tmp_path):
    source = CORE.replace(old, new)
    if ids == ["A25"]:  # what makes a mask may be told to do without
        source = source.replace(f"    ahead = {AHEAD}\n", "")
    result = check_text(source, tmp_path)["causal_attention"]
    assert (result.kind, result.ids) == ("ScaledDotProductAttention", ids), result
    assert result.verdict == ("mistake" if ids else "matches the builtin"), result


@pytest.mark.parametrize("name", ["attention", "decoder_attention"])
def test_what_does_not_say_that_it_is_causal_need_not_be(name, tmp_path):
    plain = CORE.replace("causal_attention", name).replace('.masked_fill(ahead, float("-inf"))', "")
    assert check_text(plain.replace(f"    ahead = {AHEAD}\n", ""), tmp_path)[name].ids == []


TOLD = """
def attention(q, k, v, causal=False, mask=None, with_weights=False):
    scores = q @ k.transpose(-2, -1)
    if causal:
        t, s = q.shape[-2], k.shape[-2]
        scores = scores.masked_fill(torch.ones(t, s, dtype=torch.bool).triu(1), float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(-2).bool(), float("-inf"))
    weights = torch.softmax(scores / q.shape[-1] ** 0.5, dim=-1)
    return (weights @ v, weights) if with_weights else weights @ v
"""


def test_a_core_that_hides_the_future_where_it_is_told_to_is_given_no_weights_for_that(tmp_path):
    result = check_text(TOLD, tmp_path)["attention"]
    assert (result.kind, result.verdict, result.ids) == ("ScaledDotProductAttention", "matches the builtin", [])


BATCHES_OF_ONE_HEAD = """
def dot_attention(query, key, value):
    likeness = torch.bmm(query, key.transpose(1, 2)) / query.size(-1) ** 0.5
    likeness = likeness.softmax(-1)
    return torch.bmm(likeness, value), likeness
"""


@pytest.mark.parametrize(("scale", "ids"), [(" / query.size(-1) ** 0.5", []), ("", ["A1"])])
def test_a_function_of_three_axes_without_weights_is_a_core_and_no_attention_of_one_head(scale, ids, tmp_path):
    source = BATCHES_OF_ONE_HEAD.replace(" / query.size(-1) ** 0.5", scale)
    result = check_text(source, tmp_path)["dot_attention"]
    assert (result.kind, result.ids) == ("ScaledDotProductAttention", ids), result
    assert not any("W_o" in limit for limit in result.limits), result
