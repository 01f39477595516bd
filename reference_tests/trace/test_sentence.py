"""The trace of a trained run: its sentence, its tokens, and what it chose."""

import json

import pytest
import torch

from scratch_transformer.trace import to_document, trace
from scratch_transformer.translation import translator
from scratch_transformer.translation.checkpoint import load_run
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.trained import FOLDER


@pytest.fixture(scope="module")
def run():
    return load_run(FOLDER)


@pytest.fixture(scope="module")
def found(run):
    return trace(run, "forty-two")


def test_the_sentence_and_its_tokens(found):
    about = found.about
    assert (about["source"], about["translation"]) == ("forty-two", "zweiundvierzig")
    assert about["source_tokens"] == ["▁forty", "-", "two", "<eos>"]
    assert about["target_tokens"] == ["<bos>", "▁", "zwei", "und", "vier", "zig"]
    assert about["next_tokens"] == [*about["target_tokens"][1:], "<eos>"]
    assert about["sizes"] == {"B": 1, "S": 4, "T": 6, "d_model": 64, "h": 4, "d_k": 16, "d_ff": 128, "V": 64}


def test_the_tokens_are_what_the_logits_say(found, run):
    logits = found["projection_layer.proj"].tensor[0]
    assert logits.argmax(-1).tolist() == found.about["next_ids"]
    (hypotheses,) = translator.translate(run, [found.about["source_ids"]], translator.Search())
    assert hypotheses[0].ids == found.about["next_ids"][:-1]


def test_the_letters_are_the_sizes(found):
    for point in found:
        sizes = [1 if letter == "1" else found.about["sizes"][letter] for letter in point.letters]
        assert list(point.shape) == sizes, point.name


def test_torch_is_close(found):
    assert all(point.torch is not None for point in found)
    assert all(point.error < 1e-5 for point in found) and found.difference < 1e-4


def test_in_float64_torch_is_equal():
    double = load_run(FOLDER)
    double.model.double()
    for sentence in ("zero", "nine hundred and eighty-seven thousand, six hundred and fifty-four"):
        assert max(point.error for point in trace(double, sentence)) < 1e-12


def test_a_document_has_all_of_it(found):
    document = json.loads(json.dumps(to_document(found)))
    assert document["translation"] == "zweiundvierzig" and len(document["points"]) == len(found) > 150
    assert len(json.dumps(document)) < 2_000_000


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("", "the sentence is empty: expected a sentence"),
        ("   ", "the sentence is empty"),
        ("☃ ☃☃", "the model knows nothing of '☃ ☃☃'"),
        ("one " * 500, "the sentence has 501 tokens with its end, but the model reads at most 128"),
        ("\udcff", "the sentence is not text in UTF-8"),
    ],
)
def test_what_cannot_be_read(run, sentence, message):
    with pytest.raises(InputError, match=message):
        trace(run, sentence)


def test_a_run_takes_a_sentence(run):
    with pytest.raises(TypeError, match="a run translates one sentence: expected a str"):
        trace(run, torch.tensor([[4, 5]]))
