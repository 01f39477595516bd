"""A length that is written into a forward, torch.arange(16): it is judged with sequences of one length, as told."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.kind import ONE_LENGTH
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

MODEL = """
class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.h = n_head
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.up, self.down = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(self.ln1(x)).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH)
        later = torch.ones(scores.shape[-2:], device=x.device).triu(1).bool()
        x = x + self.proj((scores.masked_fill(later, float("-inf")).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, vocab_size, n_embd=32, n_head=4, n_layer=2, block_size=16):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block(n_embd, n_head) for _ in range(n_layer)])
        self.ln_f, self.lm_head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(LENGTH, device=idx.device))
        return self.lm_head(self.ln_f(self.blocks(x)))
"""


@pytest.mark.parametrize(
    "length, width, is_told, ids",
    [
        ("idx.shape[1]", "q.size(-1)", False, []),
        ("16", "q.size(-1)", True, []),
        ("16", "x.size(-1)", True, ["A1"]),
    ],
)
def test_the_rest_is_judged_all_the_same(length, width, is_told, ids, tmp_path):
    text = MODEL.replace("LENGTH", length).replace("WIDTH", width)
    result = check_text(text, tmp_path)["GPT"]
    told = [limit for limit in result.limits if limit == ONE_LENGTH or "length 16 is written in" in limit]
    assert len(told) == 2 * is_told, result
    found = result.severe + [id for id in result.inherited if id == "A1"]
    assert (result.verdict in FINE, found) == (not ids, ids), result
