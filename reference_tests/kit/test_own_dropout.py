"""A dropout of one's own: what it drops in training, what it makes of the rest, and that it drops nothing else."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

DROPOUT = """
class {name}(nn.Module):
    def __init__(self, p=0.1):
        super().__init__()
        self.p = p

    def forward(self, x):
        if {asked}:
            return x
        keep = ({drawn} > self.p).to(x.dtype)
        return {kept}
"""
RIGHT = {
    "name": "Dropout",
    "asked": "not self.training or self.p == 0",
    "drawn": "torch.rand_like(x)",
    "kept": "x * keep / (1 - self.p)",
}


@pytest.mark.parametrize(
    ("change", "ids", "said"),
    [
        ({}, [], ""),
        ({"name": "MyDropout", "kept": "x.masked_fill(keep == 0, 0) / (1 - self.p)"}, [], ""),
        ({"kept": "x * keep"}, ["B11"], "it multiplies what it keeps by 1, not by 1 / (1 - p) = 1.25"),
        ({"kept": "x * (1 - keep) / (1 - self.p)"}, ["B11"], "it sets 80% of its numbers to 0"),
        ({"asked": "self.p == 0"}, ["B12"], "After model.eval()"),
    ],
)
def test_what_it_drops_and_what_it_makes_of_the_rest(change, ids, said, tmp_path):
    (result,) = check_text(DROPOUT.format(**RIGHT | change), tmp_path).values()
    assert (result.kind, [one.id for one in result.mistakes]) == ("Dropout", ids), result
    assert not ids or said in result.mistakes[0].evidence
    assert ids or result.verdict == "matches the builtin"


def test_what_drops_whole_sentences_is_of_another_sort(tmp_path):
    change = {"name": "SentenceDropout", "drawn": "torch.rand(x.shape[0], 1, 1, device=x.device)"}
    assert not check_text(DROPOUT.format(**RIGHT | change), tmp_path)["SentenceDropout"].mistakes
    assert not check_text(DROPOUT.format(**RIGHT | change | {"name": "DropPath"}), tmp_path)
