"""What turns pairs of features by a table that it is given is judged with the one that its file makes, too."""

import pytest
import torch

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit import check

pytestmark = pytest.mark.long

ANGLES = "torch.outer(torch.arange(max_len).float(), base ** (-torch.arange(0, dim, 2).float() / dim))"
FUNCTION = f"""
def rope_tables(dim, max_len, base=10000.0):
    angles = {ANGLES}
    both = TABLE
    return both.cos(), both.sin()
"""
CLASS = f"""
class RotaryEmbedding(nn.Module):
    def __init__(self, dim, max_len, base=10000.0):
        super().__init__()
        angles = {ANGLES}
        both = TABLE
        self.register_buffer("cos", both.cos(), persistent=False)
        self.register_buffer("sin", both.sin(), persistent=False)

    def forward(self, seq_len):
        return self.cos[:seq_len], self.sin[:seq_len]
"""
TURNED = """
def turned(x):
    return PAIRED


def apply_rotary(x, cos, sin):
    return x * cos + turned(x) * sin
"""
HALVES, NEIGHBOURS = "torch.cat((angles, angles), dim=-1)", "angles.repeat_interleave(2, dim=-1)"
ACROSS = "torch.cat((-x[..., x.size(-1) // 2 :], x[..., : x.size(-1) // 2]), dim=-1)"
BESIDE = "torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)"
OTHER = "\n\ndef apply_rotary_to_halves(x, cos, sin):\n    return x * cos + across(x) * sin\n"


@pytest.mark.parametrize("made", [FUNCTION, CLASS], ids=["function", "class"])
@pytest.mark.parametrize("table, paired, more, ids", [
    (HALVES, ACROSS, "", []), (NEIGHBOURS, BESIDE, "", []),
    (HALVES, BESIDE, "", ["R1"]), (NEIGHBOURS, ACROSS, "", ["R1"]),
    (HALVES, BESIDE, f"\n\ndef across(x):\n    return {ACROSS}{OTHER}", []),
])  # fmt: skip
def test_pairs_are_turned_by_the_angles_that_the_file_makes_for_them(made, table, paired, more, ids, tmp_path):
    """more: another function, which the table may be for."""
    text = made.replace("TABLE", table) + "\n" + TURNED.replace("PAIRED", paired) + more
    results = check_text(text, tmp_path)
    assert results["apply_rotary"].ids == ids, results["apply_rotary"]
    assert results["rope_tables" if made is FUNCTION else "RotaryEmbedding"].verdict == "matches the builtin"


PARTLY = """
def apply_rotary_pos_emb(query, key, cos, sin, rotary_dim):
    turned, rest = [x[..., :rotary_dim] for x in (query, key)], [x[..., rotary_dim:] for x in (query, key)]
    crossed = [torch.stack((SIGNx[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2) for x in turned]
    turned = [x * cos + y * sin for x, y in zip(turned, crossed)]
    return tuple(torch.cat(both, dim=-1) for both in zip(turned, rest))
"""


@pytest.mark.parametrize("sign, ids", [("-", []), ("", ["R6"])])
def test_what_is_told_how_many_features_to_turn_is_told_all(sign, ids, tmp_path):
    result = check_text(PARTLY.replace("SIGN", sign), tmp_path)["apply_rotary_pos_emb"]
    assert (result.verdict == "matches the builtin", result.ids) == (not ids, ids), result


def beside(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    crossed = [torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2) for x in (q, k)]
    return q * cos + crossed[0] * sin, k * cos + crossed[1] * sin


def beside_without_minus(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    crossed = [torch.stack((x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2) for x in (q, k)]
    return q * cos + crossed[0] * sin, k * cos + crossed[1] * sin


def of_every_sentence(x, sin, cos):
    sin, cos = (one[:, :, None, :].repeat_interleave(2, dim=3) for one in (sin, cos))
    return x * cos + torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2) * sin


def backwards_in_every_sentence(x, sin, cos):
    return of_every_sentence(x, -sin, cos)


def by_complex_numbers(q, k, freqs_cis):
    pairs = [torch.view_as_complex(x.unflatten(-1, (-1, 2))) * freqs_cis[:, :, None, :] for x in (q, k)]
    return tuple(torch.view_as_real(one).flatten(-2) for one in pairs)


@pytest.mark.parametrize("turns, ids", [
    (beside, []), (beside_without_minus, ["R6"]), (by_complex_numbers, []),
    (of_every_sentence, []), (backwards_in_every_sentence, ["R7"]),
])  # fmt: skip
def test_what_may_be_right_with_another_table_is_right_in_this_process_too(turns, ids):
    """The first table that explains it is of the other pairs."""
    result = check(turns, "RotaryEmbedding")
    assert (result.verdict == "matches the builtin", result.ids) == (not ids, ids), result
