"""Homework and first attempts: what is unusual and right is no mistake, what stops or gives NaN is named."""

import importlib
import sys

import pytest
import torch

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.discover import repair
from scratch_transformer.kit.discover.target import find
from scratch_transformer.kit.judge.stops import undefined
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve import foreign, guess
from scratch_transformer.kit.resolve.call.plan import Plan
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.trials import misfits
from scratch_transformer.kit.resolve.trials.mask_search import with_required_masks

pytestmark = pytest.mark.long


@pytest.fixture
def defined(tmp_path, monkeypatch):
    """The definitions of some lines of a learner's, which can be read as those of a file."""

    def define(text):
        (tmp_path / "first_attempt.py").write_text(IMPORTS + text)
        monkeypatch.syspath_prepend(str(tmp_path))
        return vars(importlib.import_module("first_attempt"))

    yield define
    sys.modules.pop("first_attempt", None)


# ---- No mistakes ----

SINGLE = """
class Attention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))
        self.width = d_model

    def forward(self, q, k, v, mask):
        scores = self.query(q) @ self.key(k).transpose(1, 2) / math.sqrt(self.width)
        return self.out(scores.masked_fill(mask.unsqueeze(1) == 0, float("-inf")).softmax(-1) @ self.value(v))


class TransformerBlock(nn.Module):
    def __init__(self, d_model, d_ff=32):
        super().__init__()
        self.attention = Attention(d_model)
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask):
        y = self.norm_1(x)
        x = x + self.attention(y, y, y, mask)
        return x + self.network(self.norm_2(x))
"""


def test_a_layer_that_is_told_nothing_of_heads_has_one_as_its_attention(tmp_path):
    results = check_text(SINGLE, tmp_path)
    assert [results[name].verdict in FINE for name in ("Attention", "TransformerBlock")] == [True, True]
    assert "A13" not in results["TransformerBlock"].ids


@pytest.mark.parametrize("shape", ["(B, S)", "(B, 1, S)", "(B, 1, 1, S)", "(B, 1, T, S)"])
def test_a_mask_that_must_be_given_is_tried_in_every_usual_shape(shape):
    """What takes another with one sentence alone would be said to stop with more."""
    plan = Plan({"ids": "ids"}, mask_parameters=(("mask", "mask", True),))
    assert shape in {form.shape for way in with_required_masks(plan, every=True) for _, form in way.masks.values()}


FLAT_NORM = """
class Normalization(nn.Module):
    def __init__(self, tokens, d_model):
        super().__init__()
        self.shape, self.scale = (tokens, d_model), nn.Parameter(torch.ones(tokens * d_model))

    def forward(self, x):
        flat = x.view(-1, self.shape[0] * self.shape[1])
        flat = (flat - flat.mean(-1, keepdim=True)) / flat.std(-1, keepdim=True)
        return (self.scale * flat).view(-1, *self.shape)


class EncoderBlock(nn.Module):
    def __init__(self, sequence_length, d_model, num_heads):
        super().__init__()
        self.norm = Normalization(sequence_length MORE, d_model)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x):
        y = self.norm(x)
        return x + self.attention(y, y, y)[0]
"""


@pytest.mark.parametrize("more, stops", [("+ 1", False), ("+ 9", True)])
def test_what_is_meant_for_a_token_of_the_class_fits_with_one_token_more(more, stops, defined):
    thing, kind = defined(FLAT_NORM.replace("MORE", more))["EncoderBlock"], KINDS["EncoderLayer"]
    with pytest.raises(RuntimeError) as error:
        thing(5, 12, 3)(torch.randn(2, 4, 12))
    assert (misfits.finding(thing, kind, Library(KINDS), error.value) is not None) == stops


HEADS = """
class ClassificationLayer(nn.Module):
    def __init__(self, d_model, LABELS):
        super().__init__()
        self.classifier = nn.Linear(d_model, LABELS)

    def forward(self, x):
        return self.classifier(x)
"""


@pytest.mark.parametrize("labels", ["num_labels", "vocab_size"])
def test_one_linear_layer_is_no_network(labels, defined):
    thing = defined(HEADS.replace("LABELS", labels))["ClassificationLayer"]
    assert guess.kinds_of("ClassificationLayer", thing, KINDS)[:1] == ("Projection",)


BERT = """
class StackedEncoderLayer(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, N):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.segment_embedding, self.positions = nn.Embedding(3, d_model), nn.Embedding(64, d_model)
        made = [nn.TransformerEncoderLayer(d_model, num_heads, 32, batch_first=True) for _ in range(N)]
        self.layers = nn.ModuleList(made)

    def forward(self, x, mask, segment):
        y = self.words(x) + self.segment_embedding(segment) + self.positions(torch.arange(x.shape[1]))
        for layer in self.layers:
            y = layer(y, src_key_padding_mask=mask)
        return y


class BERT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, N):
        super().__init__()
        self.encoder = StackedEncoderLayer(vocab_size, d_model, num_heads, N)
        self.words, self.pairs = nn.Linear(d_model, vocab_size), nn.Linear(d_model, 2)

    def forward(self, x, segment):
        y = self.encoder(x, x == 0, segment)
        return self.words(y), self.pairs(y[:, 0])
"""


