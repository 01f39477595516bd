"""Layers that add_module names, and a loop over them in a class of its own."""

import pytest

from reference_tests.kit.learners.checked import check_text

STACK = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, n_head, batch_first=True)
        self.up, self.down = nn.Linear(d_model, 24), nn.Linear(24, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.down(torch.relu(self.up(x))))


class InTurn(nn.Sequential):
    def forward(self, x):
        for module in self:
            FED = module(x)
        return FED


class Encoder(nn.Module):
    def __init__(self, d_model, n_stack, n_head):
        super().__init__()
        self.layer = InTurn()
        for i in range(n_stack):
            self.layer.add_module(f"EncoderLayer_{i}", EncoderLayer(d_model, n_head))

    def forward(self, x):
        return self.layer(x)
"""


@pytest.mark.parametrize("fed, ids", [("x", []), ("y", ["B19"])])
def test_of_layers_that_all_get_the_first_input_the_last_one_counts(fed, ids, tmp_path):
    """It is not made of the first alone (B28): it is the first on which nothing depends."""
    result = check_text(STACK.replace("FED", fed), tmp_path)["Encoder"]
    assert result.severe == ids
