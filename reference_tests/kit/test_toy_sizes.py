"""A model that is worked through by hand has d_model=2 by default: a width, which the kit may choose, and no axis."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

BY_HAND = """
class PositionEncoding(nn.Module):
    def __init__(self, WIDTH=2, max_len=6):
        super().__init__()
        pe = torch.zeros(max_len, WIDTH)
        position = torch.arange(start=0, end=max_len, step=1).float().unsqueeze(1)
        index = torch.arange(start=0, end=WIDTH, step=2).float()
        div_term = 1 / torch.tensor(10000.0) ** (index / WIDTH)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, word_embeddings):
        return word_embeddings + self.pe[:word_embeddings.size(0), :]
"""


@pytest.mark.parametrize("width", ["d_model", "embed_size"])
@pytest.mark.parametrize("divisor, ids", [("10000.0", []), ("1000.0", ["P2"])])
def test_a_width_of_two_by_default_is_one(width, divisor, ids, tmp_path):
    text = BY_HAND.replace("WIDTH", width).replace("10000.0", divisor)
    result = check_text(text, tmp_path)["PositionEncoding"]
    assert (result.severe, result.verdict in FINE) == (ids, not ids), result


def test_a_width_that_is_written_in_is_not_said_to_fit_nothing(tmp_path):
    text = BY_HAND.replace("WIDTH=2, ", "").replace("WIDTH", "6").replace("size(0)", "size(1)")
    assert check_text(text, tmp_path)["PositionEncoding"].ids == []


DEMANDING = """
class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        DEMAND
        self.w1, self.w2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.w2(F.relu(self.w1(x)))
"""


@pytest.mark.parametrize(
    "demand",
    ["assert d_ff == 4 * d_model", "if 2 * d_model + 3 != d_ff: raise ValueError('no such d_ff')"],
)
@pytest.mark.parametrize("called, ids", [("F.relu(self.w1(x))", []), ("self.w1(x)", ["B16"])])
def test_a_size_that_another_must_have_is_given_it(demand, called, ids, tmp_path):
    text = DEMANDING.replace("DEMAND", demand).replace("F.relu(self.w1(x))", called)
    result = check_text(text, tmp_path)["FeedForward"]
    assert (result.ids, result.verdict in FINE) == (ids, not ids), result


@pytest.mark.parametrize("demand", ["assert d_ff == d_ff + d_model", "assert d_model == 2**11"])
def test_what_demands_what_no_size_can_be_is_not_built(demand, tmp_path):
    """Nor what demands a size that nobody thinks of."""
    text = DEMANDING.replace("DEMAND", demand)
    assert check_text(text, tmp_path)["FeedForward"].verdict == "could not be built"
