"""A mask of 0 and 1 may be numbers: 1 - mask is right then, and wrong of a boolean mask that the code makes itself."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

FLIPPED = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, attention_mask=None):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.q, self.k, self.v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            attention_mask = MADE
            scores = scores + (1.0 - attention_mask[:, None, None]) * -1e9
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize(
    "made, scale, ids",
    [
        ("attention_mask", "math.sqrt(q.shape[-1])", []),
        ("attention_mask", "q.shape[-1]", ["A1"]),
        ("attention_mask != 0", "math.sqrt(q.shape[-1])", ["A34"]),
    ],
)
@pytest.mark.long
def test_a_mask_is_of_the_type_that_the_code_takes(made, scale, ids, tmp_path):
    text = FLIPPED.replace("MADE", made).replace("math.sqrt(q.shape[-1])", scale)
    result = check_text(text, tmp_path)["SelfAttention"]
    assert (result.severe, result.verdict in FINE) == (ids, not ids), result


OF_BYTES = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, attention_mask):
        assert isinstance(x, torch.FloatTensor) and isinstance(attention_mask, torch.ByteTensor)
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.q, self.k, self.v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        scores.masked_fill_(BLOCKED, -math.inf)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("blocked, ids", [
    ("(1 - attention_mask[:, None]).bool()", []), ("1 - attention_mask[:, None]", ["A34"]),
])  # fmt: skip
@pytest.mark.long
def test_a_mask_that_is_asked_to_be_of_bytes_is_taken_for_one(blocked, ids, tmp_path):
    result = check_text(OF_BYTES.replace("BLOCKED", blocked), tmp_path)["SelfAttention"]
    assert result.severe == ids and not result.limits, result


START = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, dropout, batch_first=True)

    def forward(self, x):
        return self.layer(x + torch.empty_like(x).uniform_(-SIZE, SIZE))
"""


@pytest.mark.parametrize("size, ids", [("1e-12", []), ("1e-1", ["B21"])])
@pytest.mark.long
def test_random_numbers_next_to_zero_are_no_weights_and_no_dropout(size, ids, tmp_path):
    assert check_text(START.replace("SIZE", size), tmp_path)["EncoderLayer"].severe == ids
