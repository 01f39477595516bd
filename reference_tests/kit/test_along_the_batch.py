"""P4 of what attends along its first dimension, and says that this is the batch."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.embedding import ATTENTION_ALONG_IT
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

STACK = """
class Encoder(nn.Module):
    def __init__(self, d_model, nhead, d_ff, num_layers):
        super().__init__()
        layers = [nn.TransformerEncoderLayer(d_model, nhead, d_ff, FIRST) for _ in range(num_layers)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        SAID
        x = x.transpose(0, 1)
        for layer in self.layers:
            x = layer(x)
        return x.transpose(0, 1)
"""
BATCH_FIRST = "batch_first=True"
ATTENTION = """
class SelfAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, FIRST)

    def forward(self, x):
        SAID
        return self.attn(x, x, x)[0]
"""


@pytest.mark.parametrize(
    "text, first, said, ids",
    [
        (STACK, "", "# x: (batch, seq, d_model)", []),
        (STACK, BATCH_FIRST, "# x: (batch, seq, d_model)", ["P4"]),
        (STACK, BATCH_FIRST, "# x: (seq, batch, d_model)", []),
        (STACK, BATCH_FIRST, "pass", []),
        (STACK, BATCH_FIRST, "B, T, C = x.shape", ["P4"]),
        (STACK, BATCH_FIRST, "T, B, C = x.shape", []),
        (ATTENTION, "", "batch_size, seq_len, _ = x.size()", ["P4"]),
        (ATTENTION, BATCH_FIRST, "batch_size, seq_len, _ = x.size()", []),
        (ATTENTION, "", "seq_len, batch_size, _ = x.size()", []),
    ],
)
def test_the_samples_of_a_batch_are_not_to_attend_to_each_other(text, first, said, ids, tmp_path):
    (result,) = check_text(text.replace("FIRST", first).replace("SAID", said), tmp_path).values()
    found = [(one.id, one.form) for one in result.mistakes if one.severity == "mistake"]
    assert found == [(id, ATTENTION_ALONG_IT) for id in ids], result
    assert (result.verdict in FINE) == (not ids)


POSITIONS = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        pe, position = torch.zeros(max_len, d_model), torch.arange(max_len).unsqueeze(1)
        angles = position * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe.unsqueeze(1))

    def forward(self, x):
        SAID = x.shape
        return x + self.pe[:x.size(0)]
"""


@pytest.mark.parametrize("said, ids", [("B, T, D", ["P4"]), ("T, B, D", [])])
def test_what_a_forward_calls_its_sizes_is_heard_of_positions_too(said, ids, tmp_path):
    (result,) = check_text(POSITIONS.replace("SAID", said), tmp_path).values()
    assert result.severe == ids, result


MODEL = """
class GPTModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_heads, hidden_dim, num_layers, max_len=512):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab_size, embed_dim), nn.Embedding(max_len, embed_dim)
        layer = nn.TransformerEncoderLayer(embed_dim, num_heads, hidden_dim, batch_first=FIRST)
        self.blocks = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.head = nn.Linear(embed_dim, OUT)

    def forward(self, ids):
        T = ids.size(1)
        x = self.tok(ids) + self.pos(torch.arange(T, device=ids.device))
        return self.head(self.blocks(x, mask=MASK)POOLED)
"""
CAUSAL = "torch.ones(T, T, device=ids.device).triu(1).bool()"


@pytest.mark.parametrize("mask, ids", [(CAUSAL, []), ("None", ["A25"])])
@pytest.mark.parametrize("first, out, pooled", [
    ("False", "vocab_size", ""), ("True", "vocab_size", ""), ("False", "2", ".mean(dim=1)"), ("True", "2", ".mean(1)"),
])  # fmt: skip
def test_what_attends_along_the_batch_is_to_blame_and_not_its_positions(mask, ids, first, out, pooled, tmp_path):
    """With a mask as long as the sequences it stops, as there are not as many samples: with batch_first it is right."""
    text = MODEL.replace("FIRST", first).replace("OUT", out).replace("POOLED", pooled).replace("MASK", mask)
    result = check_text(text, tmp_path)["GPTModel"]
    along = [("P4", ATTENTION_ALONG_IT)] if first == "False" else []
    found = [(one.id, one.form) for one in result.mistakes if one.severity == "mistake"]
    assert found == [*along, *((id, "") for id in ids)], result
    lines = [one.shown for one in result.mistakes if one.id == "P4"]
    assert all("nn.TransformerEncoderLayer(" in line for line in lines)


TURNED = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.h, -1)).movedim(2, 1) for y in self.qkv(x).chunk(3, -1))
        weights = (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)
        return self.out((weights @ v).movedim(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = Attention(d_model, num_heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.network(x))


class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])

    def forward(self, ids):
        SAID
        x = self.embedding(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        x = x.transpose(0, 1)
        for layer in self.layers:
            x = layer(x)
        return x.transpose(0, 1)
"""


@pytest.mark.parametrize("said, form", [("pass", ATTENTION_ALONG_IT), ("T, B = ids.shape", "")])
def test_a_transposition_before_attention_of_ones_own(said, form, tmp_path):
    """Where the length is said to come first, the positions are wrong, and attention is not."""
    result = check_text(TURNED.replace("SAID", said), tmp_path)["Encoder"]
    assert [(one.id, one.form) for one in result.mistakes if one.severity == "mistake"] == [("P4", form)], result


OF_A_SENTENCE = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(d_model, d_k) for _ in range(3))

    def forward(self, x):
        # (batch_size, seq_len, d_model)
        q, k, v = self.query(x), self.key(x), self.value(x)
        return (q @ TURNED / k.shape[-1] ** 0.5).softmax(-1) @ v
"""


def test_a_comment_is_no_evidence_where_the_code_stops_with_what_it_says(tmp_path):
    """Tokens attend to tokens in a sentence without a batch, which is all that it can be given."""
    (result,) = check_text(OF_A_SENTENCE.replace("TURNED", "k.T"), tmp_path).values()
    assert not result.severe, result
    assert any("(batch_size, seq_len, d_model)" in limit and "q @ k.T" in limit for limit in result.limits)
    (result,) = check_text(OF_A_SENTENCE.replace("TURNED", "k.mT"), tmp_path).values()
    assert result.verdict in FINE and not any("With a batch" in limit for limit in result.limits), result


OF_ONE = """
class SelfAttention(nn.Module):
    \"\"\"SAID\"\"\"

    def __init__(self, width):
        super().__init__()
        self.to_q, self.to_k, self.to_v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.width = width

    def forward(self, x):
        q, k, v = self.to_q(x), self.to_k(x), self.to_v(x)
        return torch.softmax(q @ TURNED / self.width**0.5, dim=-1) @ v
"""


@pytest.mark.parametrize("said, turned, is_told", [
    ("Attention of x: (batch, length, width).", "k.T", True),
    ("Attention of x: (length, width).", "k.T", False),
    ("Heads are of (batch, length, width).", "k.T", False),
    ("Attention of x: (batch, length, width).", "k.transpose(-2, -1)", False),
])  # fmt: skip
def test_what_takes_one_sentence_and_says_that_it_takes_several_is_told(said, turned, is_told, tmp_path):
    result = check_text(OF_ONE.replace("SAID", said).replace("TURNED", turned), tmp_path)["SelfAttention"]
    told = [limit for limit in result.limits if "With a batch it stops" in limit]
    assert (len(told) == 1 and "q @ k.T" in told[0]) == is_told and result.verdict in FINE
