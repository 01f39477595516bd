"""What is said of numbers that nothing explains: the first part whose output differs, of those that are comparable."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look

pytestmark = pytest.mark.long

MODEL = """
class Block(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_head, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        hidden = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        y = self.ln1(x)
        x = x + self.attn(y, y, y, attn_mask=hidden, need_weights=False)[0]
        return x + self.ff(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, n_head, n_layer, block_size):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, d_model)
        self.pos = nn.Embedding(block_size, d_model)
        self.blocks = nn.Sequential(*[Block(d_model, n_head) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1), device=idx.device))
        x = self.blocks(x)
        return self.head(self.ln_f(x).sinh())
"""


def test_positions_of_no_sentence_are_not_compared_with_those_that_are_added(tmp_path):
    with time_to_look(0.2):
        result = check_text(MODEL, tmp_path)["GPT"]
    assert result.verdict == "unknown mismatch"
    assert "first part whose output differs is projection" in result.divergence and "NaN" not in result.divergence
