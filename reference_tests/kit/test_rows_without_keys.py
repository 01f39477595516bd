"""What is said of a query all of whose keys are blocked is what it gets: the mean, or NaN; whatever else is wrong."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.d_k = num_heads, d_model // num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.view(x.size(0), -1, self.h, self.d_k).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.wq(q)), self.split(self.wk(k)), self.split(self.wv(v))
        scores = q @ k.transpose(-2, -1)SCALED
        if mask is not None:
            scores = scores.masked_fill(mask == 0, FILL)
        x = scores.softmax(-1) @ v
        return self.wo(x.transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("scaled, ids", [(" / math.sqrt(self.d_k)", []), ("", ["A1"])])
@pytest.mark.parametrize("fill, form", [('float("-inf")', "NaN"), ("-1e9", "the mean over all values")])
def test_it_is_the_mean_or_nan_as_it_is_filled(scaled, ids, fill, form, tmp_path):
    found = check_text(ATTENTION.replace("SCALED", scaled).replace("FILL", fill), tmp_path)["MultiHeadAttention"]
    assert [id for id in found.ids if id != "A8"] == ids
    (said,) = (named for named in found.mistakes if named.id == "A11")
    assert (said.form, said.severity) == (form, "note")