TABLE = """
class Table(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(rows, width))

    def forward(self, ids):
        return self.vectors[ids]
"""


@pytest.mark.parametrize("text", [BERT, TABLE + BERT.replace("nn.Embedding(", "Table(")], ids=["torch's", "its own"])
def test_segments_beside_the_ids_are_no_second_sequence_and_no_stack_of_layers_is_one(text, tmp_path):
    results = check_text(text, tmp_path)
    results.pop("Table", None)
    assert {name: result.kind for name, result in results.items()} == dict.fromkeys(results, "TokenEncoder")
    assert [results[name].verdict in FINE for name in ("StackedEncoderLayer", "BERT")] == [True, True]


NAMED = (
    SINGLE
    + """
class AttentionEncoder(nn.Module):
    def __init__(self, d_model, d_ff=32):
        super().__init__()
        self.attention, self.norm_1, self.norm_2 = Attention(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask):
        before = x.clone()
        x = self.norm_1(self.attention(x, x, x, mask) + before)
        return self.norm_2(self.network(x) + x)


class PositionWiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x, lengths):
        rows = [row * (torch.arange(len(row)) < n).unsqueeze(-1) for row, n in zip(x, lengths)]
        return self.down(self.up(torch.stack(rows)).relu())
"""
)


def test_a_layer_that_is_called_attention_and_a_network_that_is_told_lengths_are_judged(tmp_path):
    results = check_text(NAMED, tmp_path)
    named = {"AttentionEncoder": "EncoderLayer", "PositionWiseFeedForward": "FeedForward"}
    assert {name: results[name].kind for name in named} == named
    assert [results[name].verdict in FINE for name in named] == [True, True]


HIDES_BOTH = """
class CausalSelfAttention(nn.Module):
    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.heads = num_attention_heads
        self.query, self.key, self.value = (nn.Linear(hidden_size, hidden_size) for _ in range(3))

    def forward(self, hidden_states, attention_mask):
        q, k, v = (f(hidden_states).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min) + attention_mask.to(scores.dtype)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
"""


def test_what_is_causal_by_itself_and_must_be_given_a_mask_is_given_one_that_hides_nothing(tmp_path):
    result = check_text(HIDES_BOTH, tmp_path)["CausalSelfAttention"]
    assert (result.kind, result.verdict in FINE) == ("CausalSelfAttention", True)


HEAD = """
class Head(nn.Module):
    def __init__(self, n_in, n_head, context_length):
        super().__init__()
        self.head_size = n_head
        self.key, self.query, self.value = (nn.Linear(n_in, n_head, bias=False) for _ in range(3))

    def forward(self, x):
        weights = self.query(x) @ self.key(x).transpose(-2, -1) * (1.0 / math.sqrt(self.head_size))
        return weights.softmax(-1) @ self.value(x)
"""


def test_what_a_class_of_one_head_is_told_as_n_head_is_its_width(tmp_path):
    result = check_text(HEAD, tmp_path)["Head"]
    assert result.verdict in FINE and "A13" not in result.ids


OF_WEIGHTS = """
class Config:
    hidden_size, num_attention_heads, intermediate_size, attention_dropout = 12, 3, 32, 0.1


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.of = nn.MultiheadAttention(
            config.hidden_size, config.num_attention_heads, config.attention_dropout, batch_first=True
        )

    def forward(self, x):
        return self.of(x, x, x)[0]


class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.attention, self.norm_1, self.norm_2 = Attention(config), nn.LayerNorm(width), nn.LayerNorm(width)
        self.network = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
        MORE

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.network(self.norm_2(x))
"""


@pytest.mark.parametrize("more, ids", [("", []), ("self.dropout = nn.Dropout(config.dropout)", ["B6"])])
def test_a_dropout_of_the_attentions_weights_is_not_asked_of_the_sums(more, ids, tmp_path):
    text = OF_WEIGHTS.replace("MORE", more)
    result = check_text(text.replace("0.1", "0.1\n    dropout = 0.1") if more else text, tmp_path)["EncoderLayer"]
    assert [one.id for one in result.mistakes if one.id == "B6"] == ids


NONE = """
class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, key, value, query):
        weights = torch.bmm(key, query.unsqueeze(2)).squeeze(2).softmax(1)
        return torch.bmm(weights.unsqueeze(1), value).squeeze(1)


class RMSNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        # Your code here.
        return output


class TransformerModel(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.pool, self.layers = nn.AdaptiveAvgPool2d((1, 1)), nn.TransformerEncoderLayer(d_model, 2)

    def forward(self, x):
        return self.pool(self.layers(x))
"""


