"""B26 of a module that nothing calls, where its output is needed; not of one that is handed on to be called."""

import pytest

from reference_tests.kit.learners.checked import check_text

LAYER = """
class Network(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Residual(nn.Module):
    def __init__(self, d_model, dropout):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.network = Network(d_model, d_ff)
        self.residuals = nn.ModuleList([Residual(d_model, dropout) for _ in range(2)])

    def forward(self, x):
        x = self.residuals[0](x, lambda x: self.attention(x, x, x)[0])
        return self.residuals[1](x, self.network)
"""


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("(x, self.network)", "(x, lambda x: self.network)", "in lambda x: self.network:"),
        ("(x, self.network)", ".norm(x + self.network)", "in x + self.network:"),
        ("(x, self.network)", ".norm(self.network)", "in self.residuals[1].norm(self.network):"),
        ("(x, self.network)", "(x, self.network)", ""),
    ],
)
def test_a_module_where_its_output_is_needed(old, new, said, tmp_path):
    result = check_text(LAYER.replace(old, new), tmp_path)["EncoderLayer"]
    assert result.severe == (["B26"] if said else []), result
    assert said in "".join(m.evidence for m in result.mistakes)


def test_what_a_part_that_is_handed_on_lacks_is_its_own(tmp_path):
    results = check_text(LAYER.replace("torch.relu(self.up(x))", "torch.relu(self.up(x)) * self.size"), tmp_path)
    (found,) = results["Network"].mistakes
    assert found.id == "B26" and "self.size" in found.evidence
    assert not any("nothing calls" in m.evidence for m in results["EncoderLayer"].mistakes)
