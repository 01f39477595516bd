"""One norm for both sublayers, whose scale and shift are one number each: no number tells it from two."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

BLOCK = """
class Norm(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.alpha, self.bias, self.eps = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1)), eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.alpha * centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + self.eps) + self.bias


class Residual(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.norm, self.dropout = Norm(), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.residual = nn.ModuleList(MADE)

    def forward(self, x, mask=None):
        hidden = None if mask is None else ~mask
        x = self.residual[0](x, lambda x: self.attn(x, x, x, key_padding_mask=hidden)[0])
        return self.residual[1](x, lambda x: self.down(torch.relu(self.up(x))))
"""


@pytest.mark.parametrize("made, is_one", [
    ("[Residual(dropout)] * 2", True), ("[Residual(dropout) for _ in range(2)]", False),
])  # fmt: skip
def test_one_norm_for_both_sublayers_is_told_of(made, is_one, tmp_path):
    block = check_text(BLOCK.replace("MADE", made), tmp_path)["EncoderBlock"]
    assert ("B15" in {m.id for m in block.mistakes}) == is_one and "LN4" in block.inherited, block
    for named in (m for m in block.mistakes if m.id == "B15"):
        assert named.severity == "harmless" and "* 2" in named.shown