def test_what_is_no_transformer_or_not_written_yet_is_said_to_be_so(defined):
    found = defined(NONE)
    why = {name: foreign.why_not(found[name]) for name in ("Attention", "RMSNorm", "TransformerModel")}
    assert why == {
        "Attention": "it attends with one state at a time, as a recurrent decoder does",
        "RMSNorm": "not written yet",
        "TransformerModel": "of images: AdaptiveAvgPool2d",
    }


PLANES = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(d_model, d_ff, 1), NORM(d_ff), nn.ReLU(), nn.Conv2d(d_ff, d_model, 1))

    def forward(self, x):
        return self.network(x.transpose(1, 2).unsqueeze(-1)).squeeze(-1).transpose(1, 2)
"""


@pytest.mark.parametrize("norm, why", [("nn.BatchNorm2d", "of images: BatchNorm2d"), ("nn.Identity", "")])
def test_a_norm_of_planes_is_of_images_and_none_over_the_wrong_axis(norm, why, defined):
    """It would be LN7, as nn.BatchNorm1d is in a network of tokens."""
    assert foreign.why_not(defined(PLANES.replace("NORM", norm))["FeedForward"]) == why


# ---- Mistakes ----

ADDED = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
                   for f, x in zip((self.q, self.k, self.v), (query, key, value)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + HIDDEN
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


def test_nothing_times_infinity_is_no_number(tmp_path):
    text = ADDED.replace("HIDDEN", 'mask.logical_not().to(q.dtype) * float("-inf")')
    result = check_text(text, tmp_path)["MultiHeadAttention"]
    (severe,) = [one for one in result.mistakes if one.severity == "mistake"]
    assert (severe.id, severe.form, severe.line) == ("A4", "the mask times -inf", 19) and not result.unexplained
    right = check_text(ADDED.replace("HIDDEN", "(mask.double() - 1) * 1e9"), tmp_path)["MultiHeadAttention"]
    assert right.verdict in FINE


ALONG_THE_BATCH = """
class TransformerLM(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(50, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, 32FIRST)
        self.layers, self.head = nn.TransformerEncoder(layer, num_layers), nn.Linear(d_model, vocab_size)

    def forward(self, x):
        x = self.embedding(x) + self.positions(torch.arange(x.size(1))).unsqueeze(0)
        return self.head(self.layers(x))
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first, ids", [("", ["P4", "A25"]), (", batch_first=True", ["A25"])])
def test_learned_positions_before_torchs_layers_without_batch_first(first, ids, tmp_path):
    result = check_text(ALONG_THE_BATCH.replace("FIRST", first), tmp_path)["TransformerLM"]
    assert result.severe == ids, result


ASKED = ADDED.replace("unflatten(-1, (self.h, -1))", "view(len(query), query.shape[1], self.h, -1)")


def test_a_mask_that_is_asked_whether_it_is_true_is_said_to_be_what_stops(tmp_path):
    """Not that there may be more keys than queries, of which it is told apart."""
    text = ASKED.replace("mask is not None", "mask").replace("HIDDEN", "(mask.double() - 1) * 1e9")
    result = check_text(text, tmp_path)["MultiHeadAttention"]
    (one,) = [one for one in result.mistakes if one.id == "A31"]
    assert "Boolean value of Tensor" in one.evidence


LOADED = """
class Block(nn.Module):
    def forward(self, x):
        y = self.attention(q=x, x)
        x = x + yAGAIN
        return x + y
"""


@pytest.mark.parametrize("again", ["", "\n        y = self.network(x)"])
def test_a_value_that_an_unreadable_line_would_give_is_missed(again, tmp_path):
    """As the line is left out, so is what it would have set."""
    path = tmp_path / "unread.py"
    path.write_text(IMPORTS + LOADED.replace("AGAIN", again))
    source, notes = repair.repaired(find(str(path)).sources[0])
    own = {"__repaired__": tuple(notes), "__file__": str(path), "__name__": "unread"}
    exec(compile(source.text, str(path), "exec"), own)
    with pytest.raises(NameError) as stopped:
        own["Block"]()(torch.ones(2))
    found = undefined.finding(stopped.value)
    assert found is not None and "y = self.attention(q=x, x)" in found.evidence


WORDS = """
class LanguageModel(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, embedding_matrix):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(embedding_matrix)
        self.hidden, self.out = nn.Linear(embedding_dim * 5, hidden_dim), nn.Linear(hidden_dim, vocab_size)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(self.embedding(x).flatten(1))))
"""


def test_a_model_that_is_given_a_table_of_words_may_attend_to_nothing(defined):
    assert foreign.attends_to_nothing(defined(WORDS)["LanguageModel"], "DecoderOnly") == "it attends to nothing"
