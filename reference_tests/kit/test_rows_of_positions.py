"""A rotation that is given positions for every sample turns each sample by its own."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.rotary import FIRST_ROWS

ROTATION = """
class RotaryPositionalEmbedding(nn.Module):
    def __init__(self, theta, d_k, max_seq_len):
        super().__init__()
        angles = torch.outer(torch.arange(max_seq_len), theta ** (-torch.arange(0, d_k, 2) / d_k))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x, token_positions):
        if token_positions.dim() == 2:
            token_positions = ROWS
        cos, sin = self.cos[token_positions], self.sin[token_positions]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
"""


@pytest.mark.parametrize("rows, forms", [("token_positions[0]", [FIRST_ROWS]), ("token_positions.unsqueeze(1)", [])])
def test_every_sample_is_turned_by_its_own_positions(rows, forms, tmp_path):
    found = check_text(ROTATION.replace("ROWS", rows), tmp_path)["RotaryPositionalEmbedding"]
    assert [named.form for named in found.mistakes if named.id == "R9"] == forms
    assert all(rows in named.shown for named in found.mistakes)
    assert found.verdict == ("mistake" if forms else "matches the builtin")
