"""A number of the file that a method reads, where the constructor is told one of the same name (B29)."""

import pytest

from reference_tests.kit.learners.checked import check_text

ATTENTION = """
width, heads = 16, 4
share = width // heads


class MultiHeadAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.width = heads, width
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length = x.shape[:2]
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        mixed = (scores.softmax(-1) @ v).transpose(1, 2)
        return self.out(mixed.reshape(batch, length, self.width))
"""
IN_A_LIST = ("self.width))", "*[width for _ in range(1)]))")


@pytest.mark.parametrize(
    "old, new, forms",
    [
        ("", "", []),
        ("length, self.width)", "length, width)", ["width"]),
        (*IN_A_LIST, ["width"]),
        ("3, self.heads, -1)", "3, heads, -1)", ["heads"]),
        ("        batch, length", "        width = x.shape[-1]\n        batch, length", []),
        ("        batch, length", "        assert width\n        batch, length", []),  # nothing comes of it
    ],
)
def test_a_method_reads_what_the_file_has_by_the_name_of_a_parameter(old, new, forms, tmp_path):
    source = ATTENTION.replace(old, new)
    assert (source != ATTENTION) == bool(old)
    result = check_text(source, tmp_path)["MultiHeadAttention"]
    found = [mistake for mistake in result.mistakes if mistake.id == "B29"]
    assert [mistake.form for mistake in found] == forms, result
    assert all("of the file" in m.evidence and new.strip() in m.shown + "\n" for m in found), found


def test_a_file_whose_numbers_are_told_to_nobody_is_as_many_are(tmp_path):
    source = ATTENTION.replace("__init__(self, width, heads)", "__init__(self)").replace(
        "length, self.width)", "length, width)"
    )
    result = check_text(source, tmp_path)["MultiHeadAttention"]
    assert result.ids == [], result
