"""What a part of a part has and does not use stands in nobody's way: the rest of its weights are found."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, LESS, check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

LAYERS = """
class LayerNormalization(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.layer_norm, self.eps = nn.LayerNorm(d_model, eps=eps), eps
        self.gamma, self.beta = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return self.gamma * (x - mean) / torch.sqrt(variance + self.eps) + self.beta


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.ln1, self.ln2 = LayerNormalization(d_model), LayerNormalization(d_model)

    def forward(self, x):
        x = self.ln1(x + self.attention(x, x, x)[0])
        return self.ln2(x + self.network(x))


class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
BY_TORCH = LAYERS.replace("self.gamma * (x - mean) / torch.sqrt(variance + self.eps) + self.beta", "self.layer_norm(x)")


@pytest.mark.parametrize("text", [LAYERS, BY_TORCH], ids=["its own", "torch's"])
def test_of_two_norms_in_one_that_which_is_used_counts(text, tmp_path):
    results = check_text(text, tmp_path)
    assert {name: result.verdict in FINE for name, result in results.items()} == dict.fromkeys(results, True)
    said = {"EncoderLayer": "Nothing depends on its ln1", "Encoder": "Nothing depends on its layers.ln1"}
    assert all(any(note.startswith(words) for note in results[name].notes) for name, words in said.items())


@pytest.mark.parametrize(
    "old, new, id",
    [("unbiased=False", "unbiased=True", "LN1"), ("x = self.ln1(x + self", "x = x + self.ln1(self", "B3")],
)
def test_a_mistake_beside_it_is_named(old, new, id, tmp_path):
    assert old in LAYERS
    for name, result in check_text(LAYERS.replace(old, new), tmp_path).items():
        named = [*(one.id for one in result.mistakes), *result.inherited]
        assert name == "LayerNormalization" or (result.verdict == "mistake" and id in named), (name, result)


UNUSED_NORM = """
class LayerNormalization(nn.Module):
    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps, self.alpha, self.bias = eps, nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.alpha * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.bias


class ResidualConnection(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout, self.norm = nn.Dropout(dropout), LayerNormalization()

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(x))
"""


def test_a_norm_that_is_made_and_not_used_is_no_weight_to_leave_out(tmp_path):
    result = check_text(UNUSED_NORM, tmp_path)["ResidualConnection"]
    assert (result.verdict, "B14" in [named.id for named in result.mistakes]) == ("mistake", True)


THREE_NORMS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.h = n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        pairs = zip((self.q, self.k, self.v), (q, k, v))
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f, x in pairs)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.self_attn, self.cross_attn = MultiHeadAttention(d_model, n_heads), MultiHeadAttention(d_model, n_heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, tgt_mask, src_mask):
        x = self.norm1(x + self.self_attn(x, x, x, tgt_mask))
        x = self.NORM2(x + self.cross_attn(x, memory, memory, src_mask))
        return self.NORM3(x + self.ffn(x))
"""


@pytest.mark.parametrize("second, third, is_named", [
    ("norm2", "norm3", False), ("norm1", "norm3", True), ("norm2", "norm2", True), ("norm2", "norm1", True),
])  # fmt: skip
def test_a_norm_that_is_used_in_place_of_another_sublayers_is_named(second, third, is_named, tmp_path):
    text = THREE_NORMS.replace("NORM2", second).replace("NORM3", third)
    result = check_text(text, tmp_path)["DecoderLayer"]
    assert result.severe == ["B15"] * is_named
    assert (result.verdict in FINE) == (not is_named)


FED_IN_VAIN = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, dropout, batch_first=True)
        linear1, linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.network = nn.Sequential(linear1, nn.ReLU(), nn.Dropout(dropout), linear2)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, padding=None):
        x = self.norm1(x + self.dropout(self.attention(x, x, x, key_padding_mask=padding)[0]))
        out = self.norm2(x + self.dropout(self.network(x)))
        return x
"""


def test_a_feed_forward_network_whose_output_is_thrown_away_is_named(tmp_path):
    result = check_text(FED_IN_VAIN, tmp_path)["EncoderLayer"]
    assert result.severe == ["B30"], result
    assert check_text(FED_IN_VAIN.replace("return x", "return out"), tmp_path)["EncoderLayer"].verdict in FINE
    with time_to_look(LESS):
        wrong = check_text(FED_IN_VAIN.replace("norm1(x +", "norm1(x.tanh() +"), tmp_path)["EncoderLayer"]
    assert wrong.verdict == "unknown mismatch", wrong


PLAIN_LAYERS = LAYERS.replace("LayerNormalization(d_model), LayerNormalization(d_model)",
                              "nn.LayerNorm(d_model), nn.LayerNorm(d_model)")  # fmt: skip
POOLED = """
class SentenceClassifier(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, num_classes=4, max_len=50):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.ln, self.classifier = nn.LayerNorm(d_model), nn.Linear(d_model, num_classes)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.classifier(self.ln(x[:, 0]))
"""


