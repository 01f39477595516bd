"""How wide what comes out of a network is: the parameter says it in words that may count a vocabulary, too."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.resolve.trials.adjust import ANOTHER_WIDTH, NO_SECOND

pytestmark = pytest.mark.long

NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, SIZES):
        super().__init__()
        self.wide = nn.Linear(num_inputs, num_hidden)
        self.narrow = nn.Linear(num_hidden, OUT)

    def forward(self, x):
        return COMPUTED
"""
RIGHT, AT_THE_END = "self.narrow(torch.relu(self.wide(x)))", "torch.relu(self.narrow(self.wide(x)))"


def _checked(computed, out, folder):
    text = NETWORK.replace("SIZES", f"num_inputs, num_hidden, {out}").replace("OUT", out).replace("COMPUTED", computed)
    return check_text(text, folder)["FeedForward"]


@pytest.mark.parametrize("out", ["num_outputs", "ffw_num_outputs"])
def test_a_number_of_outputs_is_a_width(out, tmp_path):
    with time_to_look(1):
        assert _checked(RIGHT, out, tmp_path).verdict == "matches the builtin"
    assert _checked(AT_THE_END, out, tmp_path).ids == ["B17"]


def test_a_second_map_of_another_width_is_not_called_missing(tmp_path):
    text = NETWORK.replace("SIZES", "d_model, d_ff").replace("OUT", "3").replace("COMPUTED", RIGHT)
    text = text.replace("num_inputs", "d_model").replace("num_hidden", "d_ff")
    limits = check_text(text, tmp_path)["FeedForward"].limits
    assert ANOTHER_WIDTH in limits and NO_SECOND not in limits
