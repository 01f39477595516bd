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


@pytest.mark.parametrize("labels, kinds", [("num_labels", ()), ("vocab_size", ("Projection",))])
def test_one_linear_layer_is_no_network(labels, kinds, defined):
    thing = defined(HEADS.replace("LABELS", labels))["ClassificationLayer"]
    assert guess.kinds_of("ClassificationLayer", thing, KINDS)[:1] == kinds


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
    assert [one.id for one in result.mistakes if one.severity == "mistake"] == ids, result


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
