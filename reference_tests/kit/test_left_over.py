"""What is left over is no mistake: positions nobody reads, a mask that a cached step needs, one of another sort."""

import pytest
import torch

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.call import beside, caching
from scratch_transformer.kit.resolve.call.masks import Form
from scratch_transformer.kit.resolve.call.plan import Plan

TABLES = """
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
"""
PADDED = """
class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = q @ k.mT * self.scale
        if mask is not None:
            mask = F.pad(mask.flatten(1), (1, 0), value=True)  # of all but the first token, which is the class's
            assert mask.shape[-1] == dots.shape[-1], "mask has incorrect dimensions"
            dots = dots.masked_fill(~(mask[:, None, None, :] & mask[:, None, :, None]), float("-inf"))
        return self.to_out((dots.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
NAMED = {TABLES: "apply_rotary_pos_emb", PADDED: "Attention"}


@pytest.mark.parametrize("text", NAMED, ids=NAMED.values())
def test_it_is_no_mistake(text, tmp_path):
    result = check_text(text, tmp_path)[NAMED[text]]
    assert result.verdict in FINE, result


@pytest.mark.long
@pytest.mark.parametrize(
    "text, old, new, id",
    [
        (TABLES, "(-second, first)", "(second, first)", ""),
        (PADDED, "** -0.5", "** 0.5", "A1"),
    ],
    ids=NAMED.values(),
)
def test_a_mistake_beside_it_is_still_named(text, old, new, id, tmp_path):
    assert old in text
    result = check_text(text.replace(old, new), tmp_path)[NAMED[text]]
    assert result.verdict not in FINE and id in ("", *(found.id for found in result.mistakes)), result


def test_a_piece_of_what_is_cached_is_given_the_mask_that_hides_the_future():
    causal = beside.Causal(Form("True = may attend", "(T, S)"))
    plan = Plan({"x": "ids"}, {"mask": causal}, mask_parameters=(("mask", "", True), ("other", "mask", True)))
    given = dict(caching._piece(plan, {"ids": torch.arange(10).reshape(2, 5)}, 1, 2))
    assert given["x"].tolist() == [[1, 2], [6, 7]] and given["other"] is None
    assert given["mask"].tolist() == [[True, True, False], [True, True, True]]