@pytest.mark.parametrize("used, ids", [("self.ln(x[:, 0])", []), ("x[:, 0]", ["B30"])])
def test_a_norm_after_the_pooling_is_used_there(used, ids, tmp_path):
    """The layers are compared, and nothing of what comes after them: whether it runs tells."""
    result = check_text((PLAIN_LAYERS + POOLED).replace("self.ln(x[:, 0])", used), tmp_path)["SentenceClassifier"]
    assert result.severe == ids, result
    assert bool(ids) or not any("Nothing depends" in note for note in result.notes)


PRETRAINED = """
class Pretrained(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len=50):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.summary, self.follows = nn.LayerNorm(d_model), nn.Linear(d_model, 2)
        self.to_words = nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        first = self.summary(x[:, 0])
        return RETURNED
"""
SEVERAL = ("(self.to_words(x), self.follows(first))", "{'words': self.to_words(x), 'follows': self.follows(first)}",
           "(self.to_words(x), first)")  # fmt: skip


@pytest.mark.parametrize("returned, ids", [
    *((several, []) for several in SEVERAL), ("(self.to_words(x), x)", ["B30"]), ("self.to_words(x)", ["B30"]),
])  # fmt: skip
def test_a_part_on_which_another_of_the_outputs_depends_is_used(returned, ids, tmp_path):
    result = check_text(PLAIN_LAYERS + PRETRAINED.replace("RETURNED", returned), tmp_path)["Pretrained"]
    assert result.severe == ids, result


def test_a_sublayer_that_is_made_and_left_out_is_named_though_its_numbers_are_nobodys(tmp_path):
    """The attention stands in the network's place, by mistake."""
    twice = LAYERS.replace("self.ln2(x + self.network(x))", "self.ln2(x + self.attention(x, x, x)[0])")
    result = check_text(twice.partition("class Encoder(")[0], tmp_path)["EncoderLayer"]
    assert [(one.id, one.form) for one in result.mistakes if one.severity == "mistake"] == [("B30", "self.network")]
    assert result.unexplained


TRANSLATES = """
class Seq2Seq(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, num_heads, num_layers, d_ff, pad=0):
        super().__init__()
        self.src_embedding, self.tgt_embedding = nn.Embedding(src_vocab, d_model), nn.Embedding(tgt_vocab, d_model)
        self.places, self.pad = nn.Embedding(50, d_model), pad
        self.transformer = nn.Transformer(d_model, num_heads, num_layers, num_layers, d_ff, batch_first=True)
        self.out = nn.Linear(d_model, tgt_vocab)

    def forward(self, src, tgt):
        future = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1]) < 0
        x = self.src_embedding(src) + self.places(torch.arange(src.shape[1], device=src.device))
        y = self.src_embedding(tgt) + self.places(torch.arange(tgt.shape[1], device=tgt.device))
        hidden = {"src_key_padding_mask": src == self.pad, "tgt_key_padding_mask": tgt == self.pad}
        return self.out(self.transformer(x, y, tgt_mask=future, memory_key_padding_mask=src == self.pad, **hidden))
"""
ONE_VOCABULARY = TRANSLATES.replace("src_vocab, tgt_vocab,", "vocab,").replace("(tgt_vocab", "(vocab").replace(
    "(src_vocab", "(vocab").replace(", tgt_vocab)", ", vocab)")  # fmt: skip
SOURCES_TABLE = "the target's tokens are looked up in the source's embedding, and the target's is unused"


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize(
    ("text", "form", "line"),
    [(TRANSLATES, SOURCES_TABLE, "y = "), (ONE_VOCABULARY, "self.tgt_embedding", "self.src_embedding, ")],
    ids=["two vocabularies", "one"],
)
def test_an_embedding_that_the_other_language_stands_in_for_is_named(text, form, line, tmp_path):
    with time_to_look(1):
        result = check_text(text, tmp_path)["Seq2Seq"]
    found = [one for one in result.mistakes if one.severity == "mistake"]
    assert [(one.id, one.form) for one in found] == [("B30", form)], result
    assert (IMPORTS + text).splitlines()[found[0].line - 1].strip().startswith(line)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_a_table_with_more_rows_than_words_has_places_whatever_it_is_called(tmp_path):
    """Their number is written in, and nothing speaks of positions."""
    right = check_text(TRANSLATES.replace("y = self.src", "y = self.tgt"), tmp_path)["Seq2Seq"]
    assert right.verdict in FINE, right


WITHOUT_MASKS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, heads, d_model, dropout=0.1):
        super().__init__()
        assert d_model % heads == 0, "heads must divide d_model"
        self.heads, self.dropout, self.norm = heads, nn.Dropout(dropout), nn.LayerNorm(d_model)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        given = zip((query, key, value), (self.to_q, self.to_k, self.to_v))
        q, k, v = (made(one).unflatten(-1, (self.heads, -1)).transpose(1, 2) for one, made in given)
        weights = (q @ k.mT / math.sqrt(k.shape[-1])).softmax(-1)
        return self.to_out((self.dropout(weights) @ v).transpose(1, 2).flatten(2))
"""


def test_a_mask_that_is_ignored_beside_a_norm_that_is_never_used_is_named(tmp_path):
    result = check_text(WITHOUT_MASKS, tmp_path)["MultiHeadAttention"]
    assert (result.verdict, result.ids) == ("mistake", ["A24", "B30"]), result
