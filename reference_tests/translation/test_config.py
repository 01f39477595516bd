"""Settings: what they may be, their form in JSON, the presets."""

import json

import pytest

from scratch_transformer.translation import config
from scratch_transformer.translation.errors import InputError


@pytest.mark.parametrize("name", config.PRESETS)
def test_a_preset_comes_back_from_json(name):
    preset = config.preset(name)
    assert config.Config.from_json(json.loads(json.dumps(preset.to_json()))) == preset


def test_the_papers_models():
    """Vaswani et al. 2017, table 3, and section 5."""
    base, big = config.preset("base"), config.preset("big")
    assert (base.model.d_model, base.model.num_heads, base.model.d_ff, base.model.dropout) == (512, 8, 2048, 0.1)
    assert (big.model.d_model, big.model.num_heads, big.model.d_ff, big.model.dropout) == (1024, 16, 4096, 0.3)
    for preset, steps in ((base, 100_000), (big, 300_000)):
        assert (preset.model.num_layers, preset.model.norm, preset.model.share_embeddings) == (6, "post", "all")
        assert (preset.tokens.kind, preset.tokens.vocab_size, preset.tokens.shared) == ("bpe", 37_000, True)
        assert (preset.training.steps, preset.training.warmup_steps, preset.training.label_smoothing) == (
            steps,
            4000,
            0.1,
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"training.steps": 0}, "training.steps is 0: expected a whole number from 1 to 99999999"),
        ({"training.steps": 1.5}, "training.steps is 1.5: expected a whole number"),
        ({"training.steps": True}, "training.steps is True: expected a whole number"),
        ({"training.steps": None}, "training.steps is None: expected a whole number"),
        ({"training.clip": float("nan")}, "training.clip is nan: expected a number of at least 0"),
        ({"training.lr_factor": float("inf")}, "training.lr_factor is inf: expected a number from 0 to 1000000"),
        ({"model.dropout": 1}, "model.dropout is 1: expected a number from 0 to below 1"),
        ({"model.norm": "mid"}, "model.norm is 'mid': expected one of pre, post"),
        ({"tokens.kind": 3}, "tokens.kind is 3: expected a text"),
        ({"tokens.shared": 1}, "tokens.shared is 1: expected true or false"),
        ({"data.pairs": 0}, "data.pairs is 0: expected a whole number of at least 1"),
        ({"model.d_model": 130}, "model.d_model is 130: expected a multiple of model.num_heads, 4"),
        ({"model.share_embeddings": "all"}, "expected tokens.shared=true, one vocabulary of both languages"),
        ({"training.batch_tokens": 100}, "expected at least data.max_length, 128, or the longest pair fits no batch"),
        ({"data.hub": " "}, "data.hub is ' ': expected the name of a data set, or a folder"),
        ({"data.tsv": "a", "data.hub": "b"}, "the data are given twice, as tsv and hub: expected one of them"),
        ({"data.source_file": "a"}, "data.target_file is missing: source_file and target_file belong together"),
        ({"data.target_file": "a"}, "data.source_file is missing"),
        ({"tokens.shared": True, "tokens.target_vocab_size": 9}, "tokens.target_vocab_size is for two vocabularies"),
        ({"tokens.shared": True, "tokens.target_file": "t.json"}, "tokens.target_file is for two vocabularies"),
        ({"tokens.file": "t.json"}, "tokens.file and tokens.target_file belong together"),
        ({"tokens.target_file": "t.json"}, "tokens.file and tokens.target_file belong together"),
        ({"tokens.byte_fallback": True}, "a vocabulary of more than 260 tokens, 256 of which are the bytes, but they"),
        (
            {"tokens.byte_fallback": True, "tokens.kind": "char", "tokens.vocab_size": 999},
            "but they are 'char' and 999",
        ),
        ({"training.step": 1}, "there is no setting 'training.step'; is it training.steps?"),
        ({"steps": 1}, "there is no setting 'steps'"),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(InputError) as caught:
        config.Config().replace(**settings)
    assert message in str(caught.value)


def test_replace_changes_one_setting():
    changed = config.Config().replace(**{"model.dropout": 0.25})
    assert changed.model.dropout == 0.25
    assert changed.replace(**{"model.dropout": 0.0}) == config.Config()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("training.steps", "12", 12),
        ("training.clip", "0.5", 0.5),
        ("tokens.shared", "true", True),
        ("tokens.shared", "false", False),
        ("data.pairs", "none", None),
        ("data.pairs", "7", 7),
        ("data.source", "none", "none"),
    ],
)
def test_a_setting_as_text(name, text, value):
    parsed = config.Config.parse(name, text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("training.steps", "many", "training.steps is 'many': expected a whole number"),
        ("training.steps", "none", "training.steps is 'none': expected a whole number"),
        ("tokens.shared", "1", "tokens.shared is '1': expected true or false"),
        ("model.dropuot", "0", "there is no setting 'model.dropuot'; is it model.dropout?"),
    ],
)
def test_a_text_that_is_no_setting(name, text, message):
    with pytest.raises(InputError) as caught:
        config.Config.parse(name, text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "c.json: is no configuration of this program"),
        ({}, "c.json: is no configuration of this program"),
        ({"format": "bert"}, "c.json: is no configuration of this program"),
        ({"format": config.FORMAT, "extra": {}}, "c.json: 'extra' is no section of a configuration"),
        ({"format": config.FORMAT, "model": 3}, "c.json: 'model' is no section of a configuration"),
        ({"format": config.FORMAT, "model": {"d_modle": 3}}, "c.json: there is no setting 'model.d_modle'"),
        ({"format": config.FORMAT, "model": {"d_model": "3"}}, "c.json: model.d_model is '3': expected a whole number"),
    ],
)
def test_a_file_that_is_no_configuration(document, message):
    with pytest.raises(InputError) as caught:
        config.Config.from_json(document, where="c.json")
    assert message in str(caught.value)
