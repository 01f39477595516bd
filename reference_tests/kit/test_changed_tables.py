"""Tables of positions with which something is done afterwards: their frequencies are told all the same (P2)."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

TABLE = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=100):
        super().__init__()
        table = torch.zeros(max_len, d_model)
        for pos in range(max_len):
            for i in range(0, d_model, 2):
                table[pos, i] = math.sin(pos / 10000 ** (EXPONENT / d_model))
                table[pos, i + 1] = math.cos(pos / 10000 ** (EXPONENT / d_model))
        AFTERWARDS
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.shape[1]]
"""
OF_LENGTH_ONE = "table = table / table.norm(dim=-1, keepdim=True)"
STANDARDIZED = "table = (table - table.mean()) / table.std()"
CUBED = "table = table ** 3"
NAN_FIRST = "table = table / torch.arange(max_len).clamp(max=1).unsqueeze(1) / table.norm(dim=-1, keepdim=True)"


@pytest.mark.parametrize(("exponent", "afterwards", "ids", "said"), [
    ("2 * i", "", ["P2"], ""), ("2 * i", OF_LENGTH_ONE, ["P2"], "length of 1"), ("i", OF_LENGTH_ONE, [], "length of 1"),
    ("2 * i", STANDARDIZED, ["P2"], "times"), ("2 * i", CUBED, [], ""), ("2 * i", NAN_FIRST, ["P2"], "length of 1"),
])  # fmt: skip
def test_frequencies_are_told_whatever_is_done_with_the_table(exponent, afterwards, ids, said, tmp_path):
    text = TABLE.replace("EXPONENT", exponent).replace("AFTERWARDS", afterwards)
    result = check_text(text, tmp_path)["PositionalEncoding"]
    assert result.ids == ids, result
    assert result.verdict == ("mistake" if ids else "unknown mismatch")
    assert result.unexplained == (bool(ids) and bool(afterwards))
    assert [said in limit for limit in result.limits if "not the reference's" in limit] == [True] * bool(said)
    assert any("NaN" in limit and "positions 0" in limit for limit in result.limits) == (afterwards == NAN_FIRST)


@pytest.mark.parametrize(("more", "reads", "is_named"), [
    ('self.register_buffer("other", table.unsqueeze(0))', "", True),
    ("self.other = nn.Embedding(max_len, d_model)", "", True),
    ('self.register_buffer("other", table[:1])', "+ 0 * self.other[:1]", False), ("pass", "", False),
])  # fmt: skip
def test_a_second_table_that_nothing_reads_is_told_of(more, reads, is_named, tmp_path):
    text = TABLE.replace("EXPONENT", "i").replace("AFTERWARDS", more)
    text = text.replace("return x + self.table[: x.shape[1]]", f"return x + self.table[: x.shape[1]] {reads}")
    result = check_text(text, tmp_path)["PositionalEncoding"]
    assert result.ids == ["B30"] * is_named, result
    costs = "mistake" if "Embedding" in more else "harmless deviation"  # weights that are never trained, or memory
    assert result.verdict == (costs if is_named else "matches the builtin")
    for named in result.mistakes if is_named else ():
        assert named.id != "B30" or more in named.shown
