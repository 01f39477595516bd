"""Models of vectors, which the kit puts embeddings around, are built again as others: what they leave on the CPU."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:enable_nested_tensor")]

MODEL = """
class Transformer(nn.Module):
    def __init__(self, width, heads, inner, depth, max_len):
        super().__init__()
        self.core = nn.Transformer(width, heads, depth, depth, inner, batch_first=True)
        KEPT

    def forward(self, src, tgt):
        t = tgt.size(1)
        return self.core(src, tgt, tgt_mask=GIVEN)
"""
HIDDEN = "torch.full((max_len, max_len), -torch.inf).triu(1)"
BUFFER, MADE = f'self.register_buffer("hidden", {HIDDEN}, persistent=False)', "torch.full((t, t), -torch.inf{}).triu(1)"


@pytest.mark.parametrize("kept, given, ids", [
    (f"self.hidden = {HIDDEN}", "self.hidden[:t, :t]", ["A30"]),
    (BUFFER, "self.hidden[:t, :t]", []),
    ("", MADE.format(""), ["B32"]),
    ("", MADE.format(", device=tgt.device"), []),
])  # fmt: skip
def test_what_a_model_of_vectors_leaves_on_the_cpu(kept, given, ids, tmp_path):
    result = check_text(MODEL.replace("KEPT", kept).replace("GIVEN", given), tmp_path)["Transformer"]
    assert result.verdict in ("mistake", "harmless deviation"), result
    assert [one.id for one in result.mistakes if one.id in ("A30", "B32")] == ids, result
    assert "inner" not in "".join(one.form + one.evidence for one in result.mistakes)
