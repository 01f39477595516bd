"""A tensor on the CPU that what writes gives its model together with one on a GPU (B32)."""

import pytest

from reference_tests.kit.learners.checked import check_text

GREEDY = """
def greedy_decode(model, src, src_mask, max_len, start_symbol, end_symbol):
    ys = MADE
    for _ in range(max_len - 1):
        mask = torch.ones(ys.size(1), ys.size(1), dtype=torch.bool).tril()MOVED
        out = model(src, ys, src_mask, GIVEN)
        next_word = out[:, -1].argmax(-1)
        ys = torch.cat([ys, next_word[:, None]], dim=1)
        if next_word.item() == end_symbol:
            break
    return ys
"""
HERE, THERE = "torch.full((1, 1), start_symbol)", '.to("cuda")'


@pytest.mark.parametrize(
    "made, moved, given, is_found",
    [
        (HERE, THERE, "mask", True),
        ("torch.tensor([[start_symbol]]).long()", ".cuda()", "mask", True),
        (HERE, "", 'mask.to(device="cuda:0")', True),
        (HERE, "", "mask", False),
        (f"{HERE}.cuda()", THERE, "mask", False),
        ('torch.full((1, 1), start_symbol, device="cuda")', THERE, "mask", False),
        (f"{HERE}.type_as(src)", THERE, "mask", False),
        (HERE, ".to(src.device)", "mask", False),
    ],
)
def test_what_a_model_is_given_is_on_one_device(made, moved, given, is_found, tmp_path):
    text = GREEDY.replace("MADE", made).replace("MOVED", moved).replace("GIVEN", given)
    result = check_text(text, tmp_path)["greedy_decode"]
    assert result.ids == ["B32"] * is_found, result
    assert all(one.code[one.line - one.first].strip() == f"ys = {made}" for one in result.mistakes)
