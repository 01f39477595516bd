"""What is said of mistakes in parts of other files, and of several that are made together."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import Result
from scratch_transformer.kit.report.words import inherited_by

pytestmark = pytest.mark.long


@pytest.mark.parametrize("parts, said", [
    ([], "A: contains a part with LN1, B6, explained there."),
    (["Norm of norm.py"], "A: contains a part with LN1, B6 (Norm of norm.py): check that file, too."),
    (["Norm of norm.py", "Sum of sum.py"],
     "A: contains a part with LN1, B6 (Norm of norm.py, Sum of sum.py): check those files, too."),
])  # fmt: skip
def test_ids_and_classes_are_two_lists(parts, said):
    assert [*inherited_by([Result("A", "a.py:1", "K", inherited=["LN1", "B6"], unreported=parts)])] == [said]


DECODER = """
class Attention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value):
        q, k, v = self.q(query), self.k(key), self.v(value)
        return self.o(torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=1) @ v)


class DecoderLayer(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.own, self.other = Attention(d_model), Attention(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, memory):
        x = self.norm1(x + self.own(x, x, x))
        x = self.norm2(x + self.other(x, memory, memory))
        return self.norm3(x + self.network(x))
"""


def test_the_numbers_speak_of_a_mistake_by_the_name_it_is_given(tmp_path):
    layer = check_text(DECODER, tmp_path)["DecoderLayer"]
    said = {named.id: named.evidence for named in layer.mistakes}
    assert "A2 and A25 make together" in said["A25"] and "A24" not in said["A25"], said
