"""A fix names what is there: no x where there is none, no norm where none was made."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

LAYER = """
class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        MADE

    def forward(self, x):
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.down(torch.relu(self.up(x)))
"""


@pytest.mark.parametrize(
    "made, fix", [("", "self.norm1 = nn.LayerNorm(d_model)"), ("self.norm = nn.LayerNorm(d_model)", "Call the norm")]
)
def test_a_norm_that_was_never_made_is_made_first(made, fix, tmp_path):
    text = LAYER.replace("MADE", made).replace("Block", "EncoderLayer")
    found = [named for named in check_text(text, tmp_path)["EncoderLayer"].mistakes if named.id == "B14"]
    assert found and found[0].fix.startswith(fix), found


PLACES = """
class PositionalEmbedding(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, GIVEN):
        return self.table(torch.arange(0, LENGTH))[None]

class Embeddings(nn.Module):
    def __init__(self, vocab_size, d_model, max_len):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), PositionalEmbedding(max_len, d_model)

    def forward(self, ids):
        return self.words(ids) + self.places(HANDED)

device = "cuda" if torch.cuda.is_available() else "cpu"
"""


@pytest.mark.parametrize(
    "given, length, handed, fix",
    [
        ("seq_length", "seq_length", "ids.shape[1]", "device=next(self.parameters()).device"),
        ("tokens", "tokens.shape[1]", "ids", "device=tokens.device"),
        ("x", "x.shape[1]", "ids", "device=x.device"),
    ],
)
def test_a_tensor_is_made_where_something_is_that_there_is(given, length, handed, fix, tmp_path):
    text = PLACES.replace("GIVEN", given).replace("LENGTH", length).replace("HANDED", handed)
    results = check_text(text, tmp_path)
    found = [named for one in results.values() for named in one.mistakes if named.id == "B32"]
    assert found and fix in found[0].fix, results


NETWORK = """
class Config:
    def __init__(self, d_model=64, d_ff=256, FIELD=0.0):
        self.d_model, self.d_ff, self.FIELD = d_model, d_ff, FIELD

class FeedForward(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.up, self.down = nn.Linear(config.d_model, config.d_ff), nn.Linear(config.d_ff, config.d_model)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
"""


@pytest.mark.parametrize("field, ids", [("dropout", ["B7"]), ("attention_dropout", [])])
def test_the_dropout_of_attention_is_none_of_a_network(field, ids, tmp_path):
    result = check_text(NETWORK.replace("FIELD", field), tmp_path)["FeedForward"]
    assert [named.id for named in result.mistakes if named.id == "B7"] == ids, result


CORE = """
EPS = 1.2e-7

def attention(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    HIDDEN
    return scores.softmax(-1) @ v
"""


@pytest.mark.parametrize(
    "hidden, is_filled", [("scores = scores.masked_fill(mask == 0, -EPS)", True), ("scores = scores * mask", False)]
)
def test_a_fill_near_zero_is_told_from_a_product(hidden, is_filled, tmp_path):
    result = check_text(CORE.replace("HIDDEN", hidden), tmp_path)["attention"]
    (named,) = (found for found in result.mistakes if found.id == "A4")
    assert ("filled with a number near 0" in named.form) == is_filled
    assert hidden.strip() in named.shown


MODEL = """
class Model(nn.Module):
    def __init__(self, vocab_source, vocab_target, d_model):
        super().__init__()
        self.source, self.target = nn.Embedding(vocab_source, d_model), nn.Embedding(vocab_target, d_model)
        self.out = nn.Linear(d_model, vocab_target)

    def forward(self, ids_source, mask_source, ids_target, mask_target, is_training, odd):
        return self.out(self.target(ids_target) + self.source(ids_source).mean(1, keepdim=True) * odd["none"])
"""


def test_a_model_of_two_languages_is_asked_for_as_such(tmp_path):
    result = check_text(MODEL, tmp_path)["Model"]
    assert result.stub.startswith("def Transformer("), result
