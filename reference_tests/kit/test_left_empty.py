"""Parameters that nothing fills (B22): what each is to start with, and that a file which only loads them may do so."""

import pytest

from reference_tests.kit.learners.checked import check_text

NORM = """
class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.empty(width)), eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
"""
NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.linear1.LEFT = nn.Parameter(torch.empty(SHAPE))

    def forward(self, x):
        return self.linear2(torch.relu(self.linear1(x)))
"""
BIAS = NETWORK.replace("LEFT", "bias").replace("SHAPE", "d_ff")
MATRIX = NETWORK.replace("LEFT", "weight").replace("SHAPE", "d_ff, d_model")
LOADS = "\ndef load(path):\n    model = RMSNorm(12)\n    model.load_state_dict(torch.load(path))\n    return model\n"
TRAINS = "\ndef step(model, x):\n    model(x).mean().backward()\n"


@pytest.mark.parametrize("text, fix", [
    (NORM, "self.weight = nn.Parameter(torch.ones(…)): a norm's scale starts at 1."),
    (BIAS, "self.bias = nn.Parameter(torch.zeros(…)): it starts at 0."),
    (MATRIX, "nn.init.xavier_uniform_(self.weight) after nn.Parameter(torch.empty(...))"),
])  # fmt: skip
def test_what_it_is_to_start_with(text, fix, tmp_path):
    (result,) = check_text(text, tmp_path).values()
    (found,) = [one for one in result.mistakes if one.id == "B22"]
    assert (found.severity, found.fix[: len(fix)]) == ("mistake", fix)


@pytest.mark.parametrize("more, severity", [(LOADS, "note"), (LOADS + TRAINS, "mistake"), (TRAINS, "mistake")])
def test_what_is_only_loaded_needs_no_first_values(more, severity, tmp_path):
    result = check_text(NORM + more, tmp_path)["RMSNorm"]
    assert [one.severity for one in result.mistakes if one.id == "B22"] == [severity]
    assert (result.verdict == "mistake") == (severity == "mistake")
