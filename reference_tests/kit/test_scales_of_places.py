"""A norm with scales for every place, of which it takes the first rows; and a layer with one such norm."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text

pytestmark = pytest.mark.long

NORMS = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, max_len, eps=1e-5):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(SIZES)), nn.Parameter(torch.zeros(SIZES))
        self.eps = eps

    def forward(self, x):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return self.gamma[ROWS] * (x - mean) / torch.sqrt(variance + self.eps) + self.beta[ROWS]


class RMSNorm(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(max_len, d_model))

    def forward(self, x):
        size = torch.linalg.norm(x, dim=(1, 2), keepdim=True) * x[0].numel() ** -0.5
        return self.scale[: x.shape[1]] * x / size
"""


@pytest.mark.parametrize(("sizes", "rows", "ids"), [
    ("max_len, d_model", ": x.shape[1]", ["LN4"]), ("d_model", ":", []), ("max_len, d_model", "0", []),
])  # fmt: skip
def test_scales_of_places_are_told_of(sizes, rows, ids, tmp_path):
    """The first row alone, for all places, is a scale as it should be, though a table of rows is kept."""
    result = check_text(NORMS.replace("SIZES", sizes).replace("ROWS", rows), tmp_path)["LayerNorm"]
    assert result.ids == ids, result
    if ids:
        assert result.verdict == "harmless deviation" and not any("Besides" in limit for limit in result.limits)
        assert "self.gamma and self.beta are (19, 12), for 19 tokens" in result.mistakes[0].evidence
        assert "first rows" in result.mistakes[0].does


BLOCK = """

class LlamaBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, max_len):
        super().__init__()
        self.rms, self.other = RMSNorm(max_len, d_model), RMSNorm(max_len, d_model)
        self.attention = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.SiLU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device), 1)
        x = self.rms(x)
        x = x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        x = self.SECOND(x)
        return x + self.network(x)
"""


@pytest.mark.parametrize(("second", "ids"), [("rms", ["B2", "B15"]), ("other", ["B2"])])
def test_the_one_norm_of_a_layer_is_told_of_whatever_its_weights(second, ids, tmp_path):
    text = NORMS.replace("SIZES", "d_model").replace("ROWS", ":") + BLOCK.replace("SECOND", second)
    results = check_text(text, tmp_path)
    norm, block = results["RMSNorm"], results["LlamaBlock"]
    assert {"LN3", "LN4", "LN7"} == {*norm.ids}
    over = next(one for one in norm.mistakes if one.id == "LN7")
    assert "torch.linalg.norm" in (IMPORTS + text).splitlines()[over.line - 1]
    assert [one.id for one in block.mistakes if one.id.startswith("B")] == ids and "LN7" in block.inherited, block
    lines = [(IMPORTS + text).splitlines()[one.line - 1].strip() for one in block.mistakes if one.id in ids]
    assert set(lines) == {"x = self.rms(x)"}
