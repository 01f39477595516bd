"""A head that is told its width by any name, and is built as wide as its model, tells √d_k from √d_model (A1)."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

HEAD = """
class Head(nn.Module):
    def __init__(self, SIZES):
        super().__init__()
        self.sizes, self.dropout = (SIZES), nn.Dropout(0.1)
        self.q, self.k, self.v = (nn.Linear(SIZES) for _ in range(3))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT * SCALE**-0.5
        return self.dropout(scores.softmax(-1)) @ self.v(x)
"""
PACKED = """
class Head(nn.Module):
    def __init__(self, SIZES):
        super().__init__()
        self.sizes = SIZES
        self.qkv = nn.Linear(self.sizes[0], 3 * self.sizes[1], bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return (q @ k.mT * SCALE**-0.5).softmax(-1) @ v
"""
WITH_AN_OUTPUT = """
class Head(nn.Module):
    def __init__(self, SIZES, drop=0.0):
        super().__init__()
        self.sizes = SIZES
        self.q, self.k, self.v = (nn.Parameter(torch.randn(SIZES)) for _ in range(3))
        self.out = nn.Linear(self.sizes[1], self.sizes[0])

    def forward(self, x):
        return self.out(((x @ self.q) @ (x @ self.k).mT * SCALE**-0.5).softmax(-1) @ (x @ self.v))
"""


@pytest.mark.parametrize("text, sizes", [
    (HEAD, "d_model, dim_out"), (HEAD, "embed_dim, width"), (HEAD, "d_model, proj_dim"), (HEAD, "in_dim, out_dim"),
    (HEAD, "d_model, d"), (PACKED, "dim, dim_out"), (WITH_AN_OUTPUT, "emb_size, attn_dim"),
])  # fmt: skip
def test_a_head_is_built_narrower_than_its_model_whatever_its_width_is_called(text, sizes, tmp_path):
    results = {}
    for scale in ("self.sizes[1]", "self.sizes[0]", "x.shape[-1]"):
        results[scale] = check_text(text.replace("SIZES", sizes).replace("SCALE", scale), tmp_path)["Head"]
    right, *wrong = results.values()
    assert right.verdict in FINE and "A1" not in right.ids, right
    assert all("A1" in one.ids and one.verdict == "mistake" for one in wrong), wrong
    assert "divides the scores of a head of 5 features by √12" in str(wrong), wrong


def test_a_number_that_makes_nothing_narrower_is_no_width(tmp_path):
    one = HEAD.replace("def __init__(self, SIZES)", "def __init__(self, dim, places, width=None)")
    one = one.replace("SIZES", "dim, dim").replace("SCALE", "self.sizes[0]")
    result = check_text(one, tmp_path)["Head"]
    assert result.verdict in FINE and "A1" not in result.ids, result
