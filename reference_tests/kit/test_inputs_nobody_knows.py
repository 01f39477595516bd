"""What stops with an input that the kit gave it for want of a better one: that is said."""

import pytest

from reference_tests.kit.learners.checked import check_text

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, Q, K, V, NAME):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f, x in ((self.q, Q), (self.k, K), (self.v, V)))
        hidden = torch.zeros(Q.size(0), 1, 1, K.size(1))
        for sample, number in enumerate(NAME):
            hidden[sample, :, :, K.size(1) - number :] = 1
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(hidden == 1, -torch.inf)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("name", ["pad", "counts"])
def test_what_the_kit_invented_is_said_with_the_error(name, tmp_path):
    result = check_text(ATTENTION.replace("NAME", name), tmp_path)["MultiHeadAttention"]
    said = f"its forward, given {name}=None as nothing tells what it is, stops with TypeError: 'NoneType' object is not"
    assert (result.verdict, result.problem[: len(said)]) == ("crashed", said)
