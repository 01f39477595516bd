"""The page as a file; what it does is tested in a browser, `tox -e view`."""

import dataclasses
import json
import re

import pytest
import torch

from scratch_transformer.translation.checkpoint import load_run
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.trained import FOLDER
from scratch_transformer.view import page, payload
from scratch_transformer.view.page import DEFAULT, default_sentence


@pytest.fixture(scope="module")
def run():
    return load_run(FOLDER)


@pytest.fixture(scope="module")
def html(run):
    return page(run, "forty-two")


def data(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def test_it_is_one_file_of_at_most_two_megabytes(html):
    assert len(html.encode()) < 2e6
    assert not re.search(r"<(link|img|script|iframe)[^>]*(src|href)=[\"'](?!data:)", html)
    assert not re.search(r"url\((?!data:)", html)
    assert html.count("</script>") == 2


def test_it_has_the_recorded_run(html, run):
    recorded = data(html)["recorded"]
    assert recorded["sentence"] == "forty-two"
    assert recorded["torch"]["width"] == 8
    assert [name for name, _ in recorded["torch"]["tensors"]] == [
        *payload.traced(run, "forty-two").names,
        "probabilities",
    ]


def test_its_examples_are_pythons(html, run):
    pairs = data(html)["examples"]
    assert len(pairs) == 1 + payload.EXAMPLES
    assert pairs[0] == ["forty-two", "zweiundvierzig"]
    held_out = dict(run.held_out())
    assert sum(held_out[text] == translation for text, translation in pairs[1:]) >= 39


def test_a_long_sentence_is_recorded_in_float32(run):
    text = "nine hundred and eighty-seven thousand, six hundred and fifty-four " * 2
    assert payload.record(payload.traced(run, text))["torch"]["width"] == 4
    assert len(page(run, text).encode()) < 2e6


def test_text_cannot_end_the_script(run):
    html = page(run, "one </script><script>alert(1)</script> <!--")
    assert html.count("</script>") == 2
    assert data(html)["recorded"]["sentence"] == "one </script><script>alert(1)</script> <!--"


def test_the_default_sentence(run):
    assert default_sentence(run) == DEFAULT
    other = dataclasses.replace(run, config=run.config.replace(**{"data.source": "it"}))
    assert default_sentence(other) == run.held_out()[0][0]


def test_a_model_that_is_too_large_is_refused(run, monkeypatch):
    monkeypatch.setattr(payload, "MOST_PARAMETERS", 1000)
    with pytest.raises(InputError, match=r"parameters: expected at most 1,000, for a page"):
        page(run, "seven")


def test_stacks_of_different_depth_are_refused(run):
    deeper = dataclasses.replace(run, config=run.config.replace(**{"model.decoder_layers": 3}))
    with pytest.raises(InputError, match=r"2 layers in the encoder and 3 in the decoder: expected as many, for a page"):
        page(deeper, "seven")


def test_vocabularies_that_the_page_cannot_read_are_refused(run):
    bytes_too = run.config.replace(**{"tokens.byte_fallback": True, "tokens.vocab_size": 300, "tokens.shared": True,
                                      "tokens.target_vocab_size": None})  # fmt: skip
    with pytest.raises(InputError, match=r"reads no bytes and no ready vocabularies: expected one without"):
        page(dataclasses.replace(run, config=bytes_too), "seven")


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "is empty"), ("one " * 500, "501 tokens"), ("日本", "knows nothing")],
    ids=["empty", "long", "unknown"],
)
def test_what_cannot_be_read_is_refused(text, says, run):
    with pytest.raises(InputError, match=says):
        page(run, text)


def test_the_run_is_left_as_it_was(run):
    before = {name: values.clone() for name, values in run.model.state_dict().items()}
    payload.payload(run, "seven")
    for name, values in run.model.state_dict().items():
        assert values.dtype == torch.float32 and torch.equal(values, before[name])
