"""Where the reference stands in for a part of the positions, it adds them, or gives them alone, as that part does."""

import pytest
from torch import nn

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.resolve.library.alone import returns_alone

pytestmark = pytest.mark.long

WORDS = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        places = torch.arange(max_len)[:, None] / torch.linspace(1, 9, d_model)
        self.register_buffer("table", (places.cos() + places.sin() ** 2).float())

    def forward(self, x):
        RETURNS


class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocab_size, d_model), PositionalEncoding(d_model)

    def forward(self, ids):
        words = self.words(ids)
        return SUM
"""
ALONE = "return self.table[: x.shape[1]]"
ADDED = "return x + self.table[: x.shape[1]]"
STOPS = "return self.tabel[: x.shape[1]]"
STOPS_AND_ADDS = "return x + self.tabel[: x.shape[1]]"
UNCLEAR = "return self.add_to(x)"


@pytest.mark.parametrize(("returns", "total", "ids"), [
    pytest.param(ALONE, "words + self.positions(words)", [], id="alone"),
    pytest.param(ALONE, "words + self.positions(ids)", [], id="alone, given ids"),
    pytest.param(ALONE, "words + words + self.positions(words)", ["P12"], id="alone, and the words twice"),
    pytest.param(ADDED, "self.positions(words)", [], id="added"),
    pytest.param(ADDED, "words + self.positions(words)", ["P12"], id="added twice"),
    pytest.param(STOPS, "words + self.positions(words)", [], id="alone, and stops"),
    pytest.param(STOPS_AND_ADDS, "words + self.positions(words)", ["P12"], id="added twice, and stops"),
    pytest.param(UNCLEAR, "words + self.positions(words)", [], id="stops, and nothing tells what it gives"),
    pytest.param(UNCLEAR, "self.positions(words)", [], id="stops, and is not added"),
])  # fmt: skip
def test_no_embedding_is_added_twice_by_what_stands_in_for_the_positions(returns, total, ids, tmp_path):
    code = WORDS.replace("RETURNS", returns).replace("SUM", total)
    whole = check_text(code, tmp_path)["Embedding"]
    assert [mistake.id for mistake in whole.mistakes] == ids, whole
    assert list(whole.replaced) == ["PositionalEncoding"], whole


class OfItsShape(nn.Module):
    def forward(self, x):
        length = x.size(1)
        codes = self.table[:, :length].type_as(x)
        return self.dropout(codes)


class OfItsIds(nn.Module):
    def forward(self, ids):
        return self.table[ids]


class Rebound(nn.Module):
    def forward(self, x):
        x = self.table[: len(x)]
        return x


class Adds(nn.Module):
    def forward(self, x):
        scaled = x * 3
        scaled += self.table[: x.shape[1]]
        return scaled


class Hands(nn.Module):
    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    ("part", "alone"), [(OfItsShape, True), (OfItsIds, True), (Rebound, True), (Adds, False), (Hands, None), (3, None)]
)
def test_whether_positions_are_returned_alone_is_told_by_the_text(part, alone):
    assert returns_alone(part) is alone
