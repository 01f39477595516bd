"""A29 of a part that loses one of two masks: a whole has it only where it hands that part both at once."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text, reported

pytestmark = pytest.mark.long

ATTENTION = """
class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.h, self.d = num_heads, dim // num_heads
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, memory=None, padding_mask=None, future_mask=None):
        b, t, e = x.shape
        source = x if memory is None else memory
        q = x @ self.qkv.weight[:e].T + self.qkv.bias[:e]
        k, v = (source @ self.qkv.weight[e:].T + self.qkv.bias[e:]).chunk(2, -1)
        q, k, v = (y.unflatten(-1, (self.h, self.d)).transpose(1, 2) for y in (q, k, v))
        scores = blocked = q @ k.transpose(-2, -1) / math.sqrt(self.d)
        if padding_mask is not None:
            blocked = scores.masked_fill(padding_mask[:, None, None, :] == 0, float("-inf"))
        if future_mask is not None:
            blocked = scores.masked_fill(future_mask == 0, float("-inf"))
        return self.o((blocked.softmax(-1) @ v).transpose(1, 2).reshape(b, t, e))
"""
BLOCK = """
class DecoderBlock(nn.Module):
    def __init__(self, dim, ff_dim, num_heads, dropout):
        super().__init__()
        self.own, self.cross = Attention(dim, num_heads), Attention(dim, num_heads)
        self.ff = nn.Sequential(nn.Linear(dim, ff_dim), nn.ReLU(), nn.Linear(ff_dim, dim))
        self.d1, self.d2, self.d3 = nn.Dropout(dropout), nn.Dropout(dropout), nn.Dropout(dropout)
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, memory, TAKEN):
        x = self.n1(x + self.d1(self.own(x, OWN)))
        x = self.n2(x + self.d2(self.cross(x, memory=memory, CROSS)))
        return self.n3(x + self.d3(self.ff(x)) * x.abs().cos())
"""
APART = {"TAKEN": "padding_mask=None, future_mask=None", "OWN": "future_mask=future_mask",
         "CROSS": "padding_mask=padding_mask"}  # fmt: skip
TOGETHER = {"TAKEN": "tgt_padding_mask=None, future_mask=None, memory_padding_mask=None",
            "OWN": "padding_mask=tgt_padding_mask, future_mask=future_mask",
            "CROSS": "padding_mask=memory_padding_mask"}  # fmt: skip


def _by_forward(words):
    """The same, its parts called by their forward, which no hook hears of."""
    return _block(words).replace("self.own(", "self.own.forward(").replace("self.cross(", "self.cross.forward(")


def _block(words):
    text = BLOCK
    for name, given in words.items():
        text = text.replace(name, given)
    return text


@pytest.mark.parametrize("block", [_block, _by_forward])
@pytest.mark.parametrize("words, is_there", [(APART, False), (TOGETHER, True)])
def test_a_whole_that_nothing_explains_has_it_only_where_it_gives_both_masks(words, is_there, block, tmp_path):
    results = check_text(ATTENTION + block(words), tmp_path)
    assert results["Attention"].severe == ["A29"], results["Attention"]
    block = results["DecoderBlock"]
    assert ("A29" in [*block.ids, *block.inherited]) == is_there, block


@pytest.mark.parametrize("words, ids", [(APART, []), (TOGETHER, ["A29"])])
def test_what_the_numbers_of_an_imported_part_say_is_not_said_of_the_whole(words, ids, tmp_path):
    (tmp_path / "attention.py").write_text(IMPORTS + ATTENTION)
    (tmp_path / "block.py").write_text(f"{IMPORTS}from attention import Attention\n{_block(words)}")
    (block,) = reported(tmp_path / "block.py").results
    assert [one.id for one in block.mistakes if one.severity == "mistake"] == ids, block
    assert (block.verdict == "mistake") == bool(ids)
    assert all(one.evidence.startswith("Of its Attention by itself: ") for one in block.mistakes if one.id == "A29")
