"""A network whose two widths are told apart works with any two of them."""

import pytest

from reference_tests.kit.learners.checked import check_text

GATED = """
class SwiGLU(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1, self.w2 = nn.Linear(dim, hidden_dim, bias=False), nn.Linear(dim, hidden_dim, bias=False)
        self.w3 = nn.Linear(hidden_dim, dim, bias=False)

    def forward(self, x):
        gate = self.w1(x)
        gate = gate * torch.sigmoid(GATE)
        return self.w3(gate * self.w2(x))
"""


@pytest.mark.parametrize("gate, ids", [("self.w1(gate)", ["B26"]), ("gate", [])])
def test_a_network_that_works_with_one_width_alone_stops_with_two(gate, ids, tmp_path):
    found = check_text(GATED.replace("GATE", gate), tmp_path)["SwiGLU"]
    assert (found.verdict, found.ids) == ("mistake" if ids else "matches the builtin", ids)
    assert not found.unexplained
    assert all("self.w1(gate)" in named.code[named.line - named.first] for named in found.mistakes)
