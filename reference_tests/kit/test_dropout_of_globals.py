"""How much is dropped may be a number outside of the class: where it is dropped is looked at all the same."""

import pytest

from reference_tests.kit.learners.checked import check_text

HEADS = """
n_embd, n_head, dropout = 384, 6, 0.2


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.weights, self.rest = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (n_head, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf)
        return self.rest(self.proj((self.weights(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm1, self.norm2 = CausalSelfAttention(), nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.up, self.down, self.dropout = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd), dropout
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.drop(self.down(torch.relu(self.up(self.norm2(x)))))
"""
CALLED = "F.dropout({}, dropout, self.training)"
SCORES = """        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf)
"""
WEIGHTS, DOWN = "self.weights(scores.softmax(-1))", "self.drop(self.down(torch.relu(self.up(self.norm2(x)))))"


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({}, []),
        ({WEIGHTS: "scores.softmax(-1)"}, ["A18"]),
        ({WEIGHTS: CALLED.format("scores.softmax(-1)")}, []),  # read when it is called: not looked at
    ],
)
def test_weights_that_are_not_dropped(changes, ids, tmp_path):
    text = HEADS
    for old, new in changes.items():
        text = text.replace(old, new)
    results = check_text(text.partition("class Block")[0], tmp_path)
    assert results["CausalSelfAttention"].ids == ids, results


def test_a_block_that_drops_no_sublayers_output(tmp_path):
    assert "B6" not in check_text(HEADS, tmp_path)["Block"].ids
    text = HEADS.replace("self.rest(self.proj(", "(self.proj(").replace(DOWN, DOWN.replace("self.drop(", "("))
    assert "B6" in check_text(text, tmp_path)["Block"].ids


@pytest.mark.parametrize(("share", "ids"), [("0.1", ["B12"]), ("0.1 if self.training else 0.0", [])])
def test_how_much_of_the_weights_is_dropped_is_told_to_torch(share, ids, tmp_path):
    weighed = "(self.weights(scores.softmax(-1)) @ v)"
    text = HEADS.replace(weighed, f"F.scaled_dot_product_attention(q, k, v, dropout_p={share}, is_causal=True)")
    result = check_text(text.replace(SCORES, ""), tmp_path)["CausalSelfAttention"]
    assert result.severe == ids
