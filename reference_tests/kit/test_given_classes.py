"""Classes that a constructor is given to make its parts of: the file's own go before torch's, and that is said."""

import pytest

from reference_tests.kit.learners.checked import check_text

LAYER = """
class AddedNorm(nn.Module):
    def __init__(self, width, share):
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(share)

    def forward(self, x, y):
        return self.norm(x + self.drop(y))


class BaseNorm(nn.Module):
    pass


class OwnNorm(BaseNorm):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gain, self.shift, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        spread = (x.var(-1, keepdim=True, unbiased=False) + self.eps).sqrt()
        return self.gain * (x - x.mean(-1, keepdim=True)) / spread + self.shift


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, inner, norm_cls: type):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.first, self.second = norm_cls(width), norm_cls(width)

    def forward(self, x):
        x = self.first(x + self.attention(x, x, x)[0])
        return self.second(x + self.network(x))
"""
SAID = "It makes its parts of classes that it is given: norm_cls={}."


@pytest.mark.parametrize(
    "old, new, ids, given",
    [("", "", [], "OwnNorm"), (", unbiased=False", "", ["LN1"], "OwnNorm"), ("OwnNorm", "Scaler", [], "LayerNorm")],
)
def test_a_norm_of_the_file_is_given_before_torchs(old, new, ids, given, tmp_path):
    result = check_text(LAYER.replace(old, new) if old else LAYER, tmp_path)["EncoderLayer"]
    assert [*result.ids, *result.inherited] == ids, result
    assert SAID.format(given) in result.limits, result.limits
