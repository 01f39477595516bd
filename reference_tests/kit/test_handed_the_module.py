"""Attention as a function that is handed the module which calls it, and returns heads after the length."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look

pytestmark = pytest.mark.long

EAGER = """
def shared(x, times):
    batch, heads, length, width = x.shape
    return x[:, :, None].expand(batch, heads, times, length, width).reshape(batch, heads * times, length, width)


def eager_attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    keys = shared(key, module.num_key_value_groups)
    values = shared(value, module.num_key_value_groups)
    scores = query @ keys.transpose(2, 3) * SCALE
    if attention_mask is not None:
        scores = scores + attention_mask[:, :, :, : keys.shape[-2]]
    weights = nn.functional.softmax(scores, dim=AXIS)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return (weights @ values).transpose(1, 2).contiguous(), weights
"""
SAID = "It returns heads after the length: (B, T, h, d_k)."


def _checked(folder, scale="scaling", axis="-1", more=""):
    return check_text(EAGER.replace("SCALE", scale).replace("AXIS", axis) + more, folder)


def test_attention_that_asks_its_module_is_judged(tmp_path):
    with time_to_look(1):
        found = _checked(tmp_path)
    assert {result.verdict for result in found.values()} == {"matches the builtin"}
    assert SAID in found["eager_attention"].notes


@pytest.mark.parametrize("scale, axis, wrong", [("scaling**2", "-1", "A1"), ("scaling", "-2", "A2")])
def test_its_mistakes_are_named(scale, axis, wrong, tmp_path):
    assert wrong in _checked(tmp_path, scale, axis)["eager_attention"].severe


def test_a_module_that_is_asked_for_what_nobody_knows_is_no_fault_of_the_kit(tmp_path):
    found = check_text(EAGER.replace("SCALE", "module.sharpness").replace("AXIS", "-1"), tmp_path)
    assert all(result.verdict != "not judged" for result in found.values())
