"""Positions that are written out, torch.LongTensor([[1, 2, 3, 4, 0]]): B26, and what is behind them is judged."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, reported
from scratch_transformer.kit.kinds.inputs import T

pytestmark = pytest.mark.long

TEXT = """
class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.h = n_head
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.up, self.down = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(self.ln1(x)).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        later = torch.ones(scores.shape[-2:], device=x.device).triu(1).bool()
        x = x + self.proj((scores.masked_fill(later, float("-inf")).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


def table_of_sines(length, width):
    angles = torch.arange(length)[:, None] / 10000 ** (EXPONENT / width)
    table = torch.zeros(length, width)
    table[:, 0::2], table[:, 1::2] = angles[:, 0::2].sin(), angles[:, 1::2].cos()
    return table


class GPT(nn.Module):
    def __init__(self, vocab_size, n_embd=32, n_head=4, n_layer=2, block_size=16):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, n_embd)
        self.pos_emb = TABLE
        self.blocks = nn.Sequential(*[Block(n_embd, n_head) for _ in range(n_layer)])
        self.ln_f, self.lm_head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size)

    def forward(self, idx):
        x = self.tok(idx) + self.pos_emb(WRITTEN)
        return self.lm_head(self.ln_f(self.blocks(x)))
"""
FIXED = "nn.Embedding.from_pretrained(table_of_sines(block_size, n_embd), freeze=True)"
LEARNED = "nn.Embedding(block_size, n_embd)"
EXPONENT = "(torch.arange(width) // 2 * 2)"
AS_LONG = ", ".join(map(str, [*range(1, T), 0]))
"""As many as the tokens that the kit gives: nothing stops."""


def _result(tmp_path, **changes):
    text = IMPORTS + TEXT
    for word, said in {"EXPONENT": EXPONENT, **changes}.items():
        text = text.replace(word, said)
    path = tmp_path / "fixed.py"
    path.write_text(text)
    return next(one for one in reported(path).results if one.name == "GPT")


@pytest.mark.parametrize("table", [FIXED, LEARNED], ids=["fixed", "learned"])
@pytest.mark.parametrize("numbers", ["0, 1, 2, 3, 4, 5, 6, 7, 8", "1, 2, 3, 0", AS_LONG])
def test_they_are_told_of_and_the_rest_is_judged(numbers, table, tmp_path):
    result = _result(tmp_path, TABLE=table, WRITTEN=f"torch.LongTensor([[{numbers}]])")
    (found,) = [one for one in result.mistakes if one.severity == "mistake"]
    assert found.id == "B26" and f"[[{numbers}]]" in found.evidence and "count up" not in found.evidence, result
    assert any("torch.arange(idx.size(1), device=idx.device)" in line for line in found.put), found
    assert not result.unexplained and any("repaired, what is left is harmless" in one for one in result.limits), result


def test_another_order_is_told_of(tmp_path):
    result = _result(tmp_path, TABLE=LEARNED, WRITTEN="torch.tensor([[5, 1, 2, 3, 4]])")
    (found,) = [one for one in result.mistakes if one.severity == "mistake"]
    assert found.id == "B26" and "another order" in found.evidence, result


def test_a_mistake_behind_them_is_named(tmp_path):
    written = f"torch.LongTensor([[{AS_LONG}]])"
    result = _result(tmp_path, TABLE=FIXED, WRITTEN=written, EXPONENT="torch.arange(width)")
    assert "P2" in [*result.ids, *result.inherited] and "B26" in result.ids, result


def test_what_counts_its_tokens_is_none_of_these(tmp_path):
    result = _result(tmp_path, TABLE=FIXED, WRITTEN="torch.arange(idx.size(1), device=idx.device)")
    assert "B26" not in result.ids and result.verdict != "unknown mismatch", result
